#!/bin/sh
# Every shell file of the project through shellcheck.
cd "$(dirname "$0")/../.." || exit 1
echo 1..1
files=$(git ls-files -co --exclude-standard 2>/dev/null || find . -type f)
list=
for f in $files; do
    [ -f "$f" ] || continue
    case $f in
    *.c | *.h | *.md | *.yaml | *.mustache | *.json | tests/fuzz/corpus/*) continue ;;
    esac
    if head -c 64 "$f" | head -1 | grep -Eq '^#!.*/(env )?(ba|da|a)?sh'; then
        list="$list $f"
    elif [ "${f%.sh}" != "$f" ]; then
        list="$list $f"
    fi
done
# shellcheck disable=SC2086
if shellcheck -S warning -e SC1090,SC1091 $list; then
    echo "ok 1 - shellcheck"
else
    echo "not ok 1 - shellcheck"
    exit 1
fi
