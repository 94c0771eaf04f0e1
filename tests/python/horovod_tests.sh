#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run Horovod's own PyTorch tests on halay.torch, through the shim: horovod_tests.sh FOLDER, a checkout of Horovod
# 0.28.1 (https://github.com/horovod/horovod). Prints rank 0's result of each test, where rank 1's differ those, and the
# sum. PYTHON is the interpreter (default python3), with torch, pytest, numpy, cloudpickle, mock and packaging;
# STARTERS, which of "halayrun mpirun" start them (default: both, as some tests are for one of them only); TESTS, a
# choice as of pytest -k; VERBOSE=1 prints what failed.
#
# Left out: the four test_horovod_*_duplicate_name_error, which submit a name twice in a row and want the first to be
# still in flight. Under Horovod it is for a cycle of a millisecond. The two _async_fused of a reduction want a poll to
# be too early once, and fail where one rank is always the later one.
#
# Exit codes: 0 all passed or were skipped, 1 some failed, 2 no Horovod there.
set -u
folder=${1:?"usage: $0 FOLDER (a checkout of Horovod 0.28.1)"}
python=${PYTHON:-python3}
[ -f "$folder/test/parallel/test_torch.py" ] || { echo "$folder has no test/parallel/test_torch.py" >&2; exit 2; }
folder=$(cd "$folder" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# What the tests import of Horovod's own helpers and need in a test that is not run here.
cat > "$scratch/horovod_helpers.py" <<'PYTHON'
import sys, threading, types
module = types.ModuleType("horovod.runner.util.threads")
module.in_thread = lambda target: threading.Thread(target=target, daemon=True).start()
sys.modules["horovod.runner.util"] = types.ModuleType("horovod.runner.util")
sys.modules[module.__name__] = module
PYTHON

start() { # STARTER RANKS: the beginning of the command line
    case $1 in
    halayrun) echo "halayrun -np $2 --output-filename $scratch/out" ;;
    mpirun) echo "mpirun --allow-run-as-root --oversubscribe -np $2" ;;
    esac
}

status=0
for starter in ${STARTERS:-halayrun mpirun}; do
    for file in parallel/test_torch.py parallel/test_adasum_pytorch.py single/test_torch_elastic.py; do
        ranks=2
        [ "${file%/*}" = parallel ] || ranks=1
        echo "== $file, $ranks ranks, started by $starter"
        rm -rf "$scratch/out" "$scratch/log"
        cd "$folder/test/${file%/*}" || exit 2
        # shellcheck disable=SC2046,SC2016
        PYTHONPATH=$scratch${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1 \
            timeout "${LIMIT:-1500}" $(start "$starter" $ranks) sh -c 'r=${HALAY_RANK:-${OMPI_COMM_WORLD_RANK:-0}}
                "$0" -m halay.horovod -m pytest -p horovod_helpers -p no:cacheprovider -q -rA --no-header --tb=short \
                    --disable-warnings -k "not duplicate_name_error${3:+ and ($3)}" "$2" > "$1.$r" 2>&1; exit 0' \
            "$python" "$scratch/log" "${file#*/}" "${TESTS:-}" > "$scratch/started" 2>&1 || cat "$scratch/started"
        for rank in 0 $((ranks - 1)); do
            grep -E '^(PASSED|FAILED|ERROR|SKIPPED|XFAIL)' "$scratch/log.$rank" | sed 's/ - .*//' |
                sort > "$scratch/r.$rank"
            [ -s "$scratch/r.$rank" ] || { tail -n 30 "$scratch/log.$rank"; status=1; }
        done
        cat "$scratch/r.0"
        diff "$scratch/r.0" "$scratch/r.$((ranks - 1))" | sed -n 's/^>/rank 1:/p'
        tail -n 1 "$scratch/log.0"
        if grep -qE '^(FAILED|ERROR)' "$scratch/r.0" "$scratch/r.$((ranks - 1))"; then
            status=1
            [ -z "${VERBOSE:-}" ] || cat "$scratch/log.0"
        fi
    done
done
exit $status
