#!/usr/bin/env bash
# R5: no floating point in a decision, checked on the object code.
#
#     no_float.sh OBJDUMP OBJECT...       fails if an object computes with floating point
#     no_float.sh --control CC OBJDUMP    the check itself must find a float in a C file that has one
#
# Moves between vector registers are no arithmetic (the 16-byte load needs them), so what is
# looked for is arithmetic, comparison and conversion of floats, on x86 and on arm.
set -euo pipefail

floats='\b(v?(add|sub|mul|div|sqrt|min|max|ucomi|comi|cmp[a-z]*|round|rcp|rsqrt|fn?m(add|sub)[0-9]+)[sp][sd]|v?cvt[a-z0-9]+|f(add|sub|mul|div|ld|st|ild|ist|com|sqrt|abs|chs)[a-z]*|[su]cvtf)\b'

find_floats() { # find_floats OBJDUMP OBJECT
    "$1" -d --no-show-raw-insn "$2" | grep -E "$floats" || true
}

if [ "$1" = --control ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    echo 'unsigned long f(unsigned long a) { return (unsigned long)((double)a * 0.5); }' >"$folder/float.c"
    "$2" -O2 -c "$folder/float.c" -o "$folder/float.o"
    [ -n "$(find_floats "$3" "$folder/float.o")" ] && echo "a float was planted and found"
    exit
fi

objdump=$1
shift
[ $# -gt 0 ] || { echo "no objects given" >&2; exit 1; }
failed=0
for object in "$@"; do
    found=$(find_floats "$objdump" "$object")
    if [ -n "$found" ]; then
        echo "$object computes with floating point:"
        head -5 <<<"$found"
        failed=1
    fi
done
echo "$# objects looked at"
exit $failed
