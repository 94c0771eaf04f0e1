#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Run Horovod's own PyTorch tests on halay.torch, through the shim: horovod_tests.sh FOLDER, a checkout of Horovod
# 0.28.1 (https://github.com/horovod/horovod). Prints rank 0's result of each test, where rank 1's differ those, and the
# sum. Then Horovod's examples, on two ranks; torchvision and its data are played by a few made-up tensors. PYTHON is
# the interpreter (default python3), with torch, pytest, numpy, cloudpickle, mock and packaging; STARTERS, which of
# "halayrun mpirun" start the tests (default: both, as some are for one of them only); TESTS, a choice as of pytest -k,
# "none" for the examples alone; VERBOSE=1 prints what failed. Ranks get the environment: HALAY_REPLAY=0 runs all of it
# without replay.
#
# Left out: the four test_horovod_*_duplicate_name_error, which submit a name twice in a row and want the first to be
# still in flight. Under Horovod it is for a cycle of a millisecond. The two _async_fused of a reduction want a poll to
# be too early once, and fail where one rank is always the later one. test_timeline.py reads the file while it is
# written: halay's is there when it is complete. test_process_sets_static.py says TensorFlow, and means any of them.
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

import horovod.torch, horovod.torch.mpi_ops
tensorflow = types.ModuleType("horovod.tensorflow")
tensorflow.__dict__.update(vars(horovod.torch))
def ids_and_ranks():
    from halay.torch import _job
    return {0: list(range(_job.size())), **{i: list(ranks) for i, (ranks, _, _) in _job._state.sets.items()}}
basics = types.SimpleNamespace(_get_process_set_ids_and_ranks=ids_and_ranks)
tensorflow.mpi_ops = types.SimpleNamespace(_basics=basics)
sys.modules["horovod.tensorflow"] = tensorflow
PYTHON

start() { # STARTER RANKS: the beginning of the command line
    case $1 in
    halayrun) echo "halayrun -np $2 --output-filename $scratch/out" ;;
    mpirun) echo "mpirun --allow-run-as-root --oversubscribe -np $2" ;;
    esac
}

status=0
for starter in ${STARTERS:-halayrun mpirun}; do
    for file in parallel/test_torch.py parallel/test_adasum_pytorch.py parallel/test_process_sets_static.py \
        single/test_torch_elastic.py; do
        [ "${TESTS:-}" != none ] || continue
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

# ---- the examples ----------------------------------------------------------------------------------------------------

# What they import that is not here, or takes data that are not.
mkdir -p "$scratch/played/torchvision" "$scratch/run"
cat > "$scratch/played/torchvision/__init__.py" <<'PYTHON'
import types
import torch

class Images(torch.utils.data.Dataset):
    def __init__(self, *args, shape=(3, 224, 224), count=8, **kwargs):
        self.shape, self.count = shape, count
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        return torch.full(self.shape, (i % 10) / 10), i % 10

def mnist(*args, **kwargs):
    return Images(shape=(1, 28, 28), count=640)

class Anything:
    def __init__(self, *args, **kwargs):
        pass
    def __getattr__(self, name):
        return Anything

def resnet50():
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 7, stride=8), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                               torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 1000))

datasets = types.SimpleNamespace(MNIST=mnist, ImageFolder=Images)
transforms = Anything()
models = types.SimpleNamespace(resnet50=resnet50)
PYTHON
cat > "$scratch/played/filelock.py" <<'PYTHON'
import contextlib
FileLock = contextlib.nullcontext
PYTHON
cat > "$scratch/played/tqdm.py" <<'PYTHON'
class tqdm:
    def __init__(self, *args, **kwargs): pass
    def __enter__(self): return self
    def __exit__(self, *args): pass
    def set_postfix(self, values): print(values, flush=True)
    def update(self, count): pass
PYTHON
cat > "$scratch/played/sitecustomize.py" <<'PYTHON'
import sys, types
board = types.ModuleType("torch.utils.tensorboard")
board.SummaryWriter = lambda *args: types.SimpleNamespace(add_scalar=print)
sys.modules["torch.utils.tensorboard"] = board
PYTHON

example() { # FILE ARGUMENT...
    file=$1
    shift
    rm -rf "$scratch/run" && mkdir "$scratch/run" && cd "$scratch/run" || exit 2
    # shellcheck disable=SC2046
    if HOME=$scratch/run PYTHONPATH=$scratch/played${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1 \
        timeout "${LIMIT:-1500}" $(start halayrun 2) "$python" -m halay.horovod "$folder/examples/pytorch/$file" "$@" \
        > "$scratch/log" 2>&1; then
        echo "PASSED $file $*: $(grep -E '[a-z]' "$scratch/log" | tail -n 1)"
    else
        echo "FAILED $file $*"
        tail -n 30 "$scratch/log"
        status=1
    fi
}

echo "== examples/pytorch, 2 ranks, started by halayrun"
for options in "" --fp16-allreduce --use-adasum "--gradient-predivide-factor 2"; do
    # shellcheck disable=SC2086
    example pytorch_mnist.py --epochs 2 $options
done
for options in "" --fp16-allreduce --use-adasum; do
    # shellcheck disable=SC2086
    example pytorch_synthetic_benchmark.py --batch-size 2 --num-warmup-batches 1 --num-iters 2 $options
done
example pytorch_imagenet_resnet50.py --epochs 2 --batch-size 2 --batches-per-allreduce 2
exit $status
