#!/usr/bin/env bash
#
# Proves the arithmetic of base/time.h, base/wide.h and core/gcra.h with Frama-C WP, then checks
# that the proofs can fail: a copy of a header with one seeded bug must leave a goal open.
#
#     tests/proof/run.sh [scratch folder]
#
# Status: 0 all proved and every bug caught, 1 not so, 77 a tool is missing. See README.md.

set -euo pipefail

readonly JOBS_MAX=3 # Frama-C spends half of its time waiting
readonly TIMEOUT_SECONDS=30
readonly SEEDED_TIMEOUT_SECONDS=3

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
failed=0

for tool in frama-c why3 z3 cvc4; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool not found (Debian: apt-get install frama-c-base why3 z3 cvc4)" >&2
        exit 77
    fi
done

if [ $# -gt 0 ]; then
    mkdir -p "$1"
    scratch=$(cd "$1" && pwd)
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi
cd "$scratch"
rm -rf logs seeded why3.conf
mkdir logs seeded

# Our own list of provers, so that nothing hangs on what the user has configured.
export WHY3CONFIG="$scratch/why3.conf"
why3 -C "$WHY3CONFIG" config detect >logs/why3 2>&1

cat >headers.c <<'EOF'
#include "base/time.h"
#include "base/wide.h"
#include "core/gcra.h"
EOF

# prove <folder of headers that go first> <log> <seconds> <option...>, in the background.
prove()
{
    local first=$1 log=$2 seconds=$3
    shift 3
    while [ "$(jobs -pr | wc -l)" -ge "$JOBS_MAX" ]; do
        wait -n || true # the log shows it
    done
    frama-c -c11 -cpp-extra-args="-I$first -I$root/src -I$root/include" \
        -wp -wp-rte -warn-unsigned-overflow -wp-prover z3,cvc4 -wp-par 2 -wp-cache none \
        -wp-timeout "$seconds" "$@" headers.c >"logs/$log" 2>&1 &
}

# goals <log>: "name" and "proved" or "open", one per line.
goals()
{
    sed -n -e 's/^\[wp\] \[[^]]*\] Goal typed_\([^ ]*\) : Valid.*/\1 proved/p; t' \
        -e 's/^\[wp\] \[[^]]*\] Goal typed_\([^ ]*\).*/\1 open/p' "logs/$1"
}

# ran <log>: whether Frama-C came to its end, counted the same goals, and had nothing to remark.
ran()
{
    local all proved
    all=$(goals "$1" | wc -l)
    proved=$(goals "$1" | grep -c ' proved$' || true)
    [ "$all" -gt 0 ] && ! grep -q 'Warning' "logs/$1" &&
        grep -qE "^\[wp\] Proved goals: +$proved / $all\$" "logs/$1"
}

# functions <header>: the names of its inline functions.
functions()
{
    sed -n 's/^static inline [^(]*\<\(ration_[a-z_]*\)(.*/\1/p' "$root/src/$1.h"
}

# report <name> <log...>: one line, and the open goals if there are any.
report()
{
    local name=$1 log all=0 proved=0
    shift
    for log in "$@"; do
        if ! ran "$log"; then
            echo "Frama-C said of $log:"
            cat "logs/$log"
            failed=1
        fi
        all=$((all + $(goals "$log" | wc -l)))
        proved=$((proved + $(goals "$log" | grep -c ' proved$' || true)))
    done
    echo "$name: $proved of $all goals"
    if [ "$proved" -ne "$all" ]; then
        for log in "$@"; do
            goals "$log" | sed -n 's/ open$//p' | sed 's/^/    open: /'
        done
        failed=1
    fi
}

headers=(base/time base/wide core/gcra)

for header in "${headers[@]}"; do
    for function in $(functions "$header"); do
        prove "$root/src" "$function" "$TIMEOUT_SECONDS" -wp-fct "$function"
    done
done
prove "$root/src" lemmas "$TIMEOUT_SECONDS" -wp-prop=@lemma
wait

for header in "${headers[@]}"; do
    # shellcheck disable=SC2046 # names of functions have no spaces
    report "$header" $(functions "$header")
    for function in $(functions "$header"); do
        if ! goals "$function" | grep -q 'ensures'; then
            echo "    no contract: $function"
            failed=1
        fi
    done
done
report lemmas lemmas

# Each row: what is wrong | header | function | the goal that must stay open | the sed command that
# makes it so. Other goals may stay open too, as consequences or because this runs with less time.
seeds=(
    'wait truncated|base/time.h|ration_time_ceil_ns|ensures|s/t.frac > 0 ? 1 : 0/t.frac > 0 ? 0 : 0/'
    'carry lost in a sum|base/time.h|ration_time_add|ensures_2|s/a.ns + b.ns + carry/a.ns + b.ns/'
    'high half of a count dropped|base/time.h|ration_time_scale|assert|s/high = .*;/high = 0;/'
    'carry lost in a product|base/wide.h|ration_wide_multiply|ensures|s/ + other . RATION_HALF,/,/'
    'carry lost in a wide sum|base/wide.h|ration_wide_add|ensures|s/a.high + b.high + carry/a.high + b.high/'
    'last token refused|core/gcra.h|ration_gcra_take|decide_ensures|s/cost_tokens > rate->burst)/cost_tokens >= rate->burst)/'
    'longest wait refused|core/gcra.h|ration_gcra_take|decide_ensures_2|s/wait_ns > max_wait_ns/wait_ns >= max_wait_ns/'
    'idle time saved up|core/gcra.h|ration_gcra_take|decide_ensures_3|s/add(ration_time_max(tat, now), cost)/add(tat, cost)/'
    'idle bucket misread|core/gcra.h|ration_gcra_remaining|call_ration_time_sub_requires_2|s/sub(ration_time_max(tat, now), now)/sub(tat, now)/'
    'refund below zero|core/gcra.h|ration_gcra_refund|call_ration_time_sub_requires_2|s/sub_or_zero(tat, ration_gcra_worth/sub(tat, ration_gcra_worth/'
    'debt without end|core/gcra.h|ration_gcra_charge|ensures_2|s/less(most, next)/less(next, most)/'
    'block a token too long|core/gcra.h|ration_gcra_block|assert|s/rate->burst - 1)/rate->burst)/'
    'set beyond the burst|core/gcra.h|ration_gcra_set|assert_rte_unsigned_overflow|s/tokens < rate->burst ? \(.*\) : 0;/\1;/'
    'release before the turn|core/gcra.h|ration_gcra_release|call_ration_gcra_outstanding_requires_3|s/now_ns < release->turn_ns || //'
    'release while others wait|core/gcra.h|ration_gcra_release|others_wait_ensures|s/ || ration_gcra_is_waited(tat, rate, now_ns)//'
    'release of what time has paid back|core/gcra.h|ration_gcra_release|free_ensures|s/less(outstanding, unused)/less(unused, outstanding)/'
    'returns of others not counted|core/gcra.h|ration_gcra_outstanding|ensures_2|s/worth(rate, release->returned_tokens)/worth(rate, 0)/'
    'turn reported too early|core/gcra.h|ration_gcra_take|decide_ensures_3|s/max(tat, turn)/max(tat, now)/'
)

for index in "${!seeds[@]}"; do
    IFS='|' read -r _ header function _ change <<<"${seeds[index]}"
    mkdir -p "$(dirname "seeded/$index/$header")"
    sed "$change" "$root/src/$header" >"seeded/$index/$header"
    prove "$scratch/seeded/$index" "seeded.$index" "$SEEDED_TIMEOUT_SECONDS" -wp-fct "$function"
done
wait

for index in "${!seeds[@]}"; do
    IFS='|' read -r name header function goal _ <<<"${seeds[index]}"
    open=$(goals "seeded.$index" | sed -n "s/ open\$//; T; s/^${function}_//p" | paste -sd' ')
    if [ "$(diff "$root/src/$header" "seeded/$index/$header" | grep -c '^>')" -ne 1 ]; then
        echo "seeded bug '$name': must change one line of $header, and does not"
        failed=1
    elif ! ran "seeded.$index"; then
        echo "seeded bug '$name': Frama-C said:"
        cat "logs/seeded.$index"
        failed=1
    elif ! grep -qw "$goal" <<<"$open"; then
        echo "seeded bug '$name': NOT caught, $goal of $function is proved"
        failed=1
    else
        count=$(wc -w <<<"$open")
        echo "seeded bug '$name': $count $([ "$count" -eq 1 ] && echo goal || echo goals) open," \
            "as it must ($open)"
    fi
done

exit "$failed"
