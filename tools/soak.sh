#!/usr/bin/env bash
# Random campaigns for SECONDS (600) on the release build: traces of buckets and limiters compared with the model,
# reservations, and threads that yield at random points. Each round has a new seed and prints it. A failure ends the run.
#
#     tools/soak.sh [SECONDS [SEED]]
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
seed=${2:-$(date +%s)}

cmake --preset release -DBUILD_TESTING=ON --log-level=WARNING >/dev/null
cmake --build --preset release -- --quiet
round=0
while [ $SECONDS -lt "$seconds" ]; do
    echo "== round $round, seed $seed, $SECONDS of $seconds s"
    for kind in token interval reserve queue fixed sliding log; do
        build/tests/model/trace_test $kind "$seed" | tail -1
    done
    for mode in exact overflow stale reload change; do
        build/tests/model/limiter_trace_test $mode "$seed" | tail -1
    done
    for test in units_test limit_text_test; do
        RATION_TEST_SEED=$seed build/tests/$test >/dev/null 2>&1
    done
    build/tests/model/reservation_test "$seed" | tail -1
    RATION_TEST_SEED=$seed build/tests/concurrency/yield_test | tail -1
    for test in one_bucket_test limiter_yield_test limiter_first_touch_test limiter_totals_test; do
        RATION_TEST_SEED=$seed build/tests/concurrency/$test | tail -1
    done
    seed=$((seed + 1))
    round=$((round + 1))
done
echo "$round rounds without a failure"
