#!/usr/bin/env bash
# Shell scripts: every one can be parsed, and shellcheck finds nothing in those of tools/, if it is installed.
#
#     shell.sh SOURCE_FOLDER
#     shell.sh --control SOURCE_FOLDER     a script that cannot be parsed and one with an unquoted path are found
set -euo pipefail

parse() { # parse FILE...: as bash, unless the first line says sh
    local file status=0
    for file in "$@"; do
        if [ "$(head -1 "$file")" = "#!/bin/sh" ]; then
            sh -n "$file" || status=1
        else
            bash -n "$file" || status=1
        fi
    done
    return $status
}

lint() { # lint FILE...
    command -v shellcheck >/dev/null || return 0
    shellcheck -- "$@"
}

if [ "$1" = --control ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    # shellcheck disable=SC2016 # to be written as it is
    printf '#!/bin/sh\nif true; then\n' >"$folder/parse.sh" && printf '#!/bin/sh\nrm $1\n' >"$folder/lint.sh"
    ! parse "$folder/parse.sh" 2>/dev/null || exit 1
    parse "$folder/lint.sh"
    ! command -v shellcheck >/dev/null || ! lint "$folder/lint.sh" >/dev/null
    exit
fi

cd "$1"
mapfile -t all < <(find tools tests .ci -path '*/node_modules' -prune -o -type f \( -name '*.sh' -o -path .ci/run \) -print)
mapfile -t tools < <(find tools -name '*.sh')
[ ${#tools[@]} -gt 5 ] || { echo "found only ${#tools[@]} scripts in tools/" >&2; exit 1; }
parse "${all[@]}"
lint "${tools[@]}" tests/form/shell.sh
echo "${#all[@]} scripts"
