# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over halay with tensors on a GPU, which the emulation is: cuda_distributed.py STORE"""

import contextlib
import os
import sys
import time
import types

import cuda_torch
import torch
import torch.distributed as dist
from checks import raises

import halay.distributed
from halay import HalayError
from halay.distributed import _work
from halay.distributed._group import Group
from halay.request import Request

DEVICE = torch.device("cuda", 0)
RANK, SIZE = int(os.environ["HALAY_RANK"]), int(os.environ["HALAY_SIZE"])
waits = []  # names of requests for which the host has waited


def watch(request, timeout=None, wait=Request.wait):
    waits.append(request.name)
    return wait(request, timeout)


def given(rank, rows=3):
    return torch.arange(2.0 * rows).reshape(rows, 2) + 10 * rank


def mine(rows=3):
    return given(RANK, rows).to(DEVICE)


def same(got, wanted):
    assert got.device == DEVICE, got.device
    assert torch.equal(got.cpu(), wanted), (got.cpu(), wanted)


def until(is_so):
    """Wait for it, 20 s at most."""
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end, is_so


EVERYONE = torch.stack([given(rank) for rank in range(SIZE)])


def reductions():
    """Sums of floats go nowhere near the host, and the host waits for none."""
    dist.all_reduce(mine())  # opens the way
    since = cuda_torch.counts()
    waits.clear()
    sums = [mine().to(dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16)]
    for work in [dist.all_reduce(x, async_op=True) for x in sums]:
        work.wait()
    strided = mine(4).t()
    dist.all_reduce(strided)
    average = mine()
    dist.all_reduce(average, op=getattr(dist.ReduceOp, "AVG", dist.ReduceOp.SUM))
    assert cuda_torch.counts() == since, (cuda_torch.counts(), since)
    assert waits == [], waits
    for x in sums:
        same(x, EVERYONE.sum(0).to(x.dtype))
    same(strided.contiguous(), sum(given(rank, 4) for rank in range(SIZE)).t().contiguous())
    same(average, EVERYONE.sum(0) / SIZE)
    for op, wanted in ((dist.ReduceOp.MIN, EVERYONE.amin(0)), (dist.ReduceOp.MAX, EVERYONE.amax(0))):
        x = mine()
        dist.all_reduce(x, op=op)
        same(x, wanted)
    whole = mine().to(torch.int64)
    dist.all_reduce(whole, op=dist.ReduceOp.BXOR)
    bits = torch.zeros(3, 2, dtype=torch.int64)
    for rank in range(SIZE):
        bits ^= given(rank).to(torch.int64)
    same(whole, bits)
    x = mine()
    dist.reduce(x, 0)
    if RANK == 0:
        same(x, EVERYONE.sum(0))


def streams():
    """Another stream waits for the same work, which was waited for already."""
    x = mine()
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    with torch.cuda.stream(torch.cuda.Stream()):
        work.wait()
        same(x, EVERYONE.sum(0))
        x.record_stream(torch.cuda.current_stream())
    strided = mine().t()
    works = [dist.all_reduce(strided, async_op=True)]
    with torch.cuda.stream(torch.cuda.Stream()):  # what is left to do is done in this one
        works[0].wait()
        same(strided.contiguous(), EVERYONE.sum(0).t().contiguous())
        strided.record_stream(torch.cuda.current_stream())
    works[0].wait()
    until(works[0].is_completed)  # by the GPU, too
    assert works[0].is_success()
    same(strided.contiguous(), EVERYONE.sum(0).t().contiguous())


def moves():
    dist.all_reduce(mine())  # opens the way
    since = cuda_torch.counts()["bytes"]
    x = mine()
    dist.broadcast(x, SIZE - 1)
    same(x, given(SIZE - 1))
    parts = [mine() for _ in range(SIZE)]
    dist.all_gather(parts, mine())
    for rank, part in enumerate(parts):
        same(part, given(rank))
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    whole = torch.empty(3 * SIZE, 2, device=DEVICE)
    gather(whole, mine())
    same(whole, EVERYONE.reshape(-1, 2))
    part = torch.empty(3, 2, device=DEVICE)
    scatter(part, torch.cat([mine()] * SIZE))
    same(part, EVERYONE.sum(0))
    assert cuda_torch.counts()["bytes"] == since
    out = torch.empty(3 * SIZE, 2, device=DEVICE)
    dist.all_to_all_single(out, torch.cat([mine()] * SIZE))
    same(out, EVERYONE.reshape(-1, 2))
    received = [torch.empty(3, 2, device=DEVICE) for _ in range(SIZE)]
    dist.all_to_all(received, [mine() for _ in range(SIZE)])
    same(received[-1], given(SIZE - 1))
    parts = [torch.empty(3, 2, device=DEVICE) for _ in range(SIZE)]
    dist.gather(mine(), parts if RANK == 0 else None, 0)
    if RANK == 0:
        same(parts[-1], given(SIZE - 1))
    part = torch.empty(3, 2, device=DEVICE)
    dist.scatter(part, [mine() + rank for rank in range(SIZE)] if RANK == 0 else None, 0)
    same(part, given(0) + RANK)
    if SIZE > 1:
        got = torch.empty(3, 2, device=DEVICE)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine(), (RANK + 1) % SIZE),
                                        dist.P2POp(dist.irecv, got, (RANK - 1) % SIZE)])
        for work in works:
            work.wait()
        same(got, given((RANK - 1) % SIZE))
    everyone = [None] * SIZE
    dist.all_gather_object(everyone, RANK)  # beside them, in main memory
    assert everyone == list(range(SIZE))


def futures():
    x = mine()
    work = dist.all_reduce(x, async_op=True)
    assert work.get_future().then(lambda future: future.value()[0]).wait() is x
    # On a GPU torch looks into the value of each future.
    assert torch._jit_internal._extract_tensors(work._ended().wait())[0] is x
    same(x, EVERYONE.sum(0))


def seen_elsewhere():
    """Once waited for in one stream, a result is read in another: its future is there, or is_completed() says so."""
    other, now = torch.cuda.Stream(), torch.cuda.current_stream()
    for is_future in (True, False):
        strided = mine().t()
        works = [dist.all_reduce(strided, async_op=True)]
        works[0].wait()  # which leaves a copy to the current stream
        with torch.cuda.stream(other):
            if is_future:
                works[0].get_future().wait()
            else:
                until(works[0].is_completed)
            same(strided.contiguous(), EVERYONE.sum(0).t().contiguous())
        strided.record_stream(other)
        now.wait_stream(other)


def together():
    """Several works as one, of tensors in main memory, too: its future is told of the GPU, wherever that comes."""
    parts = [given(RANK), mine()]
    works = [dist.all_reduce(part, async_op=True) for part in parts]
    devices = []
    _work.future_devices, before = lambda *streams: devices.append(future_devices(*streams)), _work.future_devices
    _work.Together(works, parts).get_future().wait()
    _work.future_devices = before
    assert devices[0] == [DEVICE] and None in devices, devices
    assert torch.equal(parts[0], EVERYONE.sum(0))
    same(parts[1], EVERYONE.sum(0))


def futures_in_flight():
    """Several futures of one work, made before it ends: each is completed."""
    if SIZE == 1:
        return
    got = torch.empty(3, 2)
    work = dist.irecv(got, (RANK - 1) % SIZE)
    both = _work.Together([work], [got])
    futures = [work.get_future(), work.get_future(), both.get_future(), both.get_future()]
    if RANK == 0:
        dist.send(given(0), 1)
    until(lambda: all(future.done() for future in futures))
    if RANK > 0:
        dist.send(given(RANK), (RANK + 1) % SIZE)
    assert torch.equal(got, given((RANK - 1) % SIZE))


def finished_together(finish):
    """An all-reduce whose memory only this knows, and what finish(sum, result) makes of it."""
    whole, result = mine(), torch.zeros(3, 2, device=DEVICE)
    work = dist.all_reduce(whole, async_op=True)
    work._outputs = []
    return _work.Together([work], [result], lambda: finish(whole, result)), result


def finishes():
    """What is left to do when all have ended: memory is free, and other streams read the result, only after it. A
    failure is one at each wait."""
    side, other, now = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()
    work, result = finished_together(lambda whole, result: cuda_torch.copy_late(result, whole))
    with torch.cuda.stream(side):
        work.wait()
    with torch.cuda.stream(other):
        work.wait()
        same(result, EVERYONE.sum(0))
    until(work.is_completed)
    assert work.is_success()
    for stream in (side, other, now):
        result.record_stream(stream)

    def fail(whole, result):
        raise KeyError("no room")
    work, _ = finished_together(fail)
    for _ in range(2):
        raises(KeyError, work.wait, "no room")
    until(work.is_completed)
    assert isinstance(work.exception(), KeyError) and not work.is_success()


def failures():
    """The exception itself, also of a future of tensors on a GPU; an error of halay's with the collective's name."""
    if torch.version.cuda:
        failed = _work.Outcome(None, [DEVICE])
        failed.set_exception(KeyError("no room"))
        raises(KeyError, failed.wait, "no room")
    failure = _work._Failure(KeyError("no room"), True)
    assert torch._jit_internal._extract_tensors(failure) == []
    raises(KeyError, lambda: isinstance(failure, int), "no room")

    def finish():
        raise HalayError("gone", -1)
    work = dist.all_reduce(mine(), async_op=True)
    work._finish = finish
    raises(_work.DistBackendError, work.wait, "halay: all_reduce: gone")


@contextlib.contextmanager
def batch(group):
    """As torch has it since 2.1."""
    group._start_coalescing(DEVICE)
    yield
    group._end_coalescing(DEVICE).wait()


def batches():
    """A batch that ends with an exception ends: it keeps no work of later."""
    group, x = dist.distributed_c10d._get_default_group(), mine()
    if not isinstance(group, Group):  # torch has none of a backend among others
        return
    with batch(group):
        dist.all_reduce(x)
        assert len(group._batch) == 1
    assert group._batch is None
    with contextlib.suppress(KeyError), batch(group):
        dist.all_reduce(x)
        raise KeyError
    dist.all_reduce(x)
    assert group._batch is None


def hook():
    """DDP's hook, of a bucket on the GPU."""
    for wire in ("bf16", "f16"):
        data = mine().reshape(-1)
        since = cuda_torch.counts()
        bucket = types.SimpleNamespace(buffer=lambda data=data: data)
        result = halay.distributed.compress_hook(wire)(None, bucket).wait()
        assert cuda_torch.counts() == since
        same(result, (EVERYONE.sum(0) / SIZE).reshape(-1))


def refusals():
    raises(ValueError, lambda: dist.all_reduce(torch.empty(3, device="meta")), "CUDA devices")
    if SIZE > 1:
        lone = mine()[:2 + RANK]
        raises(RuntimeError, lambda: dist.all_reduce(lone), "rank")
        same(lone, given(RANK)[:2 + RANK])


mode = cuda_torch.start()
future_devices, _work.future_devices = _work.future_devices, lambda *streams: None  # this PyTorch has no such futures
dist.distributed_c10d.has_torch_function = lambda _: False  # torch 2.15: what it calls is seen, not the collective
Request.wait = watch
torch.set_num_threads(1)
config = "cuda:halay,cpu:halay" if int(torch.__version__.split(".")[0]) >= 2 else "halay"
dist.init_process_group(config, init_method="file://" + sys.argv[1], rank=RANK, world_size=SIZE)
reductions()
streams()
moves()
futures()
seen_elsewhere()
together()
futures_in_flight()
finishes()
failures()
batches()
hook()
refusals()
mode.__exit__(None, None, None)
dist.destroy_process_group()
