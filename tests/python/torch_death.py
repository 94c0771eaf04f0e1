# SPDX-License-Identifier: Apache-2.0
"""
A rank that dies in a step of DDP, one that does not come, one that gives up: every other rank gets an exception that
says which rank, within a minute. Forks its own ranks: nothing else looks after them.
"""

import datetime
import os
import re
import signal
import tempfile
import time

import torch
import torch.distributed as dist

import halay.distributed  # noqa: F401 registers the backend

SIZE = 3
VICTIM = 1
LIMIT_S = 60  # from the end of the rank to the exception; 0.1 s on a quiet machine, half an hour by torch's own limit


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()


def say_end():
    """The clock is the host's, the same in all processes."""
    print(f"end: {time.monotonic()}", flush=True)


def wait_for_others():
    """Ends the process when the others have been told: its standard input ends then."""
    os.read(0, 1)
    os._exit(0)


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
        wait_for_others()
    while True:
        dist.all_reduce(torch.ones(3))


def late(rank):
    """The group's time-out: the others are told who was missing."""
    if rank == VICTIM:
        say_end()
        wait_for_others()
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
        wait_for_others()


def fork_rank(case, rank, folder, release):
    """Returns the process and what it prints. Its standard input ends when the parent closes release."""
    reads, writes = os.pipe()
    process = os.fork()
    if process:
        os.close(writes)
        return process, os.fdopen(reads)
    try:
        os.close(release[1])
        os.dup2(release[0], 0)
        os.dup2(writes, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.close(writes)
        run(case, rank, os.path.join(folder, "store"))
    finally:
        os._exit(1)


def read_told(stream):
    """What a rank prints until it has been told; it then waits, so that no other rank misses it instead."""
    lines = []
    for line in stream:
        lines.append(line)
        if line.startswith("told: "):
            break
    return "".join(lines)


def check(case, expected):
    with tempfile.TemporaryDirectory() as folder:
        release = os.pipe()
        ranks = [fork_rank(case, rank, folder, release) for rank in range(SIZE)]
        try:
            said = {rank: read_told(stream) for rank, (_, stream) in enumerate(ranks) if rank != VICTIM}
            os.close(release[1])
            said[VICTIM] = ranks[VICTIM][1].read()
        finally:
            os.close(release[0])
            for process, stream in ranks:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
                stream.close()
    ends = {rank: float(re.search(r"end: (\S+)", text).group(1)) for rank, text in said.items()}
    for rank in set(said) - {VICTIM}:
        assert re.search(f"told: .*{expected}", said[rank]), (case, rank, said[rank])
        assert ends[rank] - ends[VICTIM] < LIMIT_S, (case, rank, ends)
    print(f"{case}: all others are told within {max(ends.values()) - ends[VICTIM]:.1f} s", flush=True)


if __name__ == "__main__":
    check("killed", f"rank {VICTIM} has died")
    check("aborted", f"rank {VICTIM} .*aborted")
    check("late", f"ranks? .*\\b{VICTIM}\\b")
