#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: torch_tests.sh ENVIRONMENT BUILD [TESTS]
#
# PyTorch's own tests of a backend, which its package contains, over halay and over gloo, with the torch of a Python
# environment and the library of a build. Prints each test that ends otherwise than over gloo, or fails over both, and
# the sums. TESTS: a regular expression that chooses; SIZES: numbers of ranks (2 3); VERBOSE=1: what failed, in full.
# To make an environment: python3 -m venv ENVIRONMENT && ENVIRONMENT/bin/pip install torch numpy expecttest
#
# Exit codes: 0 all that gloo passes passed or stands in `known` below, 1 some did not, 2 wrong usage.
set -eu
[ $# -ge 2 ] || {
    echo "usage: torch_tests.sh ENVIRONMENT BUILD [TESTS]" >&2
    exit 2
}
python=$1/bin/python build=$2 tests=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
HALAY_LIBRARY=$build/.libs/libhalay.so.1
PYTHONPATH=$here/../../python:$here
export HALAY_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 VERBOSE="${VERBOSE:-}"
export DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="${DISTRIBUTED_TESTS_DEFAULT_TIMEOUT:-100}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What a monitored barrier raises names the ranks in other words than gloo's, and says the same to all of them.
known='^test_monitored_barrier'

"$python" -c 'import torch; print("torch", torch.__version__)'
status=0
for size in ${SIZES:-2 3}; do
    for backend in halay gloo; do
        BACKEND=$backend WORLD_SIZE=$size timeout "${LIMIT:-3000}" "$python" "$here/torch_tests.py" "$tests" \
            > "$scratch/$backend" 2> "$scratch/said" || status=1
        [ -z "$VERBOSE" ] || [ $backend = gloo ] || cat "$scratch/said" >&2
        [ -s "$scratch/$backend" ] || { cat "$scratch/said" >&2; exit 1; }
    done
    awk -F '\t' -v size="$size" -v known="$known" '
        FNR == 1 { file++ }
        NF < 3 { next }
        { sum[file, $2]++ }
        file == 1 { how[$1] = $2; why[$1] = $3; next }
        how[$1] == $2 && $2 != "failed" { next }
        { printf "%s: %s, gloo: %s%s\n", $1, how[$1], $2, why[$1] == "" ? "" : ": " why[$1] }
        $2 == "passed" && $1 !~ known { worse++ }
        END {
            for (file = 1; file <= 2; file++)
                printf "%s ranks: %s: %d passed, %d failed, %d skipped\n", size, file == 1 ? "halay" : "gloo",
                    sum[file, "passed"], sum[file, "failed"], sum[file, "skipped"]
            exit worse > 0
        }' "$scratch/halay" "$scratch/gloo" || status=1
done
exit $status
