#!/usr/bin/env bash
# The core has no clock, allocation, lock, atomics or I/O: what it calls from outside the library
# is a short list, and no object of it holds a locked instruction.
#
#     pure_core.sh NM OBJDUMP CORE_OBJECT...
#     pure_core.sh --control CC NM OBJDUMP     a clock, and an atomic, must be found
set -euo pipefail

if [ "$1" = --control ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    echo '#include <time.h>
long f(void) { return time(0); }' >"$folder/clock.c"
    echo 'int f(int *a) { return __atomic_fetch_add(a, 1, __ATOMIC_SEQ_CST); }' >"$folder/atomic.c"
    for planted in clock atomic; do
        "$2" -O2 -c "$folder/$planted.c" -o "$folder/$planted.o"
        if "$0" "$3" "$4" "$folder/$planted.o"; then
            echo "a planted $planted was not found"
            exit 1
        fi
    done
    exit 0
fi

nm=$1
objdump=$2
shift 2
allowed='^(ration_[a-z0-9_]+|memcpy|memset|memcmp|strlen|strchr|snprintf|vsnprintf|__(s|vs)nprintf_chk|__memcpy_chk|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_)$'

outside=$("$nm" -u "$@" | awk '$1 == "U" { print $2 }' | sort -u | grep -vE "$allowed" || true)
if [ -n "$outside" ]; then
    echo "the core calls what it must not:" $outside
    exit 1
fi
if "$objdump" -d "$@" | grep -E '\block\b|\bxchg .*\(|\bmfence\b'; then
    echo "the core has atomic instructions"
    exit 1
fi
echo "$# objects of the core are pure"
