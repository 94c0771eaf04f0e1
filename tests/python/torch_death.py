# SPDX-License-Identifier: Apache-2.0
"""
A rank that dies in a step of DDP, one that does not come, one that gives up: every other rank gets an exception that
says which rank, within 5 s. Starts its own ranks, as mp.spawn would: nothing else looks after them.
"""

import datetime
import os
import re
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
LIMIT_S = 5  # the promise, from the end of the rank to the exception; 0.1 s on a quiet machine


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()


def say_end():
    """The clock is the host's, the same in all processes."""
    print(f"end: {time.monotonic()}", flush=True)


def killed(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number in range(1000):
        if rank == VICTIM and number == 5:
            say_end()
            os.kill(os.getpid(), signal.SIGKILL)
        step(model, optimizer)


def aborted(rank):
    if rank == VICTIM:
        say_end()
        dist.group.WORLD.abort()
        sys.exit(0)
    while True:
        dist.all_reduce(torch.ones(3))


def late(rank):
    """The group's time-out: the others are told who was missing."""
    if rank == VICTIM:
        say_end()
        sys.stdin.read()  # until the others have been told
        os._exit(0)
    dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
    dist.all_reduce(torch.ones(3))


def run(case, rank, store):
    dist.init_process_group("halay", store=dist.FileStore(store, SIZE), rank=rank, world_size=SIZE)
    try:
        dist.barrier()
        globals()[case](rank)
    except RuntimeError as failure:
        say_end()
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
            said = {rank: process.stdout.read() for rank, process in enumerate(ranks) if rank != VICTIM}
            said[VICTIM] = ranks[VICTIM].communicate()[0]
        finally:
            for process in ranks:
                process.kill()
                process.communicate()
    ends = {rank: float(re.search(r"end: (\S+)", text).group(1)) for rank, text in said.items()}
    for rank in set(said) - {VICTIM}:
        assert re.search(f"told: .*{expected}", said[rank]), (case, rank, said[rank])
        assert ends[rank] - ends[VICTIM] < LIMIT_S, (case, rank, ends)
    print(f"{case}: all others are told within {max(ends.values()) - ends[VICTIM]:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        check("killed", f"rank {VICTIM} has died")
        check("aborted", f"rank {VICTIM} .*aborted")
        check("late", f"rank {VICTIM}\\b")
