#!/usr/bin/env bash
# tools/bench/server.sh measures every row, and fails without adding rows where something could not be measured.
#
#     bench_server.sh BUILD_FOLDER
#     bench_server.sh --control BUILD_FOLDER     a benchmark program that fails is noticed
set -euo pipefail

is_control=false
if [ "$1" = --control ]; then
    is_control=true
    shift
fi
here=$(realpath "$(dirname "$0")/../..")
real=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# A build folder of its own, so that no result is left in the real one.
mkdir "$folder/bench"
ln -s "$real/ration" "$real/redis" "$folder/"
ln -s "$real"/bench/{floor_server,layer_server,redis_bench} "$folder/bench/"
echo '{"rows": []}' >"$folder/bench.json"

run() { BENCH_ROUNDS=1 BENCH_SECONDS=0.05 "$here/tools/bench/server.sh" "$folder" >"$folder/log" 2>&1; }

if $is_control; then
    rm "$folder/bench/redis_bench"
    printf '#!/bin/sh\nexit 1\n' >"$folder/bench/redis_bench"
    chmod +x "$folder/bench/redis_bench"
    BENCH_SUITES=redis
    export BENCH_SUITES
    if run; then
        echo "a benchmark program failed, and nothing was reported:"
        cat "$folder/log"
        exit 1
    fi
    grep -q 'far_strict\|far_turn' "$folder/log" || { cat "$folder/log"; exit 1; }
    [ "$(cat "$folder/bench.json")" = '{"rows": []}' ]
    exit
fi
run || { cat "$folder/log"; exit 1; }
rows=$(grep -c '"name"' "$folder/bench.json")
[ "$rows" -ge 40 ] || { echo "only $rows rows"; cat "$folder/log"; exit 1; }
