#!/usr/bin/env bash
# A wrong include does not compile: with the include paths that the build gives a module, a file
# that includes a header of a module below it must fail, and one from above must not.
#
#     layers.sh CC LAYERS_FOLDER INCLUDE_FOLDER SOURCE_FOLDER
set -euo pipefail

cc=$1 layers=$2 include=$3 source=$4
failed=0

compiles() { # compiles MODULES HEADER: with the paths of MODULES only
    local paths=()
    for module in $1; do
        paths+=("-I$layers/$module")
    done
    echo "#include \"$2\"" | "$cc" -std=gnu11 -fsyntax-only -x c "-I$include" "${paths[@]}" - 2>/dev/null
}
must() { compiles "$1" "$2" || { echo "[$1] should see $2"; failed=1; }; }
must_not() { ! compiles "$1" "$2" || { echo "[$1] should not see $2"; failed=1; }; }

must base base/time.h
must "core base" core/algorithm.h
must "policy base core" core/algorithm_words.h
must_not "policy base core" bucket/yield.h
must "policy base core" policy/policy.h
must_not base core/gcra.h
must "proto base" proto/query.h
must_not "proto base" core/gcra.h
must_not "policy base core" proto/query.h
must_not "redis base core stats table limiter" policy/policy.h
must_not "limiter base core stats table" redis/ask.h
must_not base bucket/yield.h
must_not "core base" bucket/yield.h

# Nobody steps around it with a relative path, and the command line sees the public headers only.
if grep -rnE '#include "\.\./' "$source"; then
    failed=1
fi
if grep -rnE '#include "(base|core|bucket|policy|api)/' "$source/cli"; then
    failed=1
fi
exit $failed
