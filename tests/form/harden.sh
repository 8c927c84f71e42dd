#!/usr/bin/env bash
# The program and the libraries have the protections that cmake/RationHarden.cmake asks for.
#
#     harden.sh [--unoptimised] READELF FILE...       FILE is a program, a shared library or an archive
#     harden.sh --control CC READELF                  a file without one of the protections must be rejected
#
# --unoptimised: _FORTIFY_SOURCE is not expected, since it does nothing without optimisation.
set -euo pipefail

failed=""
missing() { # FILE WHAT
    echo "$1: $2" >&2
    failed=1
}

# Programs and shared libraries.
check_linked() {
    local file=$1 headers dynamic symbols notes
    headers=$("$readelf" -hlW "$file")
    dynamic=$("$readelf" -dW "$file")
    symbols=$("$readelf" --dyn-syms -W "$file")
    notes=$("$readelf" -nW "$file")

    grep -q 'Type: *DYN' <<<"$headers" || missing "$file" "is loaded at a fixed address (no PIE)"
    grep -q 'GNU_RELRO' <<<"$headers" || missing "$file" "has no read-only relocations (RELRO)"
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' <<<"$dynamic" || missing "$file" "binds functions late (no BIND_NOW)"
    grep -qE 'GNU_STACK .* RW +0x' <<<"$headers" || missing "$file" "has an executable stack"
    ! grep -qE '^ *LOAD .* RWE ' <<<"$headers" || missing "$file" "has memory to write and execute"
    ! grep -qE 'TEXTREL|RPATH|RUNPATH' <<<"$dynamic" || missing "$file" "changes its code when loaded, or has a search path"
    grep -q '__stack_chk_fail' <<<"$symbols" || missing "$file" "has no stack protector"
    [ -n "$unoptimised" ] || grep -qE '__(memcpy|snprintf|vsnprintf)_chk' <<<"$symbols" ||
        missing "$file" "does not check sizes (no _FORTIFY_SOURCE)"
    [ "$machine" != x86_64 ] || grep -q 'SHSTK' <<<"$notes" || missing "$file" "is not marked for shadow stacks (CET)"
}

# Archives: each object, since one without a mark takes it from the program that links it.
check_archive() {
    local file=$1 members marked
    members=$("$readelf" -hW "$file" | grep -c '^ELF Header:')
    if [ "$machine" = x86_64 ]; then
        marked=$("$readelf" -nW "$file" | grep -c 'x86 feature: IBT, SHSTK' || true)
        [ "$members" -eq "$marked" ] || missing "$file" "only $marked of $members objects are marked for CET"
    fi
    ! "$readelf" -SW "$file" | grep -E '\.note\.GNU-stack .* [AW]*X' >/dev/null || missing "$file" "asks for an executable stack"
    marked=$("$readelf" -SW "$file" | grep -c '\.note\.GNU-stack')
    [ "$members" -eq "$marked" ] || missing "$file" "only $marked of $members objects say that the stack is not executable"
    "$readelf" -sW "$file" | grep '__stack_chk_fail' >/dev/null || missing "$file" "has no stack protector"
}

if [ "$1" = --control ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cat >"$folder/a.c" <<'C'
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    char text[64];
    strcpy(text, argv[0]);
    memcpy(text, argv[0], (size_t)argc);
    return snprintf(text, (size_t)argc, "%s", argv[argc - 1]);
}
C
    all="-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fPIE -pie -Wl,-z,relro -Wl,-z,now
        -Wl,-z,noexecstack"
    [ "$(uname -m)" != x86_64 ] || all="$all -fcf-protection=full -Wl,-z,shstk"
    build() { "$cc" $all "$@" "$folder/a.c" -o "$folder/a" 2>/dev/null; }
    cc=$2
    build
    "$0" "$3" "$folder/a"
    count=0
    for without in "-fno-pie -no-pie" -Wl,-z,norelro -Wl,-z,lazy -Wl,-z,execstack -fno-stack-protector \
        -U_FORTIFY_SOURCE -Wl,-rpath,/opt; do
        build $without
        if "$0" "$3" "$folder/a" 2>/dev/null; then
            echo "a program built with $without was accepted"
            exit 1
        fi
        count=$((count + 1))
    done
    if [ "$(uname -m)" = x86_64 ]; then
        for without in -fcf-protection=none -fno-stack-protector; do
            "$cc" $all $without -c "$folder/a.c" -o "$folder/a.o" 2>/dev/null
            rm -f "$folder/a.a"
            ar rc "$folder/a.a" "$folder/a.o"
            if "$0" "$3" "$folder/a.a" 2>/dev/null; then
                echo "an archive built with $without was accepted"
                exit 1
            fi
            count=$((count + 1))
        done
    fi
    echo "$count files without a protection were rejected"
    exit 0
fi

unoptimised=""
if [ "$1" = --unoptimised ]; then
    unoptimised=1
    shift
fi
readelf=$1
machine=$(uname -m)
shift
for file in "$@"; do
    case $file in
    *.a) check_archive "$file" ;;
    *) check_linked "$file" ;;
    esac
done
[ -z "$failed" ] || exit 1
echo "$# files have all protections"
