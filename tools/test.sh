#!/usr/bin/env bash
# Every test: each preset is built with warnings as errors and its tests are run, then clang-tidy and the proofs. Ends
# with "N passed, M failed". tools/check.sh runs the fast ones alone.
#
#     tools/test.sh                 everything
#     tools/test.sh release asan    these presets only, without clang-tidy and the proofs
set -euo pipefail
cd "$(dirname "$0")/.."

presets=("$@")
[ ${#presets[@]} -gt 0 ] || presets=(release dev asan tsan tsan-clang coverage fuzz)
jobs=$(nproc)
passed=0
failed=0
begun=$SECONDS

echo "presets: ${presets[*]}"

count() { # count LOG: adds the numbers of the last line of ctest
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

# The thread sanitizers of these compilers cannot start where the kernel randomises more than 28 bits of addresses.
without_randomisation() { # without_randomisation PRESET: prints the command to put before ctest
    local bits
    bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
    if [[ $1 == tsan* ]] && [ "$bits" -gt 28 ]; then
        echo "setarch $(uname -m) --addr-no-randomize"
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
    # shellcheck disable=SC2046 # words of a command, or none
    $(without_randomisation "$preset") ctest --preset "$preset" -j "$jobs" 2>&1 | tee "$log" || true
    if ! grep -q 'tests failed out of' "$log"; then
        echo "ration: ctest ran no test of preset $preset" >&2
        failed=$((failed + 1))
    else
        count "$log"
    fi
    rm -f "$log"
    [ "$preset" != coverage ] || step "coverage: all of core, lines and branches" tools/coverage.sh
done
if [ $# -eq 0 ]; then
    # Minutes for all files, seconds for those that have changed since they were clean: tools/tidy.py remembers.
    step "clang-tidy: planted bugs" tools/tidy.py --control
    step "clang-tidy" tools/tidy.py
    step "proofs: Frama-C WP" tests/proof/run.sh
fi

printf '\n%d s\n' $((SECONDS - begun))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
