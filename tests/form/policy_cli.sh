#!/usr/bin/env bash
# ration policy as a user sees it: its whole output, compared with the texts here.
#
#     policy_cli.sh RATION
set -euo pipefail

ration=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0

expect() { # expect STATUS ARGUMENT... <EXPECTED: standard output, then standard error
    local status=$1 got=0
    shift
    "$ration" policy "$@" >out 2>error || got=$?
    if [ "$got" -ne "$status" ] || ! diff -u - <(cat out error); then
        printf 'ration policy %s: status %d, %d wanted, or other words\n' "$*" "$got" "$status"
        failed=1
    fi
}

cat >policy.yaml <<'YAML'
limits:
  - {name: all, rate: 1000/s}
  - name: login
    match: {method: POST, path: [/login, /signin]}
    key: ip
    rate: 5/min burst 10
  - name: tokens
    match: {path: {prefix: /v1/}}
    key: [user, ip]
    cost: tokens
    rate: 10k/min
    shadow: true
exempt:
  - user: root
banned:
  - user: mallory
YAML

cat >wrong.yaml <<'YAML'
limits:
  - name: login
    rate: 5/mim
    brust: 10
YAML

expect 0 check policy.yaml <<'TEXT'
NAME    KEY       LIMIT           MATCH
all     -         1000/s          every request
login   ip        5/min burst 10  method is POST, path is /login or /signin
tokens  user, ip  10000/min       path starts with /v1/ (shadow)
TEXT

expect 2 check wrong.yaml <<'TEXT'
wrong.yaml:3:13: unknown unit 'mim': ns, us, ms, s, min, h, d, w and y are known
wrong.yaml:4:5: a limit has no field 'brust': did you mean burst?
TEXT

# The section server: is checked as ration serve does, but for what is in files of this host.
cat >settings.yaml <<'YAML'
limits: [{name: all, rate: 1000/s}]
server:
  threads: 1k
  inlien_keys: 5
  check_secret_file: ""
YAML
expect 2 check settings.yaml <<'TEXT'
settings.yaml:3:12: threads cannot be '1k'; write a number from 1 to 64
settings.yaml:4:3: there is no setting inlien_keys; did you mean inline_keys
settings.yaml:5:22: check_secret_file is empty; write the path of a file
TEXT
cat >settings.yaml <<'YAML'
limits: [{name: all, rate: 1000/s}]
server: {http: '*:8429', resp: '127.0.0.1:6429', admin_secret_file: /nowhere/at/all, redis_file: /nor/there}
YAML
expect 0 check settings.yaml <<'TEXT'
NAME  KEY  LIMIT   MATCH
all   -    1000/s  every request
settings.yaml: ration serve needs more options: http *:8429 can be reached from other hosts, and there is no check secret; give one with --check-secret-file, or listen on 127.0.0.1 or a Unix socket, or pass --insecure
TEXT

expect 2 explain wrong.yaml path=/ <<'TEXT'
wrong.yaml:3:13: unknown unit 'mim': ns, us, ms, s, min, h, d, w and y are known
wrong.yaml:4:5: a limit has no field 'brust': did you mean burst?
TEXT

expect 2 check absent.yaml <<'TEXT'
absent.yaml: the file cannot be read: No such file or directory
TEXT

expect 0 explain policy.yaml method=POST path=/login ip=2001:db8::1 cost=3 <<'TEXT'
all: applies, 1000/s
    key   none: one bucket for all
    cost  3
login: applies, 5/min burst 10
    key   '2001:db8::/64'
    cost  3
tokens: does not apply: it requires that path starts with /v1/, and path is /login
TEXT

expect 0 explain policy.yaml path=/v1/x user=$'a|b\e[31m' tokens=1e9 <<'TEXT'
all: applies, 1000/s
    key   none: one bucket for all
    cost  1
login: does not apply: it requires that method is POST, and there is no method
tokens: applies as a shadow, 10000/min
    key   'a\|b\x1B[31m|'
    cost  none: tokens is not decimal digits
TEXT

expect 0 explain policy.yaml user=root <<'TEXT'
exempt by the entry in line 14
TEXT

expect 1 explain policy.yaml user=mallory <<'TEXT'
banned by the entry in line 16
TEXT

expect 0 explain policy.yaml ip=nonsense <<'TEXT'
all: applies, 1000/s
    key   none: one bucket for all
    cost  1
login: does not apply: it requires that method is POST, and there is no method
tokens: does not apply: it requires that path starts with /v1/, and there is no path
TEXT

expect 0 explain policy.yaml ip=nonsense path=/login method=POST <<'TEXT'
all: applies, 1000/s
    key   none: one bucket for all
    cost  1
login: applies, 5/min burst 10
    key   none: ip is not an address, or the key is longer than 65535 bytes
    cost  1
tokens: does not apply: it requires that path starts with /v1/, and path is /login
TEXT

expect 2 explain policy.yaml path=/a path=/b <<'TEXT'
ration policy: cannot evaluate the request: an attribute is given twice, ip is not an address, or more than 16 limits apply
TEXT

expect 2 explain policy.yaml path <<'TEXT'
ration policy: 'path' is not an attribute: write NAME=VALUE
TEXT

expect 2 explain policy.yaml cost=-1 <<'TEXT'
ration policy: a cost must be decimal digits (got '-1')
TEXT

for row in "|usage: ration policy check FILE" "check|which file" "explain|which file" "check a b|check takes one file" \
    "frobnicate policy.yaml|unknown command 'frobnicate'"; do
    got=0
    "$ration" policy ${row%%|*} >out 2>error || got=$?
    if [ "$got" -ne 2 ] || ! grep -q "${row#*|}" error; then
        echo "ration policy ${row%%|*}: status $got, or no '${row#*|}' in: $(cat error)"
        failed=1
    fi
done
exit $failed
