#!/usr/bin/env bash
# Fuzzes each target for SECONDS (60), starting from its corpus. New inputs are saved in
# build/fuzz/tests/fuzz/found_TARGET. A crash ends the run and prints the name of the file with its input.
#
#     tools/fuzz.sh [SECONDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
cmake --preset fuzz -DBUILD_TESTING=ON --log-level=WARNING >/dev/null
cmake --build --preset fuzz -- --quiet
for binary in build/fuzz/tests/fuzz/*_fuzz; do
    target=$(basename "$binary" _fuzz)
    echo "== $target, $seconds s"
    options=()
    if [ -f "tests/fuzz/$target.dict" ]; then options=("-dict=tests/fuzz/$target.dict"); fi
    "$binary" "${options[@]}" -max_total_time="$seconds" -timeout=10 -print_final_stats=1 \
        "build/fuzz/tests/fuzz/found_$target" "tests/fuzz/corpus/$target"
done
