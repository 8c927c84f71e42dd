#!/usr/bin/env bash
# A server from start to exit: log lines, signals, reloads, state.   serve.sh RATION
set -euo pipefail

ration=$1
. "$(dirname "$0")/serve_kit.sh"

policy() { # policy RATE [SERVER_LINE]: writes the policy
    printf 'server:\n  deny_status: 503\n%s\nlimits:\n  - {name: a, key: user, rate: %s, burst: 2}\n' \
        "${2:+  $2}" "$1" >"$scratch/policy.yaml"
}

# The built-in policy: the log says what to try, and it works.
start
await "try: curl -i 'http://$http/v1/check?path=/login&ip=192.0.2.7'"
await "try: redis-cli -p ${resp##*:} RATION.CHECK path /login ip 192.0.2.7"
await "try: open http://$http/metrics"
same "curl" 200 "$(curl -sS -o /dev/null -w '%{http_code}' "http://$http/v1/check?path=/login&ip=192.0.2.7")"
check 0 'allowed: login has 3 left' path=/login ip=192.0.2.7
check 0 '' --quiet --cost 3 path=/login ip=192.0.2.7
check 1 'denied by login: no wait helps' --cost 6 path=/login ip=192.0.2.7
check 2 "ration check: not an attribute: write NAME=VALUE, for example path=/login: path" path
tail_lines=()
finish 0 TERM
same "the last line" 'stopped: served 1 HTTP request and 3 RESP commands over 4 connections' \
    "${tail_lines[-1]#*info }"

# SIGHUP: a policy takes effect as a whole, or not at all.
policy 1/h
launch --http none --resp 127.0.0.1:0 --policy "$scratch/policy.yaml" --manual-clock
await "info policy $scratch/policy.yaml: 1 limit" && same "the end of the line" "1 limit" "${line#*: }"
await 'listening on resp' && resp=${line##* }
check 0 'allowed: a has 0 left' --cost 2 user=u
policy 10/h 'top_keys: 7'
kill -HUP "$server"
await 'info reload: limit a changed'
await 'warning reload: setting top-keys has changed; it needs a restart'
await 'info reloaded the policy'
check 1 'denied by a: retry after 360.0s' user=u
policy 99/h 'nonsuch: 1'
sed -i 's/burst: 2/burst: 0/' "$scratch/policy.yaml"
kill -HUP "$server"
await "error reload: $scratch/policy.yaml:5:"
await 'error the policy was not reloaded; the previous policy stays in force'
check 1 'denied by a: retry after 360.0s' user=u
policy 99/h 'threds: 1'
kill -HUP "$server"
await "error reload: $scratch/policy.yaml:3:3: there is no setting threds; did you mean threads"
await 'error the policy was not reloaded'
policy 10/h
kill -HUP "$server"
await 'info reload: limits are the same'
kill -HUP "$server"
await 'info reload: nothing has changed'
finish 0 INT

# After the first signal the server waits for pending requests, after the second it does not; both save the state.
begin_request() { # a request whose head was read, and whose body is to come, on $busy
    exec {busy}<>"/dev/tcp/127.0.0.1/${http##*:}"
    printf 'POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n\r\n' \
        $'Content-Length: 32\r\nExpect: 100-continue' >&"$busy"
    read -r -t 60 line <&"$busy"
    same "the server's leave" 'HTTP/1.1 100 Continue' "${line%$'\r'}"
    read -r -t 60 line <&"$busy"
}
start --state "$scratch/state" --shutdown-timeout 1h
begin_request
kill -TERM "$server"
await 'shutting down: 1 connection has 3600000 ms to finish'
printf '{"attributes":{"user":"nobody"}}' >&"$busy"
read -r -t 60 line <&"$busy" || fail "a request under way was dropped"
same "a request under way" 'HTTP/1.1 200 OK' "${line%$'\r'}"
exec {busy}>&-
await "saved the state to $scratch/state"
finish 0
start --state "$scratch/state" --shutdown-timeout 1h --threads 16 # most likely not on loop 0
begin_request
kill -TERM "$server"
await 'shutting down: '
kill -TERM "$server"
await 'second signal: closing 1 connection immediately'
await "saved the state to $scratch/state"
finish 0
exec {busy}>&-

# Tokens in use before a restart are in use after it.
policy 1/h
rm "$scratch/state"
start --policy "$scratch/policy.yaml" --state "$scratch/state" --manual-clock
check 0 'allowed: a has 0 left' --cost 2 user=u
finish 0 TERM
same "mode of the state" 600 "$(stat -c %a "$scratch/state")"
start --policy "$scratch/policy.yaml" --state "$scratch/state" --manual-clock
"$ration" check --connect "$resp" user=u >"$scratch/answer" && fail "a debt is gone"
grep -q '^denied by a: retry after 3[56][0-9][0-9]\.' "$scratch/answer" || fail "$(cat "$scratch/answer")"
kill -9 "$server" # a crash: the state that was loaded is still there
wait "$server" 2>/dev/null || true
server=0
start --policy "$scratch/policy.yaml" --state "$scratch/state" --manual-clock
"$ration" check --quiet --connect "$resp" user=u && fail "a debt is gone after a crash"
finish 0 TERM

# A damaged state is refused, and not changed.
printf 'x' | dd of="$scratch/state" bs=1 seek=40 conv=notrunc status=none
before=$(sha256sum "$scratch/state")
refuses "cannot restore state from $scratch/state: " --policy "$scratch/policy.yaml" --state "$scratch/state"
refuses 'The file is left untouched; move it away to start with empty buckets' --policy "$scratch/policy.yaml" \
    --state "$scratch/state"
same "the damaged state" "$before" "$(sha256sum "$scratch/state")"
refuses 'cannot use the state file: cannot create /nowhere/at/all.lock: No such file' \
    --state /nowhere/at/all

# One server at a time uses a state. A second one does not disturb the first, and may start after it.
rm "$scratch/state"
start --policy "$scratch/policy.yaml" --state "$scratch/state" --manual-clock
check 0 'allowed: a has 0 left' --cost 2 user=u
refuses "$scratch/state is in use by another server (process $server)" --policy "$scratch/policy.yaml" \
    --state "$scratch/state"
finish 0 TERM
start --policy "$scratch/policy.yaml" --state "$scratch/state" --manual-clock
"$ration" check --quiet --connect "$resp" user=u && fail "a debt is gone after a second server"
finish 0 TERM

# Other reasons not to start.
refuses 'http 0.0.0.0:0 can be reached from other hosts, and there is no check secret' --http 0.0.0.0:0
refuses "$scratch/none.yaml: " --policy "$scratch/none.yaml"
policy 1/h 'threads: 1k'
refuses "$scratch/policy.yaml:3:12: threads cannot be '1k'" --policy "$scratch/policy.yaml"
start
refuses "cannot listen on resp $resp: " --resp "$resp"
finish 0 TERM

# A service manager is notified (sd_notify).
exec {reported}< <(exec python3 -c '
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
manager.settimeout(60)
print("bound", flush=True)
for _ in range(4):
    print(manager.recv(4096).decode(), flush=True)
' "$scratch/notify")
manager() { # manager WORD: its next notification
    local word
    read -r -t 60 word <&"$reported" || true
    same "what the manager is reported" "$1" "$word"
}
manager bound
export NOTIFY_SOCKET=$scratch/notify
start
manager READY=1
kill -HUP "$server"
manager RELOADING=1
manager READY=1
finish 0 TERM
manager STOPPING=1
unset NOTIFY_SOCKET

# Unix sockets: their mode, and their removal. (start has read their line.)
start --http "unix:$scratch/http.sock" --unix-mode 600
same "mode of the socket" 600 "$(stat -c %a "$scratch/http.sock")"
same "curl" 200 "$(curl -sS -o /dev/null -w '%{http_code}' --unix-socket "$scratch/http.sock" http://x/healthz)"
finish 0 TERM
[ ! -e "$scratch/http.sock" ] || fail "the socket is still there"

# A secret from a file; then other hosts may connect.
printf 's3cret\n' >"$scratch/secret"
chmod 600 "$scratch/secret"
start --resp '*:0' --check-secret-file "$scratch/secret"
await 'listening on resp' && resp=127.0.0.1:${line##*:}
await "try: redis-cli -p * -a SECRET RATION.CHECK path /login ip 192.0.2.7"
check 2 'ration check: the server cannot decide: NOAUTH Authentication required.' user=u
check 0 'allowed: client has 199 left' --check-secret-file "$scratch/secret" user=u
chmod 604 "$scratch/secret"
check 2 "ration check: --check-secret-file: others may use $scratch/secret (mode 0604); run chmod o= $scratch/secret" \
    --check-secret-file "$scratch/secret" user=u
finish 0 TERM
refuses 'others may use ' --check-secret-file "$scratch/secret"

# A leaky queue reports when to go; check --wait waits until then, and gives up in time.
printf 'limits:\n  - {name: q, rate: 50/s burst 1}\n  - {name: h, match: {path: /h}, rate: 1/h}\n' \
    >"$scratch/policy.yaml"
start --policy "$scratch/policy.yaml"
check 0 'allowed: q has 0 left' user=u
check 0 'allowed: q has 0 left' --wait user=u
check 0 '' --quiet --wait path=/h
"$ration" check --connect "$resp" --wait --max-wait 10s path=/h >"$scratch/answer" &&
    fail "the hour was not waited for"
grep -q '^denied by h: retry after 3[56][0-9][0-9]\.' "$scratch/answer" || fail "$(cat "$scratch/answer")"
finish 0 TERM
check 2 "ration check: cannot connect: $resp: Connection refused" user=u

exit $failed
