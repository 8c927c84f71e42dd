#!/bin/sh
# Installs the Debian packages that a task needs and that are missing, and says which.
#
#     tools/install-packages.sh build|test|bench
#
# The one place where the project's packages are listed.
set -eu

build="gcc libc6-dev make cmake ninja-build libxxhash-dev libyaml-dev libuv1-dev libhttp-parser-dev
      libjansson-dev libhiredis-dev"
test="$build clang clang-format libclang-rt-14-dev libcmocka-dev gcovr binutils pkg-config g++
      frama-c-base why3 z3 cvc4 spin curl mandoc python3-yaml python3-jsonschema python3-redis redis-server redis-tools
      nginx-light haproxy caddy prometheus iproute2 systemd util-linux"
bench="wrk"
# Of Node any will do, wherever it is from.
command -v node >/dev/null || test="$test nodejs"
command -v npm >/dev/null || test="$test npm"

case "${1:-}" in
build) wanted=$build ;;
test) wanted=$test ;;
bench) wanted="$test $bench" ;;
*)
    echo "usage: $0 build|test|bench" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "ration: apt is not here, so nothing is installed. Needed, by their Debian names:" \
        $wanted >&2
    exit 0
fi

missing=""
for package in $wanted; do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "ration: all packages needed to $1 are installed"
    exit 0
fi

echo "ration: installing$missing"
sudo=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "ration: not root, and there is no sudo. Install these and try again:$missing" >&2
        exit 1
    fi
    sudo="sudo env DEBIAN_FRONTEND=noninteractive" # sudo clears the environment
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)

# Tests start the servers that they need; none is to run because it was installed. Debian asks
# policy-rc.d whether a service may start (101: no), so one that says no stands there meanwhile,
# unless the machine has its own. Services that came with this call do not start at boot either.
guard=/usr/sbin/policy-rc.d
if [ -e "$guard" ]; then
    guard=""
else
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$guard" >/dev/null
    $sudo chmod 755 "$guard"
fi
trap 'rm -f "$log"; [ -z "$guard" ] || $sudo rm -f "$guard"' EXIT
trap 'exit 1' HUP INT TERM

new_services=""
for service in nginx haproxy caddy prometheus redis-server; do
    [ -e "/lib/systemd/system/$service.service" ] || new_services="$new_services $service"
done
disable_new_services() {
    for service in $new_services; do
        [ ! -e "/lib/systemd/system/$service.service" ] || $sudo systemctl --quiet disable "$service" || true
    done
}

# The package lists may be absent or old: fetch them, then install.
if ! { $sudo apt-get update && $sudo apt-get install -y --no-install-recommends $missing &&
    disable_new_services; } \
    >"$log" 2>&1 </dev/null; then
    tail -20 "$log" >&2
    echo "ration: apt-get could not install$missing" >&2
    exit 1
fi
