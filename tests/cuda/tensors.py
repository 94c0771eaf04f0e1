#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/gpu-check: tensors of PyTorch on a GPU are summed in place, by a context and by one that follows it.

With an argument: a rank that leaves while its sum is under way, without halay_fini, ends without an error.
"""
import ctypes
import sys
import time

import halay
import torch

TIMES = 20


def sums(ctx: "halay.Context", count: int) -> float:
    """Microseconds of one, the median."""
    x = torch.full((count,), float(ctx.rank + 1), device="cuda")
    torch.cuda.synchronize()
    ctx.allreduce_async(x, x, on_devices=True, name="x").wait()
    if not x.eq(ctx.size * (ctx.size + 1) / 2).all():
        raise SystemExit(f"a sum of {count} is wrong: {x}")
    times = []
    for _ in range(TIMES):
        torch.cuda.synchronize()
        ctx.barrier()
        start = time.perf_counter()
        ctx.allreduce_async(x, x, on_devices=True, name="x").wait()
        times.append(time.perf_counter() - start)
    return 1e6 * sorted(times)[TIMES // 2]


torch.cuda.set_device(0)
if len(sys.argv) > 1:
    leaving = halay.Context()
    ones = torch.ones(1 << 20, device="cuda")
    leaving.allreduce_async(ones, ones, on_devices=True, name="x")
    ctypes.CDLL(None).exit(0)  # not Python's, which ends contexts
for _ in range(2):
    with halay.Context() as context:
        for n in (1000, 1 << 20, 1 << 24):
            us = sums(context, n)
            if context.rank == 0:
                print(f"a tensor of {n} numbers: {us:.0f} us", flush=True)
