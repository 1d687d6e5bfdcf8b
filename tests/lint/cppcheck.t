#!/bin/sh
# cppcheck over the C sources.
cd "$(dirname "$0")/../.." || exit 1
echo 1..1
mkdir -p build/cppcheck
if cppcheck -q -j "$(nproc)" --cppcheck-build-dir=build/cppcheck --std=c11 --language=c \
    --enable=warning,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro \
    --suppress=normalCheckLevelMaxBranches --suppress=nullPointerRedundantCheck \
    -D_GNU_SOURCE '-DCLUSTERD_VERSION="0"' -Isrc -Iinclude src; then
    echo "ok 1 - cppcheck"
else
    echo "not ok 1 - cppcheck"
    exit 1
fi
