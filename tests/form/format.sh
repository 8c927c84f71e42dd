#!/usr/bin/env bash
# Every C file is as clang-format would write it.   format.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"
git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format --dry-run -Werror
