#!/usr/bin/env bash
#
# Has Spin search all interleavings of one case of a model, or find the bug that is seeded in it.
#
#     tests/spin/spin.sh <scratch folder> <model> <states|cycles> <text of the error|-> <define...>
#
# states: the assertions hold in every state, and no thread is left waiting. cycles: the assertions
# hold, and no run continues for ever without progress (Spin's non-progress cycles,
# without fairness; the states are then counted about twice). -: nothing may be found; otherwise
# Spin must find that error.
#
# Status: 0 if the result is as required; 1 if not, or if a tool is missing.

set -euo pipefail

readonly MEMORY_MB=1500
readonly DEPTH=200000

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ $# -lt 4 ]; then
    sed -n 's/^#     //p' "$0" >&2
    exit 1
fi
scratch=$1 model=$2 search=$3 error=$4
shift 4

for tool in spin gcc; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool not found (Debian: apt-get install spin gcc)" >&2
        exit 1
    fi
done

mkdir -p "$scratch"
cd "$scratch"
rm -f pan pan.* ./*.trail spin.log

name="$model${*:+ $*}"
defines=()
for define in "$@"; do
    defines+=("-D$define")
done

if ! spin "${defines[@]}" -a "$here/$model.pml" >spin.log 2>&1; then
    cat spin.log
    exit 1
fi
case $search in
states) options=(-DSAFETY) arguments=() ;;
cycles) options=(-DNP) arguments=(-l) ;;
*)
    echo "neither states nor cycles: $search" >&2
    exit 1
    ;;
esac
# Optimise only a whole search; a bug is found soon.
optimisation=-O1
[ "$error" = - ] || optimisation=-O0
gcc "$optimisation" -w -DCOLLAPSE -DVECTORSZ=1024 -DMEMLIM="$MEMORY_MB" "${options[@]}" -o pan pan.c
./pan -m"$DEPTH" -w22 "${arguments[@]}" >pan.log 2>&1 || true

states=$(awk '/ states, stored/ { printf "%.0f", $1 }' pan.log)
errors=$(sed -n 's/.*, errors: \([0-9]*\)$/\1/p' pan.log)
found=$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth [0-9]*)$/\1/p' pan.log)

replay()
{
    spin "${defines[@]}" -k "$model.pml.trail" -t "$here/$model.pml" | grep -E '^ *thread|CYCLE' ||
        true
}

# A search that was cut short proves nothing.
is_whole=1
! grep -qE 'Search not completed|too small|MEMLIM|out of memory' pan.log || is_whole=0

if [ -z "$states" ] || [ -z "$errors" ] || { [ "$errors" -eq 0 ] && [ "$is_whole" -eq 0 ]; }; then
    echo "$name: the search was cut short"
    cat pan.log
    exit 1
elif [ "$error" = - ] && [ "$errors" -gt 0 ]; then
    echo "$name: $found"
    replay
    exit 1
elif [ "$error" = - ]; then
    echo "$name: $states states, nothing found"
elif [ "$errors" -eq 0 ]; then
    echo "$name: NOT caught, $states states and nothing found"
    exit 1
elif ! grep -qF "$error" <<<"$found"; then
    echo "$name: caught by something else than '$error': $found"
    replay
    exit 1
else
    echo "$name: caught after $states states, as it must ($found)"
fi
