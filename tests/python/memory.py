# SPDX-License-Identifier: Apache-2.0
"""Many steps in flat memory. memory.py STEPS"""

import gc
import itertools
import sys

import numpy

import halay

# Names that never come again are forgotten, but not before the ranks know half as many; on a busy machine some stay.
NAMES = 34000
PASSES = 3
STEP_ROOM = 52  # bytes that a step may leave; kinds of fewer steps have the room of all


def resident():
    """The bytes in memory, counted now: the kernel's running counts lag by many pages."""
    gc.collect()
    with open("/proc/self/smaps_rollup") as rollup:
        return next(int(line.split()[1]) * 1024 for line in rollup if line.startswith("Rss:"))


def by_handle(ctx, tensor, ones):
    tensor.submit().wait()


def by_name(ctx, tensor, ones):
    ctx.allreduce(ones, name="by name")
    ctx.allgather(ones[: ctx.rank + 1], name="gathered")


def without_name(ctx, tensor, ones):
    ctx.allreduce(ones)


def forgotten(ctx, tensor, ones, turns=itertools.count()):
    # A barrier may end before what was submitted before it: names come again after many.
    ctx.allreduce_async(ones, name=f"forgotten {next(turns) % 256}")
    ctx.barrier()


def called_back(ctx, tensor, ones):
    request = ctx.allreduce_async(ones, name="called back")
    request.add_done_callback(lambda one: None)
    request.wait()


def in_vain(ctx, tensor, ones):
    try:
        ctx.allreduce(ones[: ctx.rank + 1], name="in vain")
    except halay.MismatchError:
        pass


def allocated(ctx, tensor, ones):
    shared = ctx.alloc(1000)
    shared[:] = 1
    ctx.allreduce(shared, shared, name="allocated")


with halay.Context(log=lambda level, line: None) as ctx:
    ones = numpy.ones(1024, "float32")
    data = numpy.zeros(1024, "float32")
    tensor = ctx.register(halay.Collective.ALLREDUCE, data, data, name="handle")
    steps = int(sys.argv[1])
    # Some names stay at any time: only many steps show that others do, too.
    for kind, share, warm in ((by_handle, 1, 4000), (by_name, 1, 4000), (without_name, 0.25, NAMES),
                              (forgotten, 1, 4000), (called_back, 4, 1000), (in_vain, 8, 500),
                              (allocated, 4, 1000)):  # fmt: skip
        count, room = int(steps / share), STEP_ROOM * max(steps, int(steps / share))
        for _ in range(warm):
            kind(ctx, tensor, ones)
        # A leak grows in each pass; a heap of another thread, or a page that is mapped late, grows once.
        for _ in range(PASSES):
            before = resident()
            for _ in range(count):
                kind(ctx, tensor, ones)
            after = resident()
            has_grown = after - before >= room
            if not ctx.allreduce(numpy.float32([has_grown]))[0]:  # the same passes on all ranks
                break
        else:
            assert not has_grown, f"{kind.__name__}: {count} steps, {before} bytes before, {after} after"
