# SPDX-License-Identifier: Apache-2.0
"""torchcomms' collectives over halay, against what they are. With torchcomms, or with the stand-in for it."""
import torch
import torchcomms
from checks import raises

import halay.torchcomms  # noqa: F401

comm = torchcomms.new_comm("halay", torch.device("cpu"), "world")
RANK, SIZE = comm.get_rank(), comm.get_size()
SUM = torchcomms.ReduceOp.SUM


def row(rank, count=4):
    return torch.arange(count, dtype=torch.float32) + 10 * rank


def equal(got, wanted):
    assert torch.equal(got, wanted), (got, wanted)


def whole():
    return torch.stack([row(rank) for rank in range(SIZE)])


def reductions():
    for op, wanted in ((SUM, whole().sum(0)), (torchcomms.ReduceOp.MAX, whole().amax(0)),
                       (torchcomms.ReduceOp.PRODUCT, whole().prod(0))):
        x = row(RANK)
        comm.all_reduce(x, op, False)
        equal(x, wanted)
    x = row(RANK)
    work = comm.all_reduce(x, SUM, True)
    work.wait()
    equal(x, whole().sum(0))
    x = row(RANK)
    comm.reduce(x, SIZE - 1, SUM, False)
    if RANK == SIZE - 1:
        equal(x, whole().sum(0))
    out = torch.empty(4)
    comm.reduce_scatter(out, [row(RANK) + 100 * part for part in range(SIZE)], SUM, False)
    equal(out, whole().sum(0) + SIZE * 100 * RANK)
    comm.reduce_scatter_single(out, torch.cat([row(RANK) + part for part in range(SIZE)]), SUM, False)
    equal(out, whole().sum(0) + SIZE * RANK)


def rows():
    x = row(RANK)
    comm.broadcast(x, 0, False)
    equal(x, row(0))
    parts = [torch.empty(4) for _ in range(SIZE)]
    comm.all_gather(parts, row(RANK), False)
    equal(torch.stack(parts), whole())
    out = torch.empty(SIZE * 4)
    comm.all_gather_single(out, row(RANK), False)
    equal(out.view(SIZE, 4), whole())
    comm.all_to_all_single(out, row(RANK).repeat(SIZE), False)
    equal(out.view(SIZE, 4), whole())
    counts = [rank + 1 for rank in range(SIZE)]
    received = torch.empty(SIZE * (RANK + 1))
    comm.all_to_all_v_single(received, torch.full((sum(counts),), float(RANK)), [RANK + 1] * SIZE, counts, False)
    equal(received, torch.arange(SIZE).repeat_interleave(RANK + 1).float())
    comm.all_to_all(parts, [row(RANK) + part for part in range(SIZE)], False)
    equal(torch.stack(parts), whole() + RANK)
    out = torch.empty(4)
    comm.scatter(out, [row(part) for part in range(SIZE)] if RANK == 0 else [], 0, False)
    equal(out, row(RANK))
    comm.gather(parts if RANK == 0 else [], row(RANK), 0, False)
    if RANK == 0:
        equal(torch.stack(parts), whole())


def others():
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    if SIZE > 1:
        x = torch.empty(4)
        sent = comm.send(row(RANK), after, True)
        comm.recv(x, before, False)
        sent.wait()
        equal(x, row(before))
    comm.barrier(False)
    half = comm.split(list(range(0, SIZE, 2)), "even")
    assert (half is None) == (RANK % 2 == 1)
    if half is not None:
        x = row(RANK)
        half.all_reduce(x, SUM, False)
        equal(x, whole()[::2].sum(0))
        half.finalize()
    premul = torchcomms.ReduceOp.PREMUL_SUM
    premul = premul(2.0) if callable(premul) else premul
    refusal = "unknown reduction PREMUL_SUM"
    raises((ValueError, RuntimeError), lambda: comm.all_reduce(row(RANK), premul, False), refusal)


reductions()
rows()
others()
comm.finalize()
if RANK == 0:
    which = ", a stand-in" if "stand_ins" in torchcomms.__file__ else ""
    print(f"{SIZE} ranks: torchcomms over halay{which}", flush=True)
