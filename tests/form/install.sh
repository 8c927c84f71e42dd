#!/usr/bin/env bash
# Installs into a scratch folder, moves it, and builds a program against it in every way that the
# README names: pkg-config (shared and static), CMake's find_package, C++, and the command.
#
#     install.sh BUILD_FOLDER
set -euo pipefail

harden=$(dirname "$(realpath "$0")")/harden.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$1" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/root"
cd "$scratch"

cat >app.c <<'C'
#include <ration/ration.h>
#include <stdio.h>

int main(void)
{
    static struct ration_bucket bucket;
    struct ration_limit limit;
    static const char text[] = "limits: [{name: a, rate: 1/s}]";
    ration_policy *policy = NULL;
    int admitted = 0;

    if (ration_limit_parse("1/h burst 3", &limit, NULL) != RATION_OK ||
        ration_policy_parse(text, sizeof(text) - 1, NULL, NULL, &policy) != RATION_OK)
        return 1;
    ration_policy_free(policy);
    for (int i = 0; i < 10; i++)
        admitted += ration_bucket_allow(&bucket, &limit);
    printf("%s %d\n", ration_version(), admitted);
    return admitted == 3 ? 0 : 1;
}
C
cp app.c app.cc

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find root -name ration.pc)")
libdir=$(pkg-config --variable=libdir ration)
version=$(pkg-config --modversion ration)

gcc app.c -o shared $(pkg-config --cflags --libs ration)
LD_LIBRARY_PATH=$libdir ./shared | grep -x "$version 3"
pkg-config --print-requires-private ration | sort | tr "\n" " " | grep -x "hiredis yaml-0.1 "
gcc app.c -o static $(pkg-config --cflags ration) "$libdir/libration.a" -pthread \
    $(pkg-config --libs yaml-0.1 hiredis)
./static | grep -x "$version 3"
g++ -Wall -Wextra -Werror app.cc -o cxx $(pkg-config --cflags --libs ration)
LD_LIBRARY_PATH=$libdir ./cxx | grep -x "$version 3"

mkdir project
cat >project/CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.25)
project(app C)
find_package(ration 0.1 REQUIRED)
add_executable(app_shared ../app.c)
target_link_libraries(app_shared ration::shared)
add_executable(app_static ../app.c)
target_link_libraries(app_static ration::static)
C
cmake -S project -B out -G Ninja -DCMAKE_PREFIX_PATH="$scratch/root" >/dev/null
cmake --build out >/dev/null
out/app_shared | grep -x "$version 3"
out/app_static | grep -x "$version 3"

root/bin/ration --version | grep -x "ration $version"
for page in man1/ration.1 man1/ration-serve.1 man1/ration-check.1 man1/ration-bench.1 man5/ration-policy.5; do
    [ -s "root/share/man/$page" ]
done
[ -s root/share/bash-completion/completions/ration ]
grep -q "^ExecStart=$scratch/first/bin/ration serve " root/lib/systemd/system/ration.service
"$harden" readelf root/bin/ration "$(realpath "$libdir/libration.so")" "$libdir/libration.a"
