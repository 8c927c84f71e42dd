#!/usr/bin/env bash
# Compares `ration serve` with Redis, nginx, HAProxy and a server that does nothing.
#
#     tools/bench/server.sh [BUILD_FOLDER]      default: build
#
# The servers take turns in one run, each on one core with the client on another. A value is the median of its rounds, a
# ratio the median of the ratios of neighbouring rounds. Rows are added to BUILD_FOLDER/bench.json. Takes at most three
# minutes. Servers that are not installed are named and left out.
#
#     BENCH_ROUNDS=7 BENCH_SECONDS=0.5          how many rounds, and how long each takes
#     BENCH_SUITES="resp http threads idle start redis"
#
# Ports and process ids are single words, and $on_server and $on_client are none or several:
# shellcheck disable=SC2086,SC2206
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build}
rounds=${BENCH_ROUNDS:-7}
seconds=${BENCH_SECONDS:-0.5}
ration=$build/ration
json=$build/bench.json
seconds_max=180
keys_count=1000000
warm_seconds=3
idle_count=10000
rate_equal=60000 # requests a second
seconds_whole=$(awk -v s="$seconds" 'BEGIN { print s < 1 ? 1 : int(s) }') # wrk takes whole seconds only
ready_seconds_max=10

[ -x "$ration" ] || { echo "bench-server: $ration is not built" >&2; exit 2; }
folder=$(mktemp -d)
servers=()

end_all() {
    [ ${#servers[@]} -eq 0 ] || kill "${servers[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap end_all EXIT

has_command() { command -v "$1" >/dev/null; }
say() { printf '%s\n' "$*"; }
in_time() { [ $SECONDS -lt $seconds_max ]; }

# Cores ------------------------------------------------------------------------------------------

if [ "$(nproc)" -ge 2 ]; then
    on_server="taskset -c 0"
    on_client="taskset -c 1"
else
    on_server="" on_client=""
    say "(there is only one core: server and client share it, so ratios mean little)"
fi
read -r load _ </proc/loadavg
[ "${load%.*}" -lt 1 ] || say "(load $load: other programs are running, so CPU times mean more than times)"
ulimit -n "$(ulimit -Hn)" 2>/dev/null || true

# Servers ----------------------------------------------------------------------------------------

port_next=$((21000 + RANDOM % 9000))

is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() { # sets $port
    while is_open $((++port_next)); do :; done
    port=$port_next
}

wait_for_port() { # wait_for_port PID PORT
    local until=$((SECONDS + ready_seconds_max))
    until is_open "$2"; do
        if ! kill -0 "$1" 2>/dev/null || [ $SECONDS -ge $until ]; then
            say "bench-server: the server did not start: $(tail -3 "$folder/$2.log" 2>/dev/null)" >&2
            return 1
        fi
    done
}

start() { # start PORT COMMAND...: starts a server on its core; sets $pid
    local port=$1
    shift
    $on_server "$@" >"$folder/$port.log" 2>&1 </dev/null &
    pid=$!
    servers+=($pid)
    wait_for_port $pid "$port"
}

stop() { # stop PID
    kill "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

start_redis() {
    free_port
    redis_port=$port
    start $port redis-server --bind 127.0.0.1 --port $port --save '' --appendonly no \
        --dir "$folder" || return
    redis_pid=$pid
}

cat >"$folder/policy.yaml" <<'C'
limits:
  - name: client
    key: ip
    rate: 30/min
    burst: 16
    max_keys: 1000000
C

start_ration() { # start_ration THREADS
    free_port
    http_port=$port
    free_port
    resp_port=$port
    start $resp_port "$ration" serve --policy "$folder/policy.yaml" --http 127.0.0.1:$http_port \
        --resp 127.0.0.1:$resp_port --threads "$1" && wait_for_port $pid $http_port || return
    ration_pid=$pid
}

start_floor() {
    free_port
    floor_port=$port
    start $port "$build/bench/floor_server" $port || return
    floor_pid=$pid
}

start_nginx() {
    free_port
    nginx_port=$port
    cat >"$folder/nginx.conf" <<C
worker_processes 1;
daemon off;
pid $folder/nginx.pid;
error_log stderr crit;
events { worker_connections 4000; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path $folder/nginx_body;
    proxy_temp_path $folder/nginx_proxy;
    fastcgi_temp_path $folder/nginx_fastcgi;
    uwsgi_temp_path $folder/nginx_uwsgi;
    scgi_temp_path $folder/nginx_scgi;
    limit_req_zone \$arg_ip zone=client:160m rate=30r/m;
    limit_req_status 429;
    server {
        listen 127.0.0.1:$port;
        location / { limit_req zone=client burst=16 nodelay; empty_gif; }
    }
}
C
    start $port nginx -e stderr -p "$folder" -c "$folder/nginx.conf" || return
    nginx_pid=$(pgrep -P $pid | head -1)
}

start_haproxy() {
    free_port
    haproxy_port=$port
    cat >"$folder/haproxy.cfg" <<C
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 5s
frontend check
    bind 127.0.0.1:$port
    stick-table type ip size 2m expire 60s store http_req_rate(60s)
    http-request track-sc0 url_param(ip)
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 30 }
    http-request return status 200 content-type text/plain string ok
C
    start $port haproxy -db -f "$folder/haproxy.cfg" || return
    haproxy_pid=$pid
}

# Measuring --------------------------------------------------------------------------------------

cpu_ns() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }

# Each function records two numbers of a round for its subject: time and CPU time of the server, in ns per request.
note() { # note SUBJECT REQUESTS_PER_SECOND CPU_NS
    awk -v rate="$2" -v cpu="$3" 'BEGIN { printf "%.3f %.3f\n", 1e9 / rate, cpu }' >>"$folder/$1.rounds"
}

by_redis_benchmark() { # by_redis_benchmark SUBJECT PID PORT COMMAND...
    local subject=$1 pid=$2 port=$3 before after rate
    local requests
    requests=$(awk -v s="$seconds" 'BEGIN { printf "%d", s * 120000 }')
    shift 3
    before=$(cpu_ns "$pid")
    rate=$($on_client redis-benchmark -h 127.0.0.1 -p "$port" -c 50 -n "$requests" -r $keys_count --csv "$@" \
        2>/dev/null | tail -1 | sed -E 's/.*","([0-9.]+)"(,"[0-9.]+"){6}$/\1/')
    after=$(cpu_ns "$pid")
    note "$subject" "$rate" $(((after - before) / requests))
}

field() { sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\{0,1\}\$/\1/p" "$1" | head -1; }

by_ration_bench() { # by_ration_bench SUBJECT PID ARGUMENT...
    local subject=$1 pid=$2 status=0
    shift 2
    $on_client "$ration" bench "$@" --server-pid "$pid" --duration "${seconds}s" --warmup 100ms \
        --json - >"$folder/result.json" || status=$?
    if [ $status -ne 0 ]; then
        say "bench-server: $subject: $(grep first_error "$folder/result.json" || true)" >&2
        return 1
    fi
    note "$subject" "$(field "$folder/result.json" requests_per_second)" \
        "$(field "$folder/result.json" server_cpu_ns)"
}

take_turns() { # take_turns FUNCTION...: each in every round, while there is time
    local round subject
    for ((round = 0; round < rounds; round++)); do
        in_time || { say "(out of time after $round of $rounds rounds)"; break; }
        for subject in "$@"; do
            $subject
        done
    done
}

# Rows -------------------------------------------------------------------------------------------

: >"$folder/rows"

column() { awk -v c="$2" '{ print $c }' "$folder/$1.rounds"; }
median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

row() { # row NAME VALUE UNIT AGAINST RATIO TARGET: the last three may be null
    awk -v name="$1" -v value="$2" -v unit="$3" -v against="$4" -v ratio="$5" -v target="$6" \
        -v rows="$folder/rows" 'BEGIN {
        ok = target == "null" ? "-" : ratio + 0 <= target + 0 ? "ok" : "MISSED"
        printf "%-38s %11.2f %-5s  %-30s %6s %7s  %s\n", name, value, unit, against == "null" ? "-" : against,
            ratio == "null" ? "-" : sprintf("%.2f", ratio), target == "null" ? "-" : sprintf("%.2f", target), ok
        printf "  {\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"against\": %s, \"ratio\": %s, \"target\": %s, \"ok\": %s}\n",
            name, value, unit, against == "null" ? "null" : "\"" against "\"",
            ratio == "null" ? "null" : sprintf("%.4f", ratio), target == "null" ? "null" : sprintf("%.4f", target),
            ok == "-" ? "null" : ok == "ok" ? "true" : "false" >>rows
    }'
}

alone() { # alone NAME SUBJECT [COLUMN]
    [ -s "$folder/$2.rounds" ] || return 0
    row "$1" "$(column "$2" "${3:-1}" | median)" ns null null null
}

beside() { # beside NAME SUBJECT AGAINST OTHER TARGET [COLUMN]: 1 is time, 2 the server's CPU time
    local c=${6:-1}
    [ -s "$folder/$2.rounds" ] && [ -s "$folder/$4.rounds" ] || return 0
    row "$1" "$(column "$2" "$c" | median)" ns "$3" \
        "$(paste <(column "$2" "$c") <(column "$4" "$c") | awk 'NF == 2 { print $1 / $2 }' | median)" "$5"
}

within() { # within NAME VALUE UNIT MOST: a value with a bound of its own
    row "$1" "$2" "$3" "at most $4 $3" "$(awk -v v="$2" -v most="$4" 'BEGIN { print v / most }')" 1
}

# Adds the rows to the file; rows of an earlier run are replaced.
merge_rows() {
    {
        [ ! -f "$json" ] || grep '^  {' "$json" | grep -vE '"name": "(serve|peer): ' | sed 's/,$//' || true
        cat "$folder/rows"
    } >"$folder/all"
    { echo "["; sed '$!s/$/,/' "$folder/all"; echo "]"; } >"$folder/merged"
    cp "$folder/merged" "$json"
}

# The suites -------------------------------------------------------------------------------------

has_serve=false
if "$ration" --help | grep -qE '^  serve '; then
    has_serve=true
else
    say "(ration serve is not built: only the other servers are measured)"
fi
has_redis=false
if has_command redis-server && has_command redis-benchmark; then
    has_redis=true
else
    say "(redis-server is not installed: nothing is compared with it)"
fi

throttle=(CL.THROTTLE key:__rand_int__ 15 30 60 1)
pipelined=(--pipeline 64 --connections 16 --keys uniform:$keys_count)

redis_ping() { by_redis_benchmark redis_ping $redis_pid $redis_port PING; }
serve_throttle() { by_redis_benchmark serve_throttle $ration_pid $resp_port "${throttle[@]}"; }
redis_incr() {
    by_ration_bench redis_incr $redis_pid --connect 127.0.0.1:$redis_port --incr "${pipelined[@]}"
}
redis_lua() {
    by_ration_bench redis_lua $redis_pid --connect 127.0.0.1:$redis_port --script bench/gcra.lua --evalsha \
        "${pipelined[@]}"
}
serve_pipeline() {
    by_ration_bench serve_pipeline $ration_pid --connect 127.0.0.1:$resp_port "${pipelined[@]}"
}
by_http() { # by_http SUBJECT PID PORT [ARGUMENT...]
    local subject=$1 pid=$2 port=$3
    shift 3
    by_ration_bench "$subject" "$pid" http --connect "127.0.0.1:$port" --keys uniform:$keys_count "$@"
}
serve_http() { by_http serve_http $ration_pid $http_port; }
floor_http() { by_http floor_http $floor_pid $floor_port; }
nginx_http() { by_http nginx_http $nginx_pid $nginx_port; }
haproxy_http() { by_http haproxy_http $haproxy_pid $haproxy_port; }

printf '%-38s %11s %-5s  %-30s %6s %7s  %s\n' name value unit against ratio target ok

suite_resp() {
    local one_by_one=() in_batches=()
    ! $has_redis || { start_redis && one_by_one+=(redis_ping) in_batches+=(redis_incr redis_lua); }
    ! $has_serve || { start_ration 1 && one_by_one+=(serve_throttle) in_batches+=(serve_pipeline); }
    ! $has_redis || take_turns "${one_by_one[@]}"
    take_turns "${in_batches[@]}"
    ! $has_redis || stop $redis_pid
    ! $has_serve || stop $ration_pid

    alone "peer: redis-server PING" redis_ping
    alone "peer: redis-server PING, CPU" redis_ping 2
    alone "peer: redis-server INCR by 64" redis_incr
    alone "peer: redis-server GCRA in Lua by 64" redis_lua
    beside "serve: CL.THROTTLE" serve_throttle "redis-server PING" redis_ping 1.053
    beside "serve: CL.THROTTLE, CPU" serve_throttle "redis-server PING, CPU" redis_ping 1 2
    beside "serve: CL.THROTTLE by 64, 1 M keys" serve_pipeline "redis-server INCR by 64" redis_incr 0.5
    beside "serve: CL.THROTTLE by 64, 1 M keys" serve_pipeline "GCRA in Lua by 64" redis_lua 0.05
    beside "serve: CL.THROTTLE by 64, CPU" serve_pipeline "redis-server INCR by 64, CPU" redis_incr null 2
}

# Creates most of the keys, and so touches their memory, before anything is timed.
warm() { # warm PORT
    $on_client "$ration" bench http --connect "127.0.0.1:$1" --keys uniform:$keys_count --pipeline 32 --connections 8 \
        --duration "${warm_seconds}s" --warmup 0 >/dev/null 2>&1 || true
}

# wrk is what others publish. It needs about as much CPU time as the servers, and so limits them; ration bench needs less.
cat >"$folder/keys.lua" <<'C'
local key = 1
request = function()
    key = (key * 16807) % 2147483647
    local n = key % 1000000
    return wrk.format("GET", string.format("/v1/check?ip=10.%d.%d.%d", n / 65536, n / 256 % 256, n % 256))
end
C
by_wrk() { # by_wrk SUBJECT PORT
    note "$1" "$($on_client wrk -t1 -c32 -d "${seconds_whole}s" -s "$folder/keys.lua" "http://127.0.0.1:$2/" |
        awk '/^Requests\/sec/ { print $2 }')" 0
}
serve_wrk() { by_wrk serve_wrk $http_port; }
floor_wrk() { by_wrk floor_wrk $floor_port; }

# At the same rate for both: the cost of a request depends on how many arrive together.
serve_rate() { by_http serve_rate $ration_pid $http_port --rate $rate_equal; }
floor_rate() { by_http floor_rate $floor_pid $floor_port --rate $rate_equal; }

suite_http() {
    local turns=()
    ! $has_serve || { start_ration 1 && turns+=(serve_http serve_rate); }
    if [ -x "$build/bench/floor_server" ]; then
        start_floor && turns+=(floor_http floor_rate)
    else
        say "(bench/floor_server is not built)"
    fi
    if has_command nginx; then
        start_nginx && turns+=(nginx_http)
    else
        say "(nginx is not installed)"
    fi
    if has_command haproxy; then
        start_haproxy && turns+=(haproxy_http)
    else
        say "(haproxy is not installed)"
    fi
    if has_command wrk; then
        ! $has_serve || turns+=(serve_wrk floor_wrk)
    else
        say "(wrk is not installed)"
    fi
    ! $has_serve || warm $http_port
    ! has_command nginx || warm $nginx_port
    ! has_command haproxy || warm $haproxy_port
    take_turns "${turns[@]}"
    ! $has_serve || stop $ration_pid

    alone "peer: bare epoll server" floor_http
    alone "peer: bare epoll server, CPU" floor_http 2
    alone "peer: nginx limit_req" nginx_http
    alone "peer: nginx limit_req, CPU" nginx_http 2
    alone "peer: HAProxy stick table" haproxy_http
    alone "peer: HAProxy stick table, CPU" haproxy_http 2
    beside "serve: GET /v1/check by wrk" serve_wrk "bare epoll server by wrk" floor_wrk 1.111
    beside "serve: GET /v1/check, CPU at ${rate_equal}/s" serve_rate "bare epoll server, CPU" floor_rate 1.3 2
    beside "serve: GET /v1/check, 1 M keys" serve_http "bare epoll server" floor_http null
    beside "serve: GET /v1/check, CPU" serve_http "bare epoll server, CPU" floor_http null 2
    beside "serve: GET /v1/check, 1 M keys" serve_http "nginx limit_req" nginx_http 1
    beside "serve: GET /v1/check, CPU" serve_http "nginx limit_req, CPU" nginx_http null 2
    beside "serve: GET /v1/check, 1 M keys" serve_http "HAProxy stick table" haproxy_http 1
    beside "serve: GET /v1/check, CPU" serve_http "HAProxy stick table, CPU" haproxy_http null 2
}

# Two server threads need two cores, and the client that keeps them busy needs two more.
serve_one_thread() {
    by_ration_bench serve_one_thread $one_pid --connect 127.0.0.1:$one_port "${pipelined[@]}" --threads 2
}
serve_two_threads() {
    by_ration_bench serve_two_threads $two_pid --connect 127.0.0.1:$two_port "${pipelined[@]}" --threads 2
}
suite_threads() {
    if [ "$(nproc)" -lt 4 ]; then
        say "(two server threads are not measured: they need 4 cores, and this machine has $(nproc))"
        return
    fi
    $has_serve || return 0
    local on_server="taskset -c 0,1" on_client="taskset -c 2,3"
    start_ration 1
    one_pid=$ration_pid one_port=$resp_port
    start_ration 2
    two_pid=$ration_pid two_port=$resp_port
    take_turns serve_one_thread serve_two_threads
    stop $one_pid
    stop $two_pid
    beside "serve: CL.THROTTLE by 64, 2 threads" serve_two_threads "1 thread" serve_one_thread 0.588
}

serve_not_idle() { by_http serve_not_idle $ration_pid $http_port; }
serve_idle() { by_http serve_idle $ration_pid $http_port --idle $idle_count; }
suite_idle() {
    $has_serve || return 0
    if [ "$(ulimit -n)" -lt $((idle_count + 200)) ]; then
        say "(idle connections are not measured: only $(ulimit -n) open files are allowed)"
        return
    fi
    local rounds=3
    start_ration 1
    # The first run shows the memory: later ones reuse what it allocated.
    serve_idle
    within "serve: memory per idle connection" \
        "$(field "$folder/result.json" server_bytes_per_idle_connection)" bytes 16384
    : >"$folder/serve_idle.rounds"
    take_turns serve_not_idle serve_idle
    stop $ration_pid
    beside "serve: GET /v1/check, 10 000 idle" serve_idle "without idle connections" serve_not_idle 1.1
}

# From the start of the process to its last listener, in milliseconds.
milliseconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", (b - a) * 1000 }'; }
time_start() { # time_start SUBJECT PATTERN COUNT COMMAND...
    local subject=$1 pattern=$2 count=$3 begun pid line
    shift 3
    mkfifo "$folder/said"
    begun=$EPOCHREALTIME
    $on_server "$@" >"$folder/said" 2>&1 </dev/null &
    pid=$!
    servers+=($pid)
    while [ "$count" -gt 0 ] && IFS= read -r -t $ready_seconds_max line; do
        [[ $line != *"$pattern"* ]] || count=$((count - 1))
    done <"$folder/said"
    milliseconds_since "$begun" >>"$folder/$subject.rounds"
    echo >>"$folder/$subject.rounds"
    stop $pid
    rm "$folder/said"
}
redis_start() {
    free_port
    time_start redis_start "Ready to accept" 1 redis-server --bind 127.0.0.1 --port $port --save '' \
        --appendonly no --dir "$folder"
}
serve_start() {
    free_port
    local http=$port
    free_port
    time_start serve_start "listening on" 2 "$ration" serve --policy "$folder/policy.yaml" \
        --http 127.0.0.1:$http --resp 127.0.0.1:$port --threads 1
}
suite_start() {
    local turns=()
    ! $has_serve || turns+=(serve_start)
    ! $has_redis || turns+=(redis_start)
    [ ${#turns[@]} -gt 0 ] || return 0
    take_turns "${turns[@]}"
    ! $has_redis || row "peer: redis-server starts, empty" "$(column redis_start 1 | median)" ms null null null
    ! $has_serve || within "serve: starts, room for 1 M keys" "$(column serve_start 1 | median)" ms 50
}

# Limits in Redis, decided by the library: strict mode is compared with the same script run by redis-benchmark; then
# each mode is measured with three kinds of traffic.
by_redis_bench() { # by_redis_bench SUBJECT MODE KEYS
    local result
    result=$($on_client "$build/bench/redis_bench" $redis_port "$2" "$3" "$seconds") || return 1
    note "$1" "${result% *}" "${result#* }" # instead of CPU time: calls of Redis per thousand decisions
}
redis_script() {
    by_redis_benchmark redis_script $redis_pid $redis_port -P 64 EVALSHA "$script_name" 1 \
        'ration:{__rand_int__}:bench' '' '' take ' t100e3/1e9' \
        gcra 0 0 0 10485760000 1 0 0
}
far_turn() {
    local mode keys
    for mode in strict local-first lease; do
        for keys in one uniform:$keys_count zipf:$keys_count; do
            by_redis_bench "far_${mode}_${keys%:*}" $mode $keys
        done
    done
}
suite_redis() {
    $has_redis || return 0
    [ -x "$build/bench/redis_bench" ] || { say "(bench/redis_bench is not built)"; return 0; }
    start_redis || return
    script_name=$(redis-cli -p $redis_port -x SCRIPT LOAD <"$build/redis/take.lua")
    take_turns redis_script far_turn
    stop $redis_pid
    alone "peer: take.lua by redis-benchmark, by 64" redis_script
    beside "serve: library, strict, 1 M keys" far_strict_uniform "take.lua by redis-benchmark" redis_script 1.111
    local mode keys
    for keys in one uniform zipf; do
        for mode in strict local-first lease; do
            alone "serve: library, $mode, $keys" far_${mode}_$keys
            row "serve: library, $mode, $keys" "$(column far_${mode}_$keys 2 | median)" "/1000" "calls of Redis" null null
        done
    done
}

for suite in ${BENCH_SUITES:-resp http threads idle start redis}; do
    in_time || { say "(out of time before suite $suite)"; break; }
    suite_$suite || say "(suite $suite failed)"
done
merge_rows
say "$(wc -l <"$folder/rows") rows added to $json, in $SECONDS s"
