#!/usr/bin/env bash
# Runs a command with a redis-server of its own, which listens on a socket only and ends with it.
#
#     with_redis.sh COMMAND ARGUMENT...        {socket} in an argument becomes the socket's path,
#                                              {server} the server's process
set -euo pipefail
command -v redis-server >/dev/null || { echo "redis-server is not installed" >&2; exit 2; }
folder=$(mktemp -d)
redis-server --port 0 --unixsocket "$folder/redis" --save '' --appendonly no --dir "$folder" \
    --logfile "$folder/log" </dev/null >/dev/null 2>&1 &
server=$!
end() {
    kill -9 "$server" 2>/dev/null || true # one that runs a script without end does not hear less
    wait "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' TERM INT
until [ -S "$folder/redis" ] && [ "$(redis-cli -s "$folder/redis" ping 2>/dev/null)" = PONG ]; do
    kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 2; }
done
set -- "${@//\{socket\}/$folder/redis}"
"${@//\{server\}/$server}"
