#!/usr/bin/env bash
# Line and branch coverage of the last test run of the coverage preset. Fails unless src/core has 100 % of both.
#
#     tools/coverage.sh        src/core
#     tools/coverage.sh all    every module, too, with pages in build/coverage/html
set -euo pipefail
cd "$(dirname "$0")/.."
objects=build/coverage
common=(--root . --object-directory "$objects" --exclude-unreachable-branches --gcov-ignore-parse-errors)

if [ "${1-}" = all ]; then
    mkdir -p $objects/html
    gcovr "${common[@]}" --filter 'src/' --html-details $objects/html/index.html >/dev/null
    for metric in lines branches; do
        option=()
        [ $metric = branches ] && option=(--branches)
        printf '\n%s\n' "$metric"
        gcovr "${common[@]}" --filter 'src/' "${option[@]}" | sed -n '/^src/p;/^TOTAL/p'
    done
    echo
fi
gcovr "${common[@]}" --filter 'src/core/' --fail-under-line 100 --fail-under-branch 100 \
    --print-summary | tail -3
