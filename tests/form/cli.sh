#!/usr/bin/env bash
# The command line as a user sees it.   cli.sh RATION
set -euo pipefail

ration=$1
failed=0

expect() { # expect STATUS PATTERN ARGUMENT...
    local status=$1 pattern=$2 output got=0
    shift 2
    output=$("$ration" "$@" 2>&1) || got=$?
    if [ "$got" -ne "$status" ] || ! grep -qE -- "$pattern" <<<"$output"; then
        printf 'ration %s: status %d instead of %d, or no "%s" in:\n%s\n' "$*" "$got" "$status" \
            "$pattern" "$output"
        failed=1
    fi
}

expect 2 'usage: ration COMMAND'
expect 0 'limit +explain a limit' --help
expect 0 'usage: ration limit' help limit
expect 0 '^ration [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 2 "unknown command 'limt'; did you mean ration limit" limt
expect 0 '^ration [0-9]+\.[0-9]+\.[0-9]+$' -V
expect 0 'usage: ration policy check' help policy check
expect 2 "unknown option '--verison'; did you mean ration --version" --verison
expect 2 "unknown command 'hlep'; did you mean ration help" hlep
expect 2 "unknown option '-x'; see ration --help" -x
expect 2 "unknown command 'explan'; did you mean ration policy explain" policy explan x.yaml
expect 2 "unknown command 'foo'; see ration policy --help" policy foo
expect 2 "unknown option '--hepl'; did you mean --help" policy check --hepl
expect 2 'which file' policy check
expect 2 'check takes one file' policy check a.yaml b.yaml
expect 2 "unknown option '--hepl'; did you mean --help" limit --hepl
expect 2 "unknown option '--hepl'; did you mean --help" clock --hepl
expect 2 "unknown option '--wiat'; did you mean --wait" check --wiat ip=192.0.2.7
expect 2 "unknown option '--conect'; did you mean --connect" check --conect=x ip=192.0.2.7
expect 2 'the option needs a value: --cost' check --cost
expect 2 'did you mean --print-settings' serve --print-setings
expect 2 'usage: ration limit' limit
for command in limit clock policy serve check bench; do
    for help in --help -h; do
        expect 0 "^usage: ration $command" $command $help
        [ -z "$("$ration" $command $help 2>&1 >/dev/null)" ] || {
            echo "ration $command $help writes to the standard error"
            failed=1
        }
    done
done
expect 0 '^limit +20/100ms burst 100$' limit 20 per 100ms burst 100
expect 0 '^one token +333333333\.333333 ns$' limit 3/s
expect 0 '^full in +18000000000000 ns when empty \(reserve\)$' limit 10/s reserve 100/h burst 500
expect 1 'unknown' limit "10/s $(printf 'x%.0s' {1..1019})"
expect 0 '^refill +3 tokens every 10000000000 ns$' limit 3/10s refill interval
expect 0 'its state is larger' limit 3/s sliding_log
expect 1 'did you mean burst' limit 10/s brust 5
expect 1 'nearest valid limit: 1/y burst 16' limit 1/y burst 20
expect 2 'longer than 1024' limit "$(printf 'x%.0s' {1..1100})"
expect 0 '^monotonic ' clock
expect 2 "unknown argument 'now'; see ration clock --help" clock now
expect 0 'usage: ration bench' bench --help
expect 2 'is not this host; .* --allow-remote' bench --connect 192.0.2.1:6429
expect 2 "unknown option '--rats'; did you mean --rate" bench --rats 5 --requests 1
expect 2 "unknown option '--duratoin=3'; did you mean --duration" bench --duratoin=3
expect 2 "unknown option '-x'" bench -x
expect 2 '--duration needs a value' bench --duration
expect 2 '--duration takes a time from' bench --duration 10
expect 2 "'gopher' is not a protocol" bench gopher
expect 2 'one protocol at a time' bench resp http
expect 2 'must be used together' bench --evalsha
expect 2 'must be used together' bench --ping --script x
expect 2 'are for http' bench resp --path /
expect 2 'are for resp' bench http --ping
expect 2 'from 1 to 4096 .got .0' bench --pipeline 0
expect 2 'from 1 to 20000 .got .1x' bench --connections 1x
expect 2 '3 threads need as many connections' bench --threads 3 --connections 2
expect 2 'ip. names at most 592240896 keys' bench http --keys uniform:1G
expect 2 'cannot connect to 127.0.0.1:1: ' bench --connect 127.0.0.1:1

# The environment: a flag is true or false, and a mistyped name is no silent default.
with() { # with VARIABLE=VALUE STATUS PATTERN ARGUMENT...
    local -x "${1?}"
    shift
    expect "$@"
}
no_server=(--connect 127.0.0.1:1)
for flag in RATION_WAIT RATION_QUIET; do
    for value in maybe 1 ''; do
        with $flag=$value 2 "^ration check: $flag cannot be '$value'; write true or false$" check "${no_server[@]}" user=a
    done
    for value in true yes on FALSE no off; do
        with $flag=$value 2 'cannot connect' check "${no_server[@]}" user=a
    done
done
for flag in QUIET ALLOW_REMOTE PING INCR EVALSHA; do
    with RATION_BENCH_$flag=1 2 "^ration bench: RATION_BENCH_$flag cannot be '1'; write true or false$" bench
done
with RATION_PREFAULT=1 2 "^ration serve: RATION_PREFAULT cannot be '1'; write true or false$" serve
with RATION_BENCH_ALLOW_REMOTE=off 2 'is not this host' bench --connect 192.0.2.1:6429
with RATION_BENCH_EVALSHA=yes 2 'must be used together' bench "${no_server[@]}"
with RATION_BENCH_EVALSHA=no 2 'cannot connect' bench "${no_server[@]}"
with RATION_BENCH_EVALSHA=yes 2 'cannot connect' bench "${no_server[@]}" --evalsha=false
expect 2 "^ration check: --wait cannot be '1'; write true or false$" check --wait=1 user=a
expect 2 "^ration bench: --quiet cannot be '1'; write true or false$" bench --quiet=1
expect 2 'cannot connect' check "${no_server[@]}" --wait=false --quiet=true user=a
for command in "check ${no_server[*]} user=a" "bench ${no_server[*]}" 'serve --threads 0'; do
    warning="^ration ${command%% *}: warning: the variable"
    # shellcheck disable=SC2086
    {
        with RATION_CONECT=x 2 "$warning RATION_CONECT is ignored; did you mean RATION_CONNECT$" $command
        with RATION_MAX_CONECTIONS=5 2 "$warning .*; did you mean RATION_MAX_CONNECTIONS$" $command
        with RATION_BENCH_RAET=5 2 "$warning .*; did you mean RATION_BENCH_RATE$" $command
        with RATION_wait=true 2 "$warning RATION_wait is ignored; did you mean RATION_WAIT$" $command
        # those of other commands, those that an orchestrator sets, and those of other programs
        for known in RATION_COST=1 RATION_MAX_INPUT=1MiB RATION_BENCH_SEED=1 RATION_PORT=tcp://192.0.2.1:80 \
            RATION_SERVICE_HOST=192.0.2.1 RATIO_CONNECT=x RATION_OPTIONS=; do
            ! (export "$known" && "$ration" $command 2>&1) | grep warning || failed=1
        done
    }
done
exit $failed
