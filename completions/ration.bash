# Completion of ration for bash; installed as share/bash-completion/completions/ration.

# settings begin (written by tools/settings-lists.py)
_ration_serve_options='--http --resp --unix-mode --threads --policy --state --redis --redis-file --redis-prefix --redis-key-secret --redis-key-secret-file --redis-timeout --redis-connect-timeout --redis-retry-min --redis-retry-max --node-count --inline-keys --max-inline-fill --top-keys --prefault --huge-pages --manual-clock --check-secret --check-secret-file --admin-secret --admin-secret-file --insecure --allowed-hosts --trusted-proxies --client-ip-header --deny-status --retry-after-max --retry-after-spread --legacy-headers --max-connections --max-connections-per-peer --max-input --max-output --max-connection-memory --auth-timeout --multi-timeout --header-timeout --body-timeout --resp-idle-timeout --http-idle-timeout --write-timeout --linger-timeout --shutdown-timeout --accept-backlog --max-pipeline --max-arguments --max-argument-size --max-attribute-size --max-header-size --max-body-size --core-dumps --log-format --log-level'
_ration_serve_flags='--prefault --manual-clock --insecure --core-dumps'
_ration_serve_files='--policy --state --redis-file --redis-key-secret-file --check-secret-file --admin-secret-file'
_ration_serve_words() {
    case "$1" in
    --huge-pages) echo 'auto always never' ;;
    --client-ip-header) echo 'none x-forwarded-for forwarded x-real-ip' ;;
    --legacy-headers) echo 'off seconds unix' ;;
    --log-format) echo 'text json' ;;
    --log-level) echo 'info warning error' ;;
    esac
}
# settings end

_ration_commands='serve check limit clock policy bench --help --version'
_ration_check_options='--connect --check-secret-file --cost --wait --timeout --max-wait --quiet --help'
_ration_bench_options='--connect --allow-remote --command --ping --incr --script --evalsha --path --body --header
    --keys --seed --connections --pipeline --threads --duration --requests --warmup --rate --idle --server-pid --json
    --quiet --help'

_ration_complete() { # _ration_complete WORDS: those that begin with the current word
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "${COMP_WORDS[COMP_CWORD]}")
}

_ration_is_in() { # _ration_is_in WORD LIST
    [[ " $2 " == *" $1 "* ]]
}

_ration_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
}

_ration_serve() {
    local before=${COMP_WORDS[COMP_CWORD - 1]} words

    words=$(_ration_serve_words "$before")
    if [ -n "$words" ]; then
        _ration_complete "$words"
    elif _ration_is_in "$before" "$_ration_serve_files"; then
        _ration_files
    elif _ration_is_in "$before" "$_ration_serve_options" && ! _ration_is_in "$before" "$_ration_serve_flags"; then
        COMPREPLY=()
    else
        _ration_complete "$_ration_serve_options --print-settings --access --help"
    fi
}

_ration_policy() {
    case $COMP_CWORD in
    2) _ration_complete 'check explain' ;;
    3) _ration_files ;;
    esac
}

_ration() {
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        _ration_complete "$_ration_commands"
        return
    fi
    case ${COMP_WORDS[1]} in
    serve) _ration_serve ;;
    check)
        case ${COMP_WORDS[COMP_CWORD - 1]} in
        --check-secret-file) _ration_files ;;
        --connect | --cost | --timeout | --max-wait) ;;
        *) _ration_complete "$_ration_check_options" ;;
        esac
        ;;
    policy) _ration_policy ;;
    bench)
        case ${COMP_WORDS[COMP_CWORD - 1]} in
        --script | --json) _ration_files ;;
        *) _ration_complete "resp http $_ration_bench_options" ;;
        esac
        ;;
    esac
}

complete -F _ration ration
