#!/usr/bin/env bash
# The embedded policy answers, and reports what is wrong with one.   policy.sh PROGRAM POLICIES_FOLDER
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

printf 'limits: [{name: three, key: ip, rate: 3/h}]\n' >"$folder/three.yaml"
# of the wait only the first digits: some of the time has passed
"$1" "$folder/three.yaml" ip=192.0.2.7 | sed 's/119[0-9]* ms/119x ms/' >"$folder/got"
diff -u - "$folder/got" <<'END'
allowed: three has 2 left
allowed: three has 1 left
allowed: three has 0 left
deny by three: retry after 119x ms
deny by three: retry after 119x ms
END

"$1" "$2/login.yaml" method=POST path=/login ip=192.0.2.7 user=u | grep -q '^allowed: tries-per-network has 9 left$'

printf 'limits: [{name: three, kye: ip, rate: 3/h}]\n' >"$folder/wrong.yaml"
if "$1" "$folder/wrong.yaml" 2>"$folder/error"; then exit 1; fi
grep -q 'wrong.yaml:1:24: .*did you mean key' "$folder/error"
