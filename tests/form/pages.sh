#!/usr/bin/env bash
# The manual and the completions know every command; bash completes every option that --help knows, and no other.
# options.py compares the options of the other files.   pages.sh RATION SOURCE
set -euo pipefail

ration=$(realpath "$1")
cd "$2"
failed=0

fail() {
    echo "$*"
    failed=1
}

options_of_help() { # options_of_help COMMAND
    # the options that begin a line of the list; "--ping, --incr" are two
    "$ration" "$1" --help | grep -E '^  --' | sed -E 's/^  ((--[a-z-]+)(, (--[a-z-]+))?).*/\2 \4/' | tr ' ' '\n' |
        grep . | sort
}

options_of_bash() { # options_of_bash COMMAND
    # shellcheck disable=SC2034
    bash -c '. completions/ration.bash
        COMP_WORDS=(ration '"$1"' --) COMP_CWORD=2
        _ration && printf "%s\n" "${COMPREPLY[@]}"' | sort
}

for command in serve check bench; do
    wanted=$(options_of_help "$command")
    [ "$(wc -l <<<"$wanted")" -gt 7 ] || fail "ration $command --help lists too little: $wanted"
    [[ $wanted == *--help* ]] || wanted=$(sort <<<"$wanted"$'\n--help') # bench does not list it
    diff <(echo "$wanted") <(options_of_bash "$command") || fail "the completion of $command is not as --help (<)"
done

# Every command is in the manual, and is completed.
commands=$("$ration" --help | sed -nE 's/^  ([a-z]+) .*/\1/p' | sort -u)
for command in $commands; do
    grep -q "^\.It Cm $command" man/ration.1 || fail "man/ration.1 does not know $command"
    grep -qE "_ration_commands=.*\b$command\b" completions/ration.bash || fail "bash does not know $command"
    for file in completions/_ration completions/ration.fish; do
        grep -q "\b$command\b" <(grep "serve check" "$file") || fail "$file does not know $command"
    done
done

completes() { # completes EXPECTED WORD...: the last word continues so
    local expected=$1 got
    shift
    got=$(bash -c '. completions/ration.bash
        COMP_WORDS=(ration "$@") COMP_CWORD=$#
        _ration && echo "${COMPREPLY[*]}"' bash "$@")
    [ "$got" = "$expected" ] || fail "'ration $*' continues with '$got' instead of '$expected'"
}
completes 'serve' se
completes '--retry-after-max --retry-after-spread' serve --retry
completes 'seconds' serve --legacy-headers s
completes 'completions/ration.bash' serve --policy completions/ration.b
completes '--threads' serve --prefault --thre
completes '' serve --threads ''
completes 'explain' policy ex

tools/settings-lists.py "$ration" || failed=1

if command -v mandoc >/dev/null; then
    for page in man/*; do
        mandoc -T lint -W warning "$page" || failed=1
    done
elif command -v man >/dev/null; then
    for page in man/*; do
        [ -z "$(man --warnings -l "$page" 2>&1 >/dev/null)" ] || fail "$page has errors"
    done
fi
exit $failed
