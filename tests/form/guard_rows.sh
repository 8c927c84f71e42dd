#!/usr/bin/env bash
# Every function that the shared library exports is called by a row of guard_page_test.
#
#     guard_rows.sh NM LIBRARY GUARD_PAGE_TEST
#     guard_rows.sh --control NM LIBRARY GUARD_PAGE_TEST     a function without a row is found
set -euo pipefail

control=false
if [ "$1" = --control ]; then
    control=true
    shift
fi

called=$("$3" --names | tr ' ' '\n' | sort -u)
exported=$("$1" -D --defined-only "$2" | awk '$2 ~ /^[A-Z]$/ && $2 != "A" { print $3 }' | sed 's/@.*//' | sort -u)
[ -n "$exported" ] || { echo "found no exported function" >&2; exit 1; }
if $control; then
    ! diff <(sed 1d <<<"$called") <(echo "$exported") >/dev/null
    exit
fi
diff <(echo "$called") <(echo "$exported") || {
    echo "functions with a row (<) and exported functions (>) differ: add rows to tests/unit/api/guard_page_*.c" >&2
    exit 1
}
echo "$(wc -l <<<"$exported") exported functions, each with a row"
