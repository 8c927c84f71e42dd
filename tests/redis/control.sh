#!/usr/bin/env bash
# Runs a test with a script that has a bug, and fails unless the test does.
#
#     control.sh BUG.sed SCRIPT COMMAND ARGUMENT...      {script} in an argument is the one with the bug
set -euo pipefail
bug=$1 script=$2
shift 2
wrong=$(mktemp)
trap 'rm -f "$wrong"' EXIT
sed -f "$bug" "$script" >"$wrong"
! cmp -s "$script" "$wrong" || { echo "$bug changes nothing" >&2; exit 1; }
status=0
"${@//\{script\}/$wrong}" || status=$?
[ $status -eq 1 ] || { echo "the bug was not caught: status $status" >&2; exit 1; }
