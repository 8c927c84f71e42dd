#!/usr/bin/env bash
# The number of requests that `ration bench` reports equals the number that a Redis server counted.
#
#     redis.sh RATION GCRA_SCRIPT
set -euo pipefail

ration=$1 script=$2
folder=$(mktemp -d)
failed=0
server=""

stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" || true; }
    rm -rf "$folder"
}
trap stop EXIT

cli() { redis-cli -s "$folder/socket" "$@"; }

# Ports are chosen at random: if one is in use the server exits, and the next one is tried.
start() {
    local attempt
    for attempt in {1..20}; do
        port=$((20000 + RANDOM % 12000))
        redis-server --bind 127.0.0.1 --port $port --unixsocket "$folder/socket" --save '' \
            --appendonly no --dir "$folder" >"$folder/log" 2>&1 &
        server=$!
        while kill -0 $server 2>/dev/null; do
            [ "$(cli ping 2>/dev/null || true)" != PONG ] || return 0
        done
        wait $server || true
    done
    echo "no redis-server starts: $(tail -3 "$folder/log")" >&2
    exit 1
}

calls() { # calls COMMAND: how many of it the server has carried out
    cli info commandstats | tr -d '\r' | sed -n "s/^cmdstat_$1:calls=\([0-9]*\),.*/\1/p" | grep . || echo 0
}

field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}\$/\1/p" "$folder/json" | head -1; }

same() { # same WHAT GOT WANTED
    [ "$2" = "$3" ] || { echo "$1: $2 instead of $3"; failed=1; }
}

bench() { # bench STATUS ARGUMENT...: leaves the results in $folder/json
    local wanted=$1 got=0
    shift
    "$ration" bench "$@" --json "$folder/json" >"$folder/out" 2>&1 || got=$?
    same "status of bench $*" "$got" "$wanted"
    [ "$got" -eq "$wanted" ] || cat "$folder/out"
}

start
target=(--connect 127.0.0.1:$port)

for shape in "1 1 1 1000" "16 64 1 100000" "5 7 2 12345"; do
    read -r connections pipeline threads requests <<<"$shape"
    shape=(--connections $connections --pipeline $pipeline --threads $threads --requests $requests)
    cli config resetstat >/dev/null
    bench 0 "${target[@]}" "${shape[@]}" --ping
    same "PINGs counted (${shape[*]})" "$(calls ping)" $requests
    same "PINGs answered" "$(field answered)" $requests

    cli flushall >/dev/null
    bench 0 "${target[@]}" "${shape[@]}" --incr --keys zipf:1000
    same "INCRs counted (${shape[*]})" "$(calls incr)" $requests
    same "INCRs answered" "$(field other)" $requests
    same "their sum" "$(cli eval 'local sum = 0
        for _, key in ipairs(redis.call("keys", "key:*")) do sum = sum + redis.call("get", key) end
        return sum' 0)" $requests
done

# By time, with a warm-up, and by a schedule: whatever was sent was counted.
for loop in "--duration 300ms --warmup 100ms" "--duration 300ms --rate 5000" "--rate 20000 --requests 3000"; do
    cli config resetstat >/dev/null
    bench 0 "${target[@]}" $loop --ping
    same "PINGs counted ($loop)" "$(calls ping)" "$(field sent)"
    same "PINGs answered" "$(field answered)" "$(field sent)"
done

# One key has 16 tokens and gets one back every two seconds.
cli flushall >/dev/null
cli config resetstat >/dev/null
bench 0 "${target[@]}" --script "$script" --evalsha --keys one --connections 1 --pipeline 10 --requests 100
same "EVALSHAs counted" "$(calls evalsha)" 100
allowed=$(field allowed)
[ "$allowed" -ge 16 ] && [ "$allowed" -le 20 ] || same "EVALSHAs allowed" "$allowed" "16 to 20"
same "EVALSHAs denied" "$(field denied)" $((100 - allowed))

bench 0 --connect unix:"$folder/socket" --ping --requests 500
same "PINGs answered over a socket in the file system" "$(field answered)" 500

bench 1 "${target[@]}" --command "NOSUCH {key}" --requests 10
same "errors counted" "$(field errors)" 10
grep -q "first error: ERR unknown command 'NOSUCH'" "$folder/out" || { cat "$folder/out"; failed=1; }

bench 2 --connect 127.0.0.1:$port http --requests 10
grep -qE "closed|not HTTP" "$folder/out" || { cat "$folder/out"; failed=1; }

bench 2 "${target[@]}" --command "SHUTDOWN NOSAVE" --requests 1
grep -q "closed" "$folder/out" || { cat "$folder/out"; failed=1; }
exit $failed
