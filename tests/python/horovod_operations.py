# SPDX-License-Identifier: Apache-2.0
"""halay.torch's collectives against plain PyTorch: each rank computes what all ranks give, so what must come out."""
import copy
import threading
import warnings
from unittest import mock

import torch
from checks import raises

import halay.torch as hvd
from halay.torch import _job, sync_batch_norm

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
FLOATS = [torch.float32, torch.float64, torch.bfloat16]
TYPES = FLOATS + [torch.int32, torch.int64, torch.uint8, torch.int8, torch.int16]


def given(rank, dtype=torch.float32, rows=3, seed=0):
    """What that rank gives: small whole numbers, so that sums are exact in every type."""
    generator = torch.Generator().manual_seed(100 * seed + rank)
    return torch.randint(1, 4, (rows, 2), generator=generator).to(dtype)


def everyone(*args, **kwargs):
    return torch.stack([given(rank, *args, **kwargs) for rank in range(SIZE)])


def equal(got, wanted):
    assert got.dtype == wanted.dtype and torch.equal(got, wanted), (got, wanted)


def allreduce():
    for dtype in TYPES:
        x, all_ = given(RANK, dtype), everyone(dtype)
        equal(hvd.allreduce(x, op=hvd.Sum), all_.sum(0, dtype=dtype))
        equal(hvd.allreduce(x, op=hvd.Min), all_.amin(0))
        equal(hvd.allreduce(x, op=hvd.Max), all_.amax(0))
        equal(hvd.allreduce(x, op=hvd.Product, name="product"), all_.double().prod(0).to(dtype))
        average = all_.double().sum(0) / SIZE
        equal(hvd.allreduce(x), (average if dtype.is_floating_point else average.trunc()).to(dtype))
        equal(x, given(RANK, dtype))
        handle = hvd.allreduce_async_(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5)
        result = hvd.synchronize(handle)
        assert hvd.poll(handle) and hvd.synchronize(handle) is None and result is x
        equal(x, all_.sum(0, dtype=dtype))
        a, b = given(RANK, dtype), given(RANK, dtype, 5, 1)
        for got in (hvd.grouped_allreduce([a, b], op=hvd.Sum), hvd.grouped_allreduce_([a, b], op=hvd.Sum)):
            equal(got[0], all_.sum(0, dtype=dtype))
            equal(got[1], everyone(dtype, 5, 1).sum(0, dtype=dtype))
    equal(hvd.allreduce(torch.tensor(float(RANK)), op=hvd.Sum), torch.tensor(float(sum(range(SIZE)))))
    small = hvd.allreduce(given(RANK), op=hvd.Sum, compression=hvd.Compression.bf16)
    equal(small, everyone().sum(0))
    same = torch.tensor([3.0, 4.0])
    equal(hvd.allreduce(same, op=hvd.Adasum), same)


def averages():
    """Of integers: exact, whatever their size is, and cut towards zero; every call."""
    for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        limits = torch.iinfo(dtype)
        values = [limits.max, limits.min, limits.max - 1, limits.min + 1, 7, 0, limits.max // 3, limits.min // 3]
        values += [1_700_000_000_000_000_001, -1_700_000_000_000_000_001, 2**53 + 1] if dtype == torch.int64 else []
        same = torch.tensor(values, dtype=dtype)

        def wanted(at):
            total = sum(int(part[at]) for part in mixed)
            return abs(total) // SIZE * (1 if total >= 0 else -1)

        mixed = [torch.roll(same, 3 * rank) for rank in range(SIZE)]
        average = torch.tensor([wanted(at) for at in range(len(same))], dtype=dtype)
        for all_, result in (([same] * SIZE, same), (mixed, average)):
            mine = all_[RANK]
            equal(hvd.allreduce(mine), result)
            equal(hvd.allreduce_(mine.clone()), result)
            equal(hvd.synchronize(hvd.allreduce_async(mine)), result)
            equal(hvd.grouped_allreduce([mine, torch.tensor(0.5)])[0], result)
            equal(hvd.grouped_allreduce([mine, torch.tensor(0.5)])[1], torch.tensor(0.5))
            equal(hvd.grouped_allreduce_([mine.clone()])[0], result)
            equal(hvd.reducescatter(mine.repeat(SIZE)), result)
            equal(hvd.grouped_reducescatter([mine.repeat(SIZE)])[0], result)
            equal(hvd.allreduce(mine[0]), result[0])
        indices = torch.tensor([[0, 2, 2]])
        sparse = torch.sparse_coo_tensor(indices, torch.tensor([5, 3, 4], dtype=torch.int64), (3,))
        got = hvd.sparse_allreduce_async(sparse, "sparse integers", hvd.Average)().to_dense()
        equal(got, torch.tensor([5, 0, 7]))


def rows():
    for dtype in TYPES:
        mine = given(RANK, dtype, RANK + 1)
        wanted = torch.cat([given(rank, dtype, rank + 1) for rank in range(SIZE)])
        equal(hvd.allgather(mine), wanted)
        equal(hvd.grouped_allgather([mine, mine])[1], wanted)
        for root in range(SIZE):
            equal(hvd.broadcast(given(RANK, dtype), root), given(root, dtype))
        x = given(RANK, dtype)
        assert hvd.broadcast_(x, SIZE - 1) is x
        equal(x, given(SIZE - 1, dtype))
        splits = torch.arange(SIZE, dtype=torch.int32)
        out, received = hvd.alltoall(given(RANK, dtype, 2 * SIZE * SIZE), splits)
        start = sum(range(RANK))
        equal(out, torch.cat([given(rank, dtype, 2 * SIZE * SIZE)[start:start + RANK] for rank in range(SIZE)]))
        assert received.tolist() == [RANK] * SIZE and received.dtype == torch.int32
        reduced = everyone(dtype, SIZE + 1).sum(0, dtype=dtype)
        own = reduced[:2] if RANK == 0 else reduced[RANK + 1:RANK + 2]
        equal(hvd.reducescatter(given(RANK, dtype, SIZE + 1), op=hvd.Sum), own)
        equal(hvd.grouped_reducescatter([given(RANK, dtype, SIZE + 1)] * 2, op=hvd.Sum)[1], own)


def gradients():
    """Of the sum of what comes out, weighted with w: the derivative by what this rank gave."""
    x = given(RANK).requires_grad_()
    weight = given(RANK, seed=7)
    (hvd.allreduce(x, op=hvd.Sum) * weight).sum().backward()
    equal(x.grad, everyone(seed=7).sum(0))
    a, b = given(RANK).requires_grad_(), given(RANK, rows=4).requires_grad_()
    out = hvd.grouped_allreduce([a, b], op=hvd.Sum)
    (out[0].sum() + 2 * out[1].sum()).backward()
    equal(a.grad, torch.full_like(a, SIZE))
    equal(b.grad, torch.full_like(b, 2 * SIZE))
    x = given(RANK, rows=RANK + 1).requires_grad_()
    (hvd.allgather(x) * (RANK + 1)).sum().backward()
    equal(x.grad, torch.full_like(x, sum(range(1, SIZE + 1)) / SIZE))
    x = given(RANK).requires_grad_()
    hvd.broadcast(x, 0).sum().backward()
    equal(x.grad, torch.full_like(x, float(RANK == 0)))
    x = given(RANK, rows=SIZE + 1).requires_grad_()  # one row that nobody gets
    out, _ = hvd.alltoall(x, torch.ones(SIZE, dtype=torch.int32))
    (out * (RANK + 1)).sum().backward()
    equal(x.grad[:, 0], torch.tensor([float(rank + 1) for rank in range(SIZE)] + [0.0]))
    x = given(RANK, rows=SIZE).requires_grad_()
    (hvd.reducescatter(x, op=hvd.Average) * (RANK + 1)).sum().backward()
    equal(x.grad[:, 0], torch.arange(1.0, SIZE + 1))


def objects():
    """Of other types on each rank, and what cannot be pickled or differs: the same on every rank."""
    kinds = [None, {"epoch": 3}, [1, 2], 7.5, "text", b"bytes", torch.ones(2), (), {1}]
    for at in range(len(kinds)):
        mine = kinds[(at + RANK) % len(kinds)]
        assert repr(hvd.broadcast_object(mine, 0)) == repr(kinds[at])
        assert repr(hvd.allgather_object(mine)) == repr([kinds[(at + rank) % len(kinds)] for rank in range(SIZE)])
    with_lock = {"lock": threading.Lock()} if RANK == SIZE - 1 else 5
    for call in (lambda: hvd.broadcast_object(with_lock, SIZE - 1), lambda: hvd.allgather_object(with_lock)):
        raises(TypeError, call, f"rank {SIZE - 1} cannot be pickled", "lock")
    if SIZE == 1:
        return
    one = RANK == 0
    for params, what in (
        ({"a" if one else "b": torch.ones(2)}, "'a' of float32 [2], rank 1 has 'b'"),
        ({"a": torch.ones(2), **({} if one else {"b": torch.ones(2)})}, "rank 0 has none, rank 1 has 'b'"),
        ({"a": torch.ones(2 if one else 3)}, "float32 [2], rank 1 has 'a' of float32 [3]"),
        ({"a": torch.ones(2, dtype=torch.float32 if one else torch.float64)}, "'a' of float64"),
        ({"a": torch.ones(2) if one else 7}, "rank 1 has none"),
        ({"a": torch.ones(2) if one else torch.ones(2).to_sparse()}, "sparse_coo"),
        ([torch.ones(2)] * (1 if one else 2), "rank 1 has one of float32"),
    ):
        raises(ValueError, lambda: hvd.broadcast_parameters(params, 0), "differ", what)
    net = torch.nn.Linear(2, 2)
    groups = [{"params": [net.weight]}, {"params": [net.bias]}] if one else net.parameters()
    raises(ValueError, lambda: hvd.broadcast_optimizer_state(torch.optim.SGD(groups, lr=0.1), 0), "rank 1 has 2 param")
    raises(ValueError, lambda: hvd.broadcast_parameters({"x": torch.ones(2).to_sparse()}, 0), "not supported")


def objects_and_sets():
    assert hvd.broadcast_object({"from": RANK}, SIZE - 1) == {"from": SIZE - 1}
    assert hvd.allgather_object("x" * RANK) == ["x" * rank for rank in range(SIZE)]
    objects()
    raises(ValueError, lambda: hvd.add_process_set(range(SIZE)), "duplicate process set")
    if SIZE == 1:
        return
    first = hvd.add_process_set([0])
    others = hvd.add_process_set(range(1, SIZE)) if SIZE > 2 else None
    assert first.process_set_id == 1 and first.included() == (RANK == 0)
    raises(ValueError, lambda: hvd.add_process_set([0]), "duplicate process set")
    if RANK == 0:
        equal(hvd.allreduce(given(0), process_set=first), given(0))
    else:
        raises(ValueError, lambda: hvd.allreduce(given(0), process_set=first), f"Rank {RANK} is not a member")
        if others:
            equal(hvd.allreduce(given(RANK), op=hvd.Sum, process_set=others), everyone()[1:].sum(0))
            hvd.barrier(others)
    hvd.barrier()
    assert hvd.remove_process_set(first) and not hvd.remove_process_set(first)
    assert not hvd.remove_process_set(hvd.global_process_set)
    if RANK == 0:
        raises(ValueError, lambda: hvd.allreduce(given(0), process_set=first), "does not exist")
    sparse = torch.sparse_coo_tensor([[RANK, 0]], torch.ones(2, 2), (SIZE, 2))
    got = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Sum)().to_dense()
    wanted = torch.ones(SIZE, 2)
    wanted[0] += SIZE
    equal(got, wanted)


def misuse():
    raises(ValueError, lambda: hvd.allreduce(given(RANK), average=True, op=hvd.Sum), "supersedes average")
    raises(ValueError, lambda: hvd.allreduce(given(RANK).t()), "required to be contiguous")
    raises(ValueError, lambda: hvd.allreduce(torch.zeros(2, dtype=torch.complex64)), "is not supported")
    raises(NotImplementedError, misuse_of_adasum, "Adasum does not support")
    raises(hvd.HorovodInternalError, lambda: hvd.reducescatter(given(0), op=hvd.Max), "only supports AVERAGE and SUM")
    raises(ValueError, lambda: hvd.alltoall(given(0), torch.ones(SIZE)), "32-bit integer")
    raises(ValueError, lambda: hvd.alltoall(given(0), [1] * (SIZE + 1)), "Number of entries")
    raises(ValueError, lambda: hvd.alltoall(given(0), [100] * SIZE), "Sum of splits")
    raises(ValueError, lambda: hvd.broadcast(given(0), SIZE), "invalid root rank")
    raises(ValueError, lambda: hvd.broadcast(given(0), "0"), "invalid root rank")
    for factors in ({"prescale_factor": 0}, {"postscale_factor": 0.0}):
        raises(ValueError, lambda: hvd.allreduce(given(0), op=hvd.Sum, **factors), "is 0; expected another factor")
        raises(ValueError, lambda: hvd.grouped_allreduce([given(0).long()], **factors), "is 0")
    raises(TypeError, lambda: hvd.broadcast_parameters([given(0), given(0).numpy()], 0), "params has one of ndarray")
    if SIZE > 1:
        rows_ = 2 + (RANK == SIZE - 1)
        raises(hvd.HorovodInternalError, lambda: hvd.allreduce(given(0, rows=rows_), name="differ"),
               "'allreduce.differ'")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        hvd.allreduce(given(RANK), average=False)
    assert "`average` has been replaced" in str(said[0].message)


def misuse_of_adasum():
    only = hvd.ProcessSet([0])
    hvd.allreduce(given(RANK), op=hvd.Adasum, process_set=only)


def batch_norm():
    """Ranks with different numbers of samples, against BatchNorm1d over all of them. An unnamed call that is before the
    layer on one rank and after it on the others meets none of its sums."""
    torch.manual_seed(0)
    unnamed = hvd.allreduce_async(torch.ones(3), op=hvd.Sum) if RANK == 0 else None
    samples = torch.randn(sum(range(2, SIZE + 2)), 4, dtype=torch.float64)
    start = sum(range(2, RANK + 2))
    x = samples[start:start + RANK + 2].clone().requires_grad_()
    whole = samples.clone().requires_grad_()
    ours, plain = hvd.SyncBatchNorm(4).double(), torch.nn.BatchNorm1d(4).double()
    out, wanted = ours(x), plain(whole)
    weights = torch.randn_like(samples)
    (out * weights[start:start + RANK + 2]).sum().backward()
    (wanted * weights).sum().backward()
    if unnamed is None:
        unnamed = hvd.allreduce_async(torch.ones(3), op=hvd.Sum)
    equal(hvd.synchronize(unnamed), torch.full((3,), float(SIZE)))
    assert torch.allclose(out, wanted[start:start + RANK + 2])
    assert torch.allclose(x.grad, whole.grad[start:start + RANK + 2])
    assert torch.allclose(hvd.allreduce(ours.weight.grad, op=hvd.Sum), plain.weight.grad)
    assert torch.allclose(ours.running_var, plain.running_var) and int(ours.num_batches_tracked) == 1
    # Layers that some ranks use and others do not are never taken for each other.
    other = hvd.SyncBatchNorm(4).double()
    with mock.patch.object(sync_batch_norm, "allreduce", wraps=hvd.allreduce) as calls:
        for layer in ours, other, copy.deepcopy(ours):
            layer(x)
    names = [call.kwargs["name"] for call in calls.call_args_list]
    assert names[:2] == names[4:] and len(set(names)) == (4 if SIZE > 1 else 0), names
    assert hvd.allgather_object(names) == [names] * SIZE


def devices():
    """Tensors that have no data are refused, whatever is to be done with them. Those on devices that halay does not
    know are copied, and one warning says so."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not any(_job.reaches(torch.device(kind)) for kind in ("mps", "xpu", "mps"))
        assert _job.alloc(1, torch.float32, torch.device("hpu")).is_cpu
    assert [str(one.message).split()[2] for one in said] == ["'mps'", "'xpu'", "'hpu'"], said
    nothing = torch.ones(2, 2, device="meta")
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter,
                 lambda t: hvd.broadcast(t, 0), lambda t: hvd.broadcast_(t, 0), lambda t: hvd.grouped_allreduce([t])):
        raises(ValueError, lambda: call(nothing), "is on 'meta', which holds no data")


def life():
    equal(hvd.allreduce(torch.ones(2), op=hvd.Sum, name="uneven") if RANK else torch.ones(2), torch.ones(2) * max(
        1, (SIZE - 1) * (RANK > 0)))
    assert 0 <= hvd.join() < SIZE
    hvd.shutdown()
    assert not hvd.is_initialized()
    raises(ValueError, hvd.rank, "has not been initialized")
    raises(ValueError, lambda: hvd.init(process_sets=[hvd.ProcessSet(range(SIZE))]), "entry number 0 is a duplicate")
    assert not hvd.is_initialized()
    ours = hvd.ProcessSet([0])
    hvd.init(process_sets=[ours] if SIZE > 1 else None)
    assert hvd.size() == SIZE and (SIZE == 1 or ours.process_set_id == 1)
    hvd.shutdown()


for test in (allreduce, averages, rows, gradients, objects_and_sets, misuse, batch_norm, devices, life):
    test()
