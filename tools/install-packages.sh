#!/bin/sh
# Installs the Debian packages that a task needs and that are missing. Says before what they are and what they are for.
#
#     tools/install-packages.sh TASK           build, check, tidy, test or bench
#     tools/install-packages.sh --list TASK    prints what the task needs and installs nothing
#
# The one place where the project's packages are listed. No service is started, now or when the machine boots.
set -eu

# Tasks, what the packages are for, and their names.
groups='
build check tidy test bench | C compiler and build tools       | gcc libc6-dev make cmake ninja-build
build check tidy test bench | libraries that ration links      | libxxhash-dev libyaml-dev libuv1-dev libhttp-parser-dev libjansson-dev libhiredis-dev
check tidy test bench       | scripts of the project           | python3 git
check test                  | unit tests                       | libcmocka-dev
check test                  | checks of form                   | binutils clang-format g++ mandoc pkg-config python3-yaml shellcheck systemd
check test                  | Redis for the tests              | redis-server redis-tools
check tidy test             | the second compiler              | clang
tidy test                   | static analysis                  | clang-tidy
test                        | fuzzing and coverage             | libclang-rt-14-dev gcovr
test                        | proofs and model checking        | frama-c-base why3 z3 cvc4 spin
test                        | clients of the server            | curl nodejs npm python3-redis python3-jsonschema
test                        | proxies in front of the server   | nginx-light haproxy caddy
test                        | monitoring                       | prometheus
test                        | network namespaces               | iproute2 util-linux
bench                       | servers to compare with          | redis-server redis-tools nginx-light haproxy
bench                       | load generator                   | wrk
'

usage() {
    echo "usage:" >&2
    sed -n '4,5s/^#   //p' "$0" >&2
    exit 2
}

list_only=false
if [ "${1:-}" = --list ]; then
    list_only=true
    shift
fi
task=${1:-}
case "$task" in
build | check | tidy | test | bench) ;;
*) usage ;;
esac

# "purpose|packages" of each group that the task has.
wanted_groups() {
    echo "$groups" | awk -F '|' -v task="$task" '
        (" " $1 " ") ~ (" " task " ") { gsub(/^ +| +$/, "", $2); gsub(/^ +| +$/, "", $3); print $2 "|" $3 }'
}

show() { # show PURPOSE PACKAGE...
    printf '  %-33s%s\n' "$1:" "$2"
}

if $list_only; then
    wanted_groups | while IFS='|' read -r purpose packages; do show "$purpose" "$packages"; done
    exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "ration: this is not a Debian system, so nothing is installed. make $task needs (Debian names):" >&2
    "$0" --list "$task" >&2
    exit 0
fi

is_installed() { # is_installed PACKAGE
    case "$1" in
    nodejs) command -v node >/dev/null && return 0 ;; # from anywhere
    npm) command -v npm >/dev/null && return 0 ;;
    esac
    [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null || true)" = "install ok installed" ]
}

missing=""
report=""
old_ifs=$IFS
IFS='
'
for group in $(wanted_groups); do
    IFS=$old_ifs
    purpose=${group%%|*}
    of_group=""
    for package in ${group#*|}; do
        is_installed "$package" || of_group="$of_group $package"
    done
    if [ -n "$of_group" ]; then
        missing="$missing$of_group"
        report="$report$(show "$purpose" "${of_group# }")
"
    fi
done
IFS=$old_ifs
[ -n "$missing" ] || exit 0

printf 'ration: installing Debian packages for make %s\n%s' "$task" "$report"
sudo=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "ration: you are not root and there is no sudo. Install these packages and try again:$missing" >&2
        exit 1
    fi
    sudo="sudo env DEBIAN_FRONTEND=noninteractive" # sudo clears the environment
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)

# The tests start the servers that they need, so no package may start its service. Debian's packages ask
# /usr/sbin/policy-rc.d whether they may (101: no). One that says no exists during the installation, unless the
# machine has its own.
guard=/usr/sbin/policy-rc.d
if [ -e "$guard" ]; then
    guard=""
else
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$guard" >/dev/null
    $sudo chmod 755 "$guard"
fi
trap 'rm -f "$log"; [ -z "$guard" ] || $sudo rm -f "$guard"' EXIT
trap 'exit 1' HUP INT TERM

# Services that come with this installation do not start at boot either. Others are left as they are.
new_services=""
for service in nginx haproxy caddy prometheus redis-server; do
    [ -e "/lib/systemd/system/$service.service" ] || new_services="$new_services $service"
done
disable_new_services() {
    for service in $new_services; do
        [ ! -e "/lib/systemd/system/$service.service" ] || $sudo systemctl --quiet disable "$service" || true
    done
}

# The package lists may be missing or old: fetch them first.
# shellcheck disable=SC2086 # one word per package, and sudo may be several words
if ! { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends $missing && disable_new_services; } \
    >"$log" 2>&1 </dev/null; then
    tail -20 "$log" >&2
    echo "ration: apt-get could not install:$missing" >&2
    exit 1
fi
