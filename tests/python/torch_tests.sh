#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# usage: torch_tests.sh [--pytorch FOLDER] ENVIRONMENT BUILD [TESTS]
#
# PyTorch's own tests of a backend, which its package contains, over halay and over gloo, with the torch of a Python
# environment and the library of a build. Prints each test that ends otherwise than over gloo, or fails over both, and
# the sums. TESTS: a regular expression that chooses; SIZES: numbers of ranks (2 3); VERBOSE=1: what failed, in full.
# HALAY_REPLAY=0: without replay.
# To make an environment: python3 -m venv ENVIRONMENT && ENVIRONMENT/bin/pip install torch numpy expecttest
#
# --pytorch FOLDER: instead the files of test/distributed, in a checkout of PyTorch (of the environment's version), that
# start their job by the name of a backend; FILES: others of them. Each test has the number of ranks that it asks for.
#
# Exit codes: 0 all that gloo passes passed or stands in `known` below, 1 some did not, 2 wrong usage.
set -eu
checkout=
if [ "${1:-}" = --pytorch ]; then
    if [ ! -d "${2:-}/test/distributed" ]; then
        echo "torch_tests.sh: '${2:-}' has no test/distributed" >&2
        exit 2
    fi
    checkout=$(cd "$2" && pwd)
    shift 2
fi
[ $# -ge 2 ] || {
    echo "usage: torch_tests.sh [--pytorch FOLDER] ENVIRONMENT BUILD [TESTS]" >&2
    exit 2
}
python=$(cd "$1" && pwd)/bin/python build=$(cd "$2" && pwd) tests=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
HALAY_LIBRARY=$build/.libs/libhalay.so.1
PYTHONPATH=$here/../../python:$here${PYTHONPATH:+:$PYTHONPATH}
export HALAY_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 VERBOSE="${VERBOSE:-}"
export DISTRIBUTED_TESTS_DEFAULT_TIMEOUT="${DISTRIBUTED_TESTS_DEFAULT_TIMEOUT:-100}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What a monitored barrier raises names the ranks in other words than gloo's, and says the same to all of them. A
# mismatch is raised by the work's wait, which the tests of gloo's debug mode don't call.
known='(^|[.])test_monitored_barrier|[.]test_collective.*_mismatch_debug_mode'

: "${FILES:=test_c10d_object_collectives.py test_c10d_functional_native.py test_c10d_common.py test_pg_wrapper.py
    test_device_mesh.py _composable/test_replicate.py algorithms/test_join.py optim/test_zero_redundancy_optimizer.py
    checkpoint/test_checkpoint.py checkpoint/test_file_system_checkpoint_cpu.py
    tensor/test_redistribute.py tensor/test_tensor_ops.py tensor/test_math_ops.py tensor/test_dtensor.py
    _tensor/test_redistribute.py _tensor/test_tensor_ops.py _tensor/test_math_ops.py _tensor/test_dtensor.py}"

"$python" -c 'import torch; print("torch", torch.__version__)'
status=0

compare() { # WHAT SCRIPT ARGUMENT...
    what=$1 script=$2
    shift 2
    for backend in halay gloo; do
        BACKEND=$backend timeout "${LIMIT:-3000}" "$python" "$here/$script" "$@" \
            > "$scratch/$backend" 2> "$scratch/said" || status=1
        [ -z "$VERBOSE" ] || [ $backend = gloo ] || cat "$scratch/said" >&2
        grep -q "$(printf '\t')" "$scratch/$backend" || {
            echo "$what: $backend: no test was run: $(tail -n 1 "$scratch/said")"
            return
        }
    done
    awk -F '\t' -v what="$what" -v known="$known" '
        FNR == 1 { file++ }
        NF < 3 { next }
        { sum[file, $2]++ }
        file == 1 { how[$1] = $2; why[$1] = $3; next }
        how[$1] == $2 && $2 != "failed" { next }
        { printf "%s: %s, gloo: %s%s\n", $1, how[$1], $2, why[$1] == "" ? "" : ": " why[$1] }
        $2 == "passed" && $1 !~ known { worse++ }
        END {
            for (file = 1; file <= 2; file++)
                printf "%s: %s: %d passed, %d failed, %d skipped\n", what, file == 1 ? "halay" : "gloo",
                    sum[file, "passed"], sum[file, "failed"], sum[file, "skipped"]
            exit worse > 0
        }' "$scratch/halay" "$scratch/gloo" || status=1
}

if [ -n "$checkout" ]; then
    cd "$checkout/test/distributed"
    for file in $FILES; do
        [ ! -f "$file" ] || compare "$file" torch_checkout.py "$file" "$tests"
    done
    exit $status
fi
for size in ${SIZES:-2 3}; do
    export WORLD_SIZE="$size"
    compare "$size ranks" torch_tests.py "$tests"
done
exit $status
