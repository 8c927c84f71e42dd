#!/usr/bin/env bash
# The HTTP example from a client's point of view.   http_server.sh SERVER
set -euo pipefail

program=$1
server=0
failed=0
body=$(mktemp)
trap 'rm -f "$body"; [ "$server" -eq 0 ] || kill "$server" 2>/dev/null || true' EXIT

start() { # start ARGUMENT...: sets server, url and port
    local line
    exec {from_server}< <(exec "$program" "$@")
    server=$!
    read -r -t 60 line <&"$from_server" || { echo "the server does not start"; exit 1; }
    url=${line#listening on }
    port=${url##*:}
}

stop() { # stop [SIGNAL]: the server ends with status 0
    local status=0
    [ $# -eq 0 ] || kill "-$1" "$server"
    wait "$server" || status=$?
    server=0
    exec {from_server}<&-
    same "exit status" 0 "$status"
}

same() { # same WHAT EXPECTED GOT
    [ "$2" != "$3" ] || return 0
    printf '%s\n--- expected\n%s\n--- got\n%s\n' "$1" "$2" "$3"
    failed=1
}

codes() { # codes CURL_ARGUMENT...: how often each status came, and over how many connections
    curl -sS --no-progress-meter -m 60 -o /dev/null -w '%{http_code} %{num_connects}\n' "$@" |
        awk '{ n[$1]++; c += $2 } END { for (k in n) print k, n[k] | "sort"; close("sort"); print "connections", c }'
}

head_of() { # head_of CURL_ARGUMENT...
    curl -sS -m 60 -o /dev/null -D - "$@" | tr -d '\r'
}

connect() {
    exec {peer}<>"/dev/tcp/127.0.0.1/$port"
}

hang_up() {
    exec {peer}>&-
}

refused() { # refused STATUS BYTES (as printf's %b): answered so, and then closed
    local answer
    connect
    printf '%b' "$2" >&"$peer"
    answer=$(tr -d '\r' <&"$peer")
    hang_up
    same "answer to $(printf '%.60q' "$2")" \
        "HTTP/1.1 $1"$'\nContent-Length: 0\nConnection: close' "$answer"
}

long() { # long COUNT: so many letters
    printf '%*s' "$1" '' | tr ' ' x
}

# The clock does not advance, so answers are exact on any machine.
start -m -a '100 per 200s name all' -e '10 per 60s name client'

refused '400 Bad Request' 'nonsense\r\n\r\n'
refused '400 Bad Request' '\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nConnection: close\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.0\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1x\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'GET/ HTTP/1.1\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'GET  HTTP/1.1\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'GET / / HTTP/1.1\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'get / HTTP/1.1\r\nHost: a\r\n\r\n'
refused '400 Bad Request' ' GET / HTTP/1.1\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost : a\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\nX-Client: b\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\r\nX-Client:\r\n\r\n'
refused '400 Bad Request' 'GET / HTTP/1.1\r\nHost: a\r\nX-Client: b\r\nx-client: c\r\n\r\n'
refused '400 Bad Request' "GET / HTTP/1.1\r\nHost: a\r\nX-Client: $(long 65)\r\n\r\n"
refused '400 Bad Request' "$(long 300) / HTTP/1.1\r\nHost: a\r\n\r\n"
refused '501 Not Implemented' 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody'
refused '501 Not Implemented' 'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody'
refused '501 Not Implemented' 'GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
refused '431 Request Header Fields Too Large' "GET /$(long 8192)"
refused '431 Request Header Fields Too Large' "GET / HTTP/1.1\r\nHost: a\r\nA: $(long 30000)\r\n\r\n"

# None of them took a token: ten are left for this address.
same 'the first answer' 'HTTP/1.1 200 OK
RateLimit-Policy: "client";q=10;w=60, "all";q=100;w=200
RateLimit: "client";r=9;t=6
Cache-Control: no-store
Content-Type: text/plain
Content-Length: 6' "$(head_of "$url")"
same 'the rest of the burst' $'200 9\n429 3\nconnections 1' "$(codes "$url/[1-12]")"
same 'the answer to one too many' 'HTTP/1.1 429 Too Many Requests
Retry-After: 6
RateLimit-Policy: "client";q=10;w=60, "all";q=100;w=200
RateLimit: "client";r=0;t=6
Cache-Control: no-store
Content-Type: text/plain
Content-Length: 18' "$(head_of "$url")"

# R2: the denials of an abuser take no tokens from others. This address took ten: 90 are left for nine others.
same 'R2: 1000 by an abuser' $'200 10\n429 990\nconnections 1' \
    "$(codes -H 'X-Client: abuser' "$url/[1-1000]")"
same 'R2: a bystander has its ten' $'200 10\n429 1\nconnections 1' \
    "$(codes -H 'X-Client: bystander' "$url/[1-11]")"
for client in 127.0.0.1 b c d e f "$(long 64)"; do # the first is a name, not the address
    same "R2: client $client has its ten" $'200 10\nconnections 1' \
        "$(codes -H "X-Client: $client" "$url/[1-10]")"
done
same 'the answer when all is used up' 'HTTP/1.1 429 Too Many Requests
Retry-After: 2
RateLimit-Policy: "client";q=10;w=60, "all";q=100;w=200
RateLimit: "all";r=0;t=2
Cache-Control: no-store
Content-Type: text/plain
Content-Length: 18' "$(head_of -H 'X-Client: late' "$url")"
stop TERM

# Partial and pipelined requests, and many connections at once.
start -m -a '1M/s name all' -e '4000 per 1000s name client'

answers() { # answers COUNT: reads so many bodies, prints what is left by each
    local line count=0
    while [ "$count" -lt "$1" ] && read -r -t 60 line; do
        case $line in
        RateLimit:*) echo "${line//$'\r'/}" ;;
        hello) count=$((count + 1)) ;;
        esac
    done <&"$peer"
}

connect
printf 'GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HT' >&"$peer"
same 'two requests and a half' 'RateLimit: "client";r=3999;t=1
RateLimit: "client";r=3998;t=1' "$(answers 2)"
printf 'TP/1.1\r\nHost: a\r\n\r\nG' >&"$peer" # answered: so what came before was read alone
same 'the other half' 'RateLimit: "client";r=3997;t=1' "$(answers 1)"
printf 'ET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r' >&"$peer"
printf '\nGET /5 HTTP/1.1\r\nHost: a\r\n\r\n' >&"$peer" # not answered: behind the last
same 'the last' 'RateLimit: "client";r=3996;t=1
Connection: close' "$(tr -d '\r' <&"$peer" | grep -E '^(RateLimit|Connection):')"
hang_up

connect
{
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i }'
    printf 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
} >&"$peer" &
same 'pipelined' '3001 RateLimit: "client";r=995;t=1' "$(tr -d '\r' <&"$peer" |
    awk '/^HTTP\/1.1 200 OK$/ { n++ } /^RateLimit:/ { last = $0 } END { print n, last }')"
wait $!
hang_up

for _ in 1 2 3; do # hangs up in the middle of a request, and without reading the answer
    connect
    printf 'GET / HTTP/1.1\r\nHost' >&"$peer"
    hang_up
    connect
    printf 'GET / HTTP/1.1\r\nHost: a\r\n\r\n' >&"$peer"
    hang_up
done
same 'in parallel' '200 300' "$(codes -Z --parallel-max 30 -H 'X-Client: p' "$url/[1-300]" | head -1)"
stop TERM

# It serves as many requests as given, and then exits.
start -m -n 3
same 'three requests' $'200 3\nconnections 1' "$(codes "$url/[1-3]")"
stop

# With a real clock: a client that waits for Retry-After is admitted.
start -e '1/s name client'
same 'after the reported wait' $'200\n200' \
    "$(curl -s -m 60 --retry 5 -o "$body" -w '%{http_code}\n' "$url/[1-2]")"
stop TERM

same 'a limit that cannot be' 'http_server: burst must be at least 1 (got 0)' \
    "$("$program" -e '10/s burst 0' 2>&1 || true)"
exit $failed
