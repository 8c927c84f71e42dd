#!/bin/sh
# Installs the npm packages of package-lock.json beside this file into a folder of the build, and says
# which. What is there already is left.
#
#     install_clients.sh FOLDER
set -eu

here=$(dirname "$0")
folder=$1

mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json" || [ ! -f "$folder/installed" ]; then
    rm -f "$folder/installed"
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    npm ci --prefix "$folder" --prefer-offline --ignore-scripts --no-audit --no-fund --loglevel=error
    touch "$folder/installed"
fi
echo "clients of Redis in $folder:"
sed -n 's/^    "\(.*redis[0-9]*\)": "\(.*[0-9]\)",*$/  \1 \2/p' "$folder/package.json"
