#!/bin/sh
# cppcheck over the C sources. What it finds across files does not touch its exit code: its output decides.
cd "$(dirname "$0")/../.." || exit 1
echo 1..1
mkdir -p build/cppcheck
found=$(cppcheck -q -j "$(nproc)" --cppcheck-build-dir=build/cppcheck --std=c11 --language=c \
    --enable=warning,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro \
    --suppress=normalCheckLevelMaxBranches --suppress=nullPointerRedundantCheck \
    -D_GNU_SOURCE '-DCLUSTERD_VERSION="0"' -Isrc -Iinclude src 2>&1) || found="$found
cppcheck's exit code: $?"
if [ -z "$found" ]; then
    echo "ok 1 - cppcheck"
else
    echo "not ok 1 - cppcheck"
    printf '%s\n' "$found" | sed 's/^/# /'
    exit 1
fi
