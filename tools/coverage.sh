#!/usr/bin/env bash
# Line and branch coverage of the coverage preset's last test run. src/core must reach 100 % of
# both; the other modules are shown. The pages are in build/coverage/html.
set -euo pipefail
cd "$(dirname "$0")/.."
objects=build/coverage

mkdir -p $objects/html
common=(--root . --object-directory $objects --exclude-unreachable-branches --gcov-ignore-parse-errors)
gcovr "${common[@]}" --filter 'src/' --html-details $objects/html/index.html >/dev/null
for metric in lines branches; do
    option=()
    [ $metric = branches ] && option=(--branches)
    printf '\n%s\n' "$metric"
    gcovr "${common[@]}" --filter 'src/' "${option[@]}" | sed -n '/^src/p;/^TOTAL/p'
done
echo
gcovr "${common[@]}" --filter 'src/core/' --fail-under-line 100 --fail-under-branch 100 \
    --print-summary | tail -3
