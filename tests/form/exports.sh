#!/usr/bin/env bash
# The shared library exports what the public headers declare with RATION_API, and nothing else.
#
#     exports.sh NM LIBRARY INCLUDE_FOLDER
#     exports.sh --control NM LIBRARY INCLUDE_FOLDER     a declaration without a function is found
set -euo pipefail

if [ "$1" = --control ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cp -r "$4/ration" "$folder"
    echo 'RATION_API int ration_planted(void);' >>"$folder/ration/clock.h"
    ! "$0" "$2" "$3" "$folder"
    exit
fi

declared=$(cat "$3"/ration/*.h | tr '\n' ' ' | grep -oE 'RATION_API [^;(]*\(' |
    grep -oE 'ration_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u)
exported=$("$1" -D --defined-only "$2" | awk '$2 ~ /^[A-Z]$/ && $2 != "A" { print $3 }' | sed 's/@.*//' | sort -u)

[ -n "$declared" ] || { echo "found no declarations" >&2; exit 1; }
diff <(echo "$declared") <(echo "$exported") || {
    echo "declared (<) and exported (>) differ" >&2
    exit 1
}
echo "$(wc -l <<<"$exported") functions, each declared and exported"
