#!/bin/bash
# Specs by way of clusterctl lint: the examples and the documentation are what they say they are.
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
ctl=$BUILD/clusterctl
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0 failed=0

check() { # NAME RC
    n=$((n + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        failed=1
        sed 's/^/# /' "$tmp/out"
    fi
}

lint() { "$ctl" lint "$1" --profiles profiles >"$tmp/out" 2>&1; }

lint docs/examples/lab.yaml && ! grep -q warning "$tmp/out"
check "the lab's spec has neither errors nor warnings" $?

lint docs/examples/atlas.yaml
check "the larger example has no errors" $?

# the blocks of docs/spec.md: the spec, and the CSV file that it names
awk -v dir="$tmp" '/^```yaml$/ { out = dir "/spec.yaml"; next }
    /^```csv$/ { out = dir "/rack1.csv"; next }
    /^```$/ { out = ""; next }
    out != "" { print > out }' docs/spec.md
lint "$tmp/spec.yaml"
check "the example of docs/spec.md has no errors" $?

# every key that the tables of docs/spec.md explain is in its example
missing=
# shellcheck disable=SC2016 # the backquotes are Markdown's
while read -r key; do
    grep -qE "(^|[ {])${key##*.}:" "$tmp/spec.yaml" || missing="$missing $key"
done < <(sed -n 's/^| \(`[^|]*`\) |.*/\1/p' docs/spec.md | grep -o '`[a-z_.]*`' | tr -d '`')
echo "not in the example:$missing" >"$tmp/out"
[ -z "$missing" ]
check "the example uses every key that the page explains" $?

! lint tests/system/data/ten-mistakes.yaml && [ "$(grep -c '^tests/system/data/ten-mistakes.yaml:[0-9]*:[0-9]*: ' "$tmp/out")" -eq 10 ]
check "ten mistakes are ten errors in one run" $?

! grep -q secret123 "$tmp/out"
check "a password in the wrong place is not repeated" $?

echo "1..$n"
exit "$failed"
