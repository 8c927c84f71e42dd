#!/usr/bin/env bash
# Everything that must hold before a change is done: each preset is built with warnings as errors
# and its tests are run, then the proofs. Ends with "N passed, M failed".
#
# Presets may be named to run only those:  tools/test.sh release asan
set -euo pipefail
cd "$(dirname "$0")/.."

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(release dev asan tsan tsan-clang coverage fuzz)
jobs=$(nproc)
passed=0
failed=0
begun=$SECONDS

echo "presets: ${presets[*]}"

count() { # count LOG: adds what ctest closed with
    local line
    line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$1" | tail -1)
    local bad total
    bad=$(sed -E 's/.*, ([0-9]+) tests failed.*/\1/' <<<"$line")
    total=$(sed -E 's/.*out of ([0-9]+).*/\1/' <<<"$line")
    passed=$((passed + total - bad))
    failed=$((failed + bad))
}

step() { # step NAME COMMAND...: counts as one test
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
}

for preset in "${presets[@]}"; do
    printf '\n== %s: configure, build\n' "$preset"
    if ! { cmake --preset "$preset" -DBUILD_TESTING=ON --log-level=WARNING >/dev/null &&
        cmake --build --preset "$preset" -j "$jobs" -- --quiet; }; then
        echo "FAILED: $preset does not build"
        failed=$((failed + 1))
        continue
    fi
    log=$(mktemp)
    printf '== %s: test\n' "$preset"
    find "build" -name '*.gcda' -delete # counts of an earlier run
    ctest --preset "$preset" -j "$jobs" 2>&1 | tee "$log" || true
    if ! grep -q 'tests failed out of' "$log"; then
        echo "ration: ctest of $preset ran no test" >&2
        failed=$((failed + 1))
    else
        count "$log"
    fi
    rm -f "$log"
    [ "$preset" != coverage ] || step "coverage: all of core, lines and branches" tools/coverage.sh
done
[ $# -gt 0 ] || step "proofs: Frama-C WP" tests/proof/run.sh

printf '\n%d s\n' $((SECONDS - begun))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
