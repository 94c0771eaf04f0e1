# SPDX-License-Identifier: Apache-2.0
"""Many steps in flat memory. memory.py STEPS"""

import gc
import itertools
import sys

import numpy

import halay

# Names that never come again are forgotten, but not before the ranks know half as many; on a busy machine some stay.
NAMES = 34000
ROOM = 1 << 20


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


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
    for kind, share in ((by_handle, 1), (by_name, 1), (without_name, 1), (forgotten, 1), (called_back, 4), (in_vain, 8),
                        (allocated, 4)):  # fmt: skip
        for _ in range(NAMES if kind is without_name else max(100, steps // share // 5)):
            kind(ctx, tensor, ones)
        before = resident()
        for _ in range(steps // share):
            kind(ctx, tensor, ones)
        after = resident()
        assert after - before < ROOM, f"{kind.__name__}: {steps // share} steps, {before} bytes before, {after} after"
