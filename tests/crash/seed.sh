#!/usr/bin/env bash
# Puts a bug into a copy of a source file, for a negative control.   seed.sh SOURCE BUG.sed OUT
# Each place that the bug goes to is marked "seeded" by the script; all of them must be found.
set -euo pipefail
sed -f "$2" "$1" >"$3"
wanted=$(grep -o 'seeded' "$2" | wc -l)
found=$(grep -o 'seeded' "$3" | wc -l)
if [ "$found" -ne "$wanted" ]; then
    echo "$2: $found of $wanted places found in $1" >&2
    rm -f "$3"
    exit 1
fi
