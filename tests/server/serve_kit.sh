# Helpers for tests of a running server. They never sleep: they wait for log lines, with a timeout.

scratch=$(mktemp -d)
server=0
failed=0
trap '[ "$server" -eq 0 ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT

fail() {
    echo "FAILED: $*"
    failed=1
}

same() { # same WHAT EXPECTED GOT
    [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

start() { # start ARGUMENT...: a server on free ports of loopback; sets server, http and resp
    launch --http 127.0.0.1:0 --resp 127.0.0.1:0 "$@"
    await 'listening on http' && http=${line##* }
    await 'listening on resp' && resp=${line##* }
}

launch() { # launch ARGUMENT...: sets server; its lines are read from $lines
    exec {lines}< <(exec "$ration" serve "$@" 2>&1)
    server=$!
}

await() { # await PATTERN: the next line that matches, as $line
    while IFS= read -r -t 60 line <&"$lines"; do
        # shellcheck disable=SC2053
        [[ $line != *$1* ]] || return 0
    done
    fail "there is no line with '$1'"
    return 1
}

finish() { # finish STATUS [SIGNAL]: the server ends so
    local got=0
    [ $# -lt 2 ] || kill "-$2" "$server"
    while IFS= read -r -t 60 line <&"$lines"; do
        tail_lines+=("$line")
    done
    wait "$server" || got=$?
    server=0
    exec {lines}<&-
    same "exit status" "$1" "$got"
}

refuses() { # refuses PATTERN ARGUMENT...: does not start, and says why
    local pattern=$1 output got=0
    shift
    output=$("$ration" serve --http 127.0.0.1:0 --resp 127.0.0.1:0 "$@" 2>&1) || got=$?
    same "exit status of $*" 2 "$got"
    [[ $output == *$pattern* ]] || fail "$*: no '$pattern' in: $output"
}

check() { # check STATUS TEXT ARGUMENT...: what ration check says
    local status=$1 text=$2 output got=0
    shift 2
    output=$("$ration" check --connect "$resp" "$@" 2>&1) || got=$?
    same "exit status of check $*" "$status" "$got"
    same "check $*" "$text" "$output"
}
