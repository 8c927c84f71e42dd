#!/usr/bin/env bash
# The limiters that ration is compared with: installs the missing packages that they need, builds them in build/peers, and
# runs each alone. One that cannot be built is named with the reason, and left out.
#
#     tools/bench/peers.sh            install, build, run
#     tools/bench/peers.sh build      install and build only; make bench then runs them too
set -euo pipefail
cd "$(dirname "$0")/../.."

sources=tools/bench/peers
out=build/peers
gocode=/usr/share/gocode
javalib=/usr/share/java
run_seconds_max=15

case "${1:-run}" in
run | build) task=${1:-run} ;;
*)
    echo "usage: $0 [build]" >&2
    exit 2
    ;;
esac

# Installing -----------------------------------------------------------------------------------

# Looks for the program or file and not for its package, because a Go, JDK or Node from elsewhere will do.
has_command() { command -v "$1" >/dev/null; }
has_file() { [ -e "$1" ]; }
has_header() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }

missing_packages() {
    has_command go || echo golang-go
    has_file $gocode/src/golang.org/x/time/rate || echo golang-golang-x-time-dev
    has_file $gocode/src/github.com/juju/ratelimit || echo golang-github-juju-ratelimit-dev
    has_command javac || echo default-jdk-headless
    has_file $javalib/guava.jar || echo libguava-java
    has_command node || echo nodejs
    has_command npm || echo npm
    has_header xxhash.h || echo libxxhash-dev
}

# Installs the packages, all at once or, if that fails, one by one.
install_packages() {
    local as_root=env log package

    if ! has_command apt-get; then
        echo "ration: this is not a Debian system, so nothing is installed." \
            "Needed, by their Debian names: $*" >&2
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! has_command sudo; then
            echo "ration: you are not root and there is no sudo. Not installed: $*" >&2
            return
        fi
        as_root="sudo env" # sudo clears the environment
    fi
    log=$(mktemp)
    apt() { $as_root DEBIAN_FRONTEND=noninteractive apt-get "$@" >"$log" 2>&1 </dev/null; }
    echo "ration: installing Debian packages for make bench-peers: $*"
    apt update || true # old lists may do
    if ! apt install -y --no-install-recommends "$@"; then
        for package in "$@"; do
            apt install -y --no-install-recommends "$package" && continue
            tail -3 "$log" >&2
            echo "ration: apt-get could not install $package" >&2
        done
    fi
    rm -f "$log"
}

# Building -------------------------------------------------------------------------------------

peers=()

# launcher NAME COMMAND...: makes $out/NAME, which runs the command.
launcher() {
    local name=$1

    shift
    {
        # shellcheck disable=SC2016 # for the launcher to expand
        printf '#!/bin/sh\n# Written by tools/bench/peers.sh.\ncd "$(dirname "$0")" && exec'
        printf ' %q' "$@"
        printf '\n'
    } >"$out/$name"
    chmod +x "$out/$name"
    peers+=("$name")
}

absent() { echo "ration: $1 is left out: $2" >&2; }

build_go() {
    local kind

    has_command go || { absent go "go is not installed"; return; }
    # Debian's Go libraries are a GOPATH, from the time before modules.
    GO111MODULE=off GOPATH=$gocode GOCACHE=$PWD/$out/go/cache GOFLAGS="" \
        go build -o $out/go/peer $sources/go/*.go || { absent go "it does not build"; return; }
    for kind in xtime-mutex xtime-rwmutex xtime-syncmap juju-mutex; do
        launcher go-$kind ./go/peer go-$kind
    done
}

build_java() {
    has_command javac || { absent java "javac is not installed"; return; }
    has_file $javalib/guava.jar || { absent java "guava.jar is not installed"; return; }
    javac -nowarn -cp $javalib/guava.jar -d $out/java $sources/java/Peer.java ||
        { absent java "it does not build"; return; }
    launcher java-guava java -Xms2g -Xmx2g -cp "java:$javalib/guava.jar" Peer
}

build_node() {
    has_command npm || { absent node "npm is not installed"; return; }
    cp $sources/node/package.json $sources/node/peer.js $out/node/
    if [ ! -d $out/node/node_modules/rate-limiter-flexible ]; then
        echo "ration: installing rate-limiter-flexible into $out/node, with npm"
        npm install --prefix $out/node --no-package-lock --no-audit --no-fund --ignore-scripts \
            --loglevel=error >/dev/null || { absent node "npm could not install it"; return; }
    fi
    launcher node-flexible node --expose-gc node/peer.js
}

missing=$(missing_packages)
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # one word per package
    install_packages $missing
else
    echo "ration: all packages needed by the peers are installed"
fi
mkdir -p $out/go $out/java $out/node
build_go
build_java
build_node
echo "ration: built in $out: ${peers[*]:-none}"
[ "$task" = run ] || exit 0

for peer in ${peers[@]+"${peers[@]}"}; do
    timeout $run_seconds_max "$out/$peer" ||
        echo "ration: $peer failed or took longer than $run_seconds_max s" >&2
done
