#!/usr/bin/env bash
# The fast tests: unit tests, rows, checks of form, and a server with and without Redis. They find most mistakes in
# less than a minute; tools/test.sh runs everything. Which tests are fast is decided where they are registered
# (the label check, see tests/CMakeLists.txt).
#
# Ends with how many tests ran and how long it took. Fails if a test fails or if none ran.
set -euo pipefail
cd "$(dirname "$0")/.."

slow_seconds=5
log=$(mktemp)
trap 'rm -f "$log"' EXIT

begun=$SECONDS
cmake --preset release -DBUILD_TESTING=ON --log-level=WARNING >/dev/null
cmake --build --preset release -j "$(nproc)" --target check_tests -- --quiet
printf 'built in %d s\n' $((SECONDS - begun))

begun=$EPOCHREALTIME
cpu_begun=$(awk '{ print $16 + $17 }' "/proc/$$/stat") # of ended children, in ticks
status=0
ctest --preset check -j "$(nproc)" --no-tests=error >"$log" 2>&1 || status=$?
cpu=$(awk -v begun="$cpu_begun" -v hz="$(getconf CLK_TCK)" '{ print ($16 + $17 - begun) / hz }' "/proc/$$/stat")

# All of what a failed test has written, and no line of the others.
[ "$status" -eq 0 ] || sed -E '/^ *(Start +[0-9]+:|[0-9]+\/[0-9]+ Test +#[0-9]+: .* Passed )/d' "$log" >&2

# A test that has become slow belongs to tools/test.sh alone. Times mean nothing while other programs use the cores.
read -r load _ </proc/loadavg
[ "${load%.*}" -gt "$(nproc)" ] || awk -v max=$slow_seconds '$NF == "sec" && $(NF - 1) > max && /Passed/ {
    sub(/.*#[0-9]+: /, "")
    print $1 " took " $(NF - 1) " s, more than " max " s: label it slow where it is registered" }' "$log"

total=$(sed -nE 's/^[0-9]+% tests passed, [0-9]+ tests failed out of ([0-9]+)$/\1/p' "$log")
failed=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of [0-9]+$/\1/p' "$log")
if [ -z "$total" ] || [ "$total" -eq 0 ]; then
    echo "make check: no test ran" >&2
    exit 1
fi
awk -v passed=$((total - failed)) -v failed="$failed" -v a="$begun" -v b="$EPOCHREALTIME" -v cpu="$cpu" 'BEGIN {
    printf "%d passed, %d failed in %.0f s (%.0f s of CPU time)\n", passed, failed, b - a, cpu }'
exit $status
