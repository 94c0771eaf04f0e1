# SPDX-License-Identifier: Apache-2.0
"""
A rank that dies in a step of DDP, one that does not come, one that gives up: every other rank gets an exception that
says which rank, in bounded time. Starts its own ranks, as mp.spawn would: nothing else looks after them.
"""

import datetime
import os
import signal
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist

import halay.distributed  # noqa: F401 registers the backend

SIZE = 3
VICTIM = 1
LIMIT_S = 30  # what a loaded machine may take for what halay does in 5


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()


def killed(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(1000):
        if rank == VICTIM and number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        step(model, optimizer)


def aborted(rank):
    if rank == VICTIM:
        dist.group.WORLD.abort()
        sys.exit(0)
    while True:
        dist.all_reduce(torch.ones(3))


def late(rank):
    """The group's time-out: the others are told who was missing."""
    if rank == VICTIM:
        sys.stdin.read()  # until the others have been told
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
    dist.all_reduce(torch.ones(3))


def run(case, rank, store):
    dist.init_process_group("halay", store=dist.FileStore(store, SIZE), rank=rank, world_size=SIZE)
    try:
        dist.barrier()
        globals()[case](rank)
    except RuntimeError as failure:
        print(f"told: {failure}", flush=True)
    os._exit(0)


def check(case, expected):
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            subprocess.Popen(
                [sys.executable, __file__, case, str(rank), os.path.join(folder, "store")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for rank in range(SIZE)
        ]
        try:
            for rank, process in enumerate(ranks):
                if rank == VICTIM:
                    continue
                begin = time.monotonic()
                said = process.stdout.read()
                assert expected in said, (case, rank, said)
                assert time.monotonic() - begin < LIMIT_S, (case, rank)
        finally:
            for process in ranks:
                process.kill()
                process.communicate()
    print(f"{case}: all others are told")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        check("killed", f"rank {VICTIM}")
        check("aborted", f"rank {VICTIM}")
        check("late", f"rank {VICTIM}")
