#!/usr/bin/env bash
# An example prints exactly what is expected, and exits with 0.   output.sh PROGRAM EXPECTED_FILE
set -euo pipefail

"$1" | diff -u "$2" -
