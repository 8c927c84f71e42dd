#!/usr/bin/env bash
# Each public header alone, and their examples, as C++17 by g++ and clang++, without a warning. No type is
# hidden by a function of the same name: in C++ it would need `struct` in front of it.
#
#     cxx.sh LIBRARY INCLUDE_FOLDER EXAMPLES
#     cxx.sh --control LIBRARY INCLUDE_FOLDER EXAMPLES     a function named like a struct is found
set -euo pipefail

if [ "$1" = --control ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cp -r "$3/ration" "$folder"
    echo 'RATION_API int ration_limit_spec(void);' >>"$folder/ration/limit.h"
    ! "$0" "$2" "$folder" "$4" 2>/dev/null
    exit
fi

library=$1 include=$2 examples=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

shared=$(comm -12 \
    <(cat "$include"/ration/*.h | grep -oE '^(typedef )?(struct|enum|union) ration_[a-z0-9_]+' | awk '{ print $NF }' | sort -u) \
    <(cat "$include"/ration/*.h | tr '\n' ' ' | grep -oE 'RATION_API [^;(]*\(' | grep -oE 'ration_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u))
[ -z "$shared" ] || { echo "a type and a function have one name: $shared" >&2; exit 1; }

# RATION_KEY takes a literal only: the size of a pointer is not the size of its text.
for compiler in "gcc -x c" "g++ -x c++ -std=c++17"; do
    for key in '"text"' pointer; do
        echo "#include <ration/ration.h>
            size_t size_of(const char *pointer);
            size_t size_of(const char *pointer) { (void)pointer; return RATION_KEY($key).size; }" >"$scratch/key"
        if $compiler -I"$include" -fsyntax-only "$scratch/key" 2>/dev/null; then is_taken='"text"'; else is_taken=pointer; fi
        [ "$is_taken" = "$key" ] || { echo "RATION_KEY($key) with $compiler: compiles, or does not, against its contract" >&2; exit 1; }
    done
done

for compiler in g++ clang++; do
    flags="-std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Werror -I$include"
    for header in "$include"/ration/*.h; do
        echo "#include <ration/$(basename "$header")>" >"$scratch/one.cc"
        $compiler $flags -fsyntax-only "$scratch/one.cc"
    done
    $compiler $flags "$examples" -o "$scratch/examples" "$library" "-Wl,-rpath,$(dirname "$library")"
    "$scratch/examples"
done
