#!/usr/bin/env bash
# The unit for systemd is valid, and systemd-analyze rates its exposure below 2.0 of 10.
#
#     systemd.sh PROGRAM UNIT_TEMPLATE
#     systemd.sh --control PROGRAM UNIT_TEMPLATE     without its restrictions it must be rejected
set -euo pipefail

exposure_max=20 # in tenths

control=""
if [ "$1" = --control ]; then
    control=1
    shift
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unit=$folder/ration.service
sed "s|@RATION_PROGRAM@|$1|" "$2" >"$unit"

rate() { # sets exposure; fails if it is too high
    local output status=0
    output=$(systemd-analyze security --offline=true --no-pager --threshold=$exposure_max "$1" 2>&1) || status=$?
    exposure=$(grep -o 'exposure level for .*' <<<"$output")
    return $status
}

if [ -n "$control" ]; then
    sed -i -E '/^(SystemCall|Restrict|Protect|Private|Capability|NoNew|Memory|Lock|IPAddress|DynamicUser)/d' "$unit"
    if rate "$unit"; then
        echo "a unit without restrictions was accepted: $exposure"
        exit 1
    fi
    sed -i 's/^Type=notify/Type=notified/' "$unit"
    if [ -z "$(systemd-analyze verify --man=no "$unit" 2>&1)" ]; then
        echo "a unit with a mistake was accepted"
        exit 1
    fi
    echo "a unit without restrictions was rejected: $exposure"
    exit 0
fi

# A warning is no failure for verify, and is one here.
complaints=$(systemd-analyze verify --man=no "$unit" 2>&1) || true
if [ -n "$complaints" ]; then
    echo "$complaints"
    exit 1
fi
if ! rate "$unit"; then
    echo "systemd-analyze rates the unit above $exposure_max tenths: $exposure"
    exit 1
fi
echo "$exposure"
