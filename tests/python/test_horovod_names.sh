#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Scripts that say `import horovod.torch`, also in processes that they start; horovod.run.
. "$top_srcdir/tests/python/lib.sh"
need torch cloudpickle
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PATH=$top_builddir/launcher:$PATH
export PATH

cat > "$scratch/script.py" <<'END'
import os
import subprocess
import sys

import horovod
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from horovod.torch.elastic import run  # noqa: F401
from horovod.torch.mpi_ops import Average, allreduce, rank
import halay.torch
import torch

assert hvd is halay.torch and HorovodInternalError is hvd.HorovodInternalError
assert horovod.__version__ == "0.28.1" and callable(horovod.run) and sys.argv[1:] == ["--lr", "1"]
hvd.init()
assert int(os.environ["HOROVOD_RANK"]) == rank() and __name__ == "__main__"
assert float(allreduce(torch.tensor(float(rank())), op=Average)) == 0.5
hvd.shutdown()
child = "import halay.torch, horovod.torch; assert horovod.torch is halay.torch"
assert subprocess.call([sys.executable, "-c", child]) == 0
try:
    import horovod.tensorflow  # noqa: F401
except ModuleNotFoundError as e:
    assert "it offers horovod.torch" in str(e), e
else:
    sys.exit("there is no horovod.tensorflow")
END
"$top_builddir/launcher/halayrun" -np 2 "$python" -m halay.horovod "$scratch/script.py" --lr 1
echo "a script finds Horovod's names"

"$python" - <<'END'
import halay


def work(x, add=0):
    import halay.torch as hvd
    import torch

    hvd.init()
    return x + add + float(hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum)), hvd.rank()


assert halay.run(work, (10,), {"add": 5}, num_proc=2) == [(16.0, 0), (16.0, 1)]
try:
    halay.run(lambda: 1 / 0, np=1)
except RuntimeError as e:
    assert "exit code 1" in str(e), e
else:
    raise AssertionError("no error")
END
"$python" - <<'END'
import functools
import pickle
import sys
import time

sys.modules["cloudpickle"] = None  # as where it is not installed
import halay
from halay import _run


class Own:
    def method(self):
        pass


def work():
    pass


_run._launch = lambda *_: sys.exit("ranks were started")
for call, args in ((work, ()), (lambda: 1, ()), (functools.partial(work), ()), (Own().method, ()), (print, (Own(),)),
                   (print, ([work],)), (print, (Own,))):
    try:
        halay.run(call, args, num_proc=2)
    except pickle.PicklingError as failure:
        assert "install cloudpickle" in str(failure), failure
    else:
        raise AssertionError("no error")
assert pickle.loads(_run._dumps((time.sleep, (1,), {"by": functools.partial(max, 2)})))[1] == (1,)
END
echo "a function runs on two ranks"
