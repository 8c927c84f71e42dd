#!/usr/bin/env bash
# Every C file is formatted by clang-format.   format.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"
find include src tests examples tools -name '*.[ch]' -print0 |
    xargs -0 clang-format --dry-run -Werror
