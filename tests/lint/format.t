#!/bin/sh
# clang-format: one style, checked by a machine.
cd "$(dirname "$0")/../.." || exit 1
echo 1..1
if find src include tests \( -name '*.c' -o -name '*.h' \) -print0 | xargs -0 clang-format --dry-run -Werror; then
    echo "ok 1 - clang-format"
else
    echo "not ok 1 - clang-format: run clang-format -i on the files above"
    exit 1
fi
