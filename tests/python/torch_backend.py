# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's backend "halay": every collective, compared with what this rank computes for all of them."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from checks import raises
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook, quantization_hooks

import halay.distributed  # noqa: F401 registers the backend
from halay.distributed._group import PYTHON_BACKENDS, DeviceGroup

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8]
OPS = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
BITS = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


def fold(function, parts):
    """The reduction of the parts, in a type in which every version of torch computes."""
    dtype = parts[0].dtype
    result = parts[0].double() if dtype.is_floating_point else parts[0]
    for part in parts[1:]:
        result = function(result, part.to(result.dtype))
    return result.to(dtype)


class Members:
    """A group, and who this rank is in it."""

    def __init__(self, ranks, group):
        self.ranks, self.group = ranks, group
        self.size, self.rank = len(ranks), ranks.index(dist.get_rank())

    def values(self, rank, shape, dtype=torch.float32):
        """What a member gives: small whole numbers, which every type adds and multiplies without rounding."""
        count = 1
        for length in shape:
            count *= length
        return ((torch.arange(count) * 7 + rank * 3) % 3 + 1).to(dtype).reshape(shape)

    def all(self, shape, dtype=torch.float32):
        return [self.values(rank, shape, dtype) for rank in range(self.size)]


def same(got, expected, what):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (what, got, expected)
    assert torch.equal(got, expected), (what, got, expected)


def check_reductions(m):
    for dtype in FLOATS + INTEGERS:
        for op, function in OPS.items():
            if dtype in FLOATS and op in BITS:
                continue
            for shape in ((), (5,), (0,), (3, 2)):
                what = (dtype, op, shape)
                expected = fold(function, m.all(shape, dtype))
                mine = m.values(m.rank, shape, dtype)
                dist.all_reduce(mine, op, group=m.group)
                same(mine, expected, what)
            if op == dist.ReduceOp.BXOR:
                continue
            parts = [m.all((4,), dtype) for _ in range(m.size)]
            output = torch.empty(4, dtype=dtype)
            dist.reduce_scatter(output, [part[m.rank] for part in parts], op, group=m.group)
            same(output, fold(function, parts[m.rank]), ("reduce_scatter", dtype, op))
            for root in range(m.size):
                mine = m.values(m.rank, (3,), dtype)
                dist.reduce(mine, m.ranks[root], op, group=m.group)
                if m.rank == root:
                    same(mine, fold(function, m.all((3,), dtype)), ("reduce", dtype, op))
                else:
                    same(mine, m.values(m.rank, (3,), dtype), ("reduce, not the root", dtype, op))
    mine = m.values(m.rank, (6,))
    dist.all_reduce(mine, dist.ReduceOp.AVG, group=m.group)
    assert torch.allclose(mine, sum(m.all((6,))) / m.size), mine
    flags = torch.tensor([m.rank == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.MAX, group=m.group)
    same(flags, torch.tensor([True, True, False]), "flags")
    # A view with gaps.
    whole = m.values(m.rank, (4, 6))
    dist.all_reduce(whole[:, ::2], group=m.group)
    same(whole[:, ::2], sum(m.all((4, 6)))[:, ::2], "a view")
    same(whole[:, 1::2], m.values(m.rank, (4, 6))[:, 1::2], "between a view's elements")
    several = [m.values(m.rank, (3,)), m.values(m.rank, (2, 2))]
    dist.all_reduce_coalesced(several, group=m.group)
    same(several[0], sum(m.all((3,))), "coalesced")
    same(several[1], sum(m.all((2, 2))), "coalesced")


def check_scattered(m):
    """What has the form of one tensor: rows of the members, one behind the other."""
    gather = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
    scatter = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
    for dtype in FLOATS + INTEGERS + [torch.bool]:
        whole = torch.empty((m.size * 2, 3), dtype=dtype)
        gather(whole, m.values(m.rank, (2, 3), dtype), group=m.group)
        same(whole, torch.cat(m.all((2, 3), dtype)), ("all_gather_into_tensor", dtype))
    part = torch.empty((2, 3))
    scatter(part, m.values(m.rank, (m.size * 2, 3)), group=m.group)
    same(part, sum(m.all((m.size * 2, 3)))[m.rank * 2 :][:2], "reduce_scatter_tensor")


def check_lists(m):
    kinds = FLOATS + INTEGERS + [torch.bool, torch.complex64]
    for dtype in kinds:
        rows = [torch.empty((2, 2), dtype=dtype) for _ in range(m.size)]
        dist.all_gather(rows, m.values(m.rank, (2, 2), dtype), group=m.group)
        for row, expected in zip(rows, m.all((2, 2), dtype)):
            same(row, expected, ("all_gather", dtype))
        for root in range(m.size):
            mine = m.values(m.rank, (2, 3), dtype).t()
            dist.broadcast(mine, m.ranks[root], group=m.group)
            same(mine, m.values(root, (2, 3), dtype).t(), ("broadcast", dtype))
            here = m.rank == root
            rows = [torch.empty(3, dtype=dtype) for _ in range(m.size)] if here else None
            dist.gather(m.values(m.rank, (3,), dtype), rows, m.ranks[root], group=m.group)
            for row, expected in zip(rows or [], m.all((3,), dtype)):
                same(row, expected, ("gather", dtype))
            mine = torch.empty(3, dtype=dtype)
            dist.scatter(mine, m.all((3,), dtype) if here else None, m.ranks[root], group=m.group)
            same(mine, m.values(m.rank, (3,), dtype), ("scatter", dtype))
    sizes = [rank + 1 for rank in range(m.size)]
    rows = [torch.empty(size) for size in sizes]
    dist.all_gather(rows, m.values(m.rank, (sizes[m.rank],)), group=m.group)
    for rank, row in enumerate(rows):
        same(row, m.values(rank, (sizes[rank],)), "all_gather of different sizes")


def check_all_to_all(m):
    for dtype in FLOATS + INTEGERS:
        mine = m.values(m.rank, (m.size * 2, 2), dtype)
        got = torch.empty_like(mine)
        dist.all_to_all_single(got, mine, group=m.group)
        expected = torch.cat([part[m.rank * 2 :][:2] for part in m.all((m.size * 2, 2), dtype)])
        same(got, expected, ("all_to_all_single", dtype))
    give = [(m.rank + rank) % 3 for rank in range(m.size)]  # rows for each; the same from each
    mine = m.values(m.rank, (sum(give), 2))
    got = torch.empty(sum(give), 2)
    dist.all_to_all_single(got, mine, list(give), list(give), group=m.group)
    at = 0
    for rank in range(m.size):
        theirs = [(rank + other) % 3 for other in range(m.size)]
        begin = sum(theirs[: m.rank])
        expected = m.values(rank, (sum(theirs), 2))[begin : begin + theirs[m.rank]]
        same(got[at : at + give[rank]], expected, "all_to_all_single with splits")
        at += give[rank]
    outputs = [torch.empty(3) for _ in range(m.size)]
    dist.all_to_all(outputs, [torch.full((3,), 10.0 * m.rank + rank) for rank in range(m.size)], group=m.group)
    for rank, output in enumerate(outputs):
        same(output, torch.full((3,), 10.0 * rank + m.rank), "all_to_all")


def check_objects(m):
    objects = [None] * m.size
    dist.all_gather_object(objects, {"rank": m.rank, "text": "x" * m.rank}, group=m.group)
    assert objects == [{"rank": rank, "text": "x" * rank} for rank in range(m.size)], objects
    root = m.ranks[-1]
    objects = ["from the root", 7] if dist.get_rank() == root else [None, None]
    dist.broadcast_object_list(objects, root, group=m.group)
    assert objects == ["from the root", 7], objects
    mine = [None]
    if m.group is None:  # torch 1.13 compares the root with the rank in the group
        dist.scatter_object_list(mine, list(range(m.size)) if dist.get_rank() == root else None, root)
        assert mine == [m.rank], mine
    objects = [None] * m.size if dist.get_rank() == root else None
    dist.gather_object(m.rank, objects, root, group=m.group)
    assert objects in (None, list(range(m.size))), objects


def check_works(m):
    """Works, futures, and what is forgotten."""
    data = [torch.full((100,), float(index)) for index in range(200)]
    works = [dist.all_reduce(each, group=m.group, async_op=True) for each in data]
    futures = [work.get_future() for work in works[::7]]
    for future in futures:
        future.wait()
    for index, work in enumerate(works):
        assert work.wait() and work.is_completed() and work.is_success(), index
        same(data[index], torch.full((100,), float(index * m.size)), "asynchronous")
    work = dist.all_reduce(torch.ones(3), group=m.group, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    same(doubled.wait(), torch.full((3,), 2.0 * m.size), "then")

    def fail(future):
        raise KeyError("in a hook")

    failed = dist.all_reduce(torch.ones(3), group=m.group, async_op=True).get_future().then(fail)
    try:
        failed.wait()
    except Exception as failure:
        assert "in a hook" in str(failure), failure
    else:
        raise AssertionError("the exception in a hook was lost")
    for _ in range(300):
        dist.all_reduce(torch.ones(10), group=m.group, async_op=True)
    dist.barrier(group=m.group)
    sparse = torch.sparse_coo_tensor([[m.rank, 7]], torch.tensor([1.0, 2.0]), (9,))
    dist.all_reduce(sparse, group=m.group)
    expected = torch.zeros(9)
    for rank in range(m.size):
        expected[rank] += 1
        expected[7] += 2
    same(sparse.to_dense(), expected, "sparse")


def check_points(m):
    """Sends and receives: round the ring, both directions at once, many, and those that do not fit."""
    if m.size == 1:
        return
    right, left = (m.rank + 1) % m.size, (m.rank - 1) % m.size
    to, source = m.ranks[right], m.ranks[left]
    for dtype in FLOATS + INTEGERS + [torch.bool, torch.complex64]:
        for shape in ((), (5,), (0,), (3, 2), (1 << 18,)):  # of f32 the last is 1 MB
            got = torch.empty(shape, dtype=dtype)
            mine = m.values(m.rank, shape, dtype)
            works = [dist.irecv(got, source, group=m.group), dist.isend(mine, to, group=m.group)]
            for work in works:
                assert work.wait() and work.is_completed() and work.is_success()
            same(got, m.values(left, shape, dtype), ("a ring", dtype, shape))
    mine, got = m.values(m.rank, (4,)), torch.empty(4)
    if m.rank == 0:
        dist.send(mine, to, group=m.group, tag=9)
    assert dist.recv(got, source, group=m.group, tag=9) == source
    if m.rank:
        dist.send(mine, to, group=m.group, tag=9)
    same(got, m.values(left, (4,)), "one after the other")
    whole = torch.zeros(3, 8)
    works = [dist.isend(torch.arange(12.0).reshape(4, 3).t(), to, group=m.group)]
    works.append(dist.irecv(whole[:, ::2], source, group=m.group))
    for work in works:
        work.wait()
    same(whole[:, ::2], torch.arange(12.0).reshape(4, 3).t(), "a view")
    assert not whole[:, 1::2].any(), "between a view's elements"

    # More than there are names; of one tag they meet in order, of different tags in any.
    got = [torch.empty(100) for _ in range(200)]
    works = [dist.isend(torch.full((100,), float(i)), to, group=m.group, tag=i % 3) for i in range(200)]
    works += [dist.irecv(got[i], source, group=m.group, tag=i % 3) for i in sorted(range(200), key=lambda i: -(i % 3))]
    works[-1].get_future().wait()
    for work in works:
        work.wait()
    for i in range(200):
        same(got[i], torch.full((100,), float(i)), "many")
    got = [torch.empty(7), torch.empty(7)]
    steps = [dist.P2POp(dist.isend, torch.full((7,), float(m.rank)), peer, m.group) for peer in (to, source)]
    steps += [dist.P2POp(dist.irecv, part, peer, m.group) for part, peer in zip(got, (source, to))]
    for work in dist.batch_isend_irecv(steps):
        work.wait()
    same(torch.stack(got)[:, 0], torch.tensor([float(left), float(right)]), "batch_isend_irecv")

    def first_two(send, receive):
        if m.rank == 0:
            raises(RuntimeError, dist.isend(send, m.ranks[1], group=m.group).wait, f"rank {m.ranks[0]} sends")
        if m.rank == 1:
            raises(RuntimeError, dist.irecv(receive, m.ranks[0], group=m.group).wait, f"rank {m.ranks[0]} sends")

    first_two(torch.ones(3), torch.ones(4))
    first_two(torch.ones(3), torch.ones(3, dtype=torch.int32))
    raises(ValueError, lambda: dist.isend(torch.ones(3), to, group=m.group, tag=-1), "tag -1")
    if m.rank == 0:
        seen = []
        for _ in range(m.size - 1):
            seen.append(dist.recv(got[0], group=m.group, tag=5))
            same(got[0], m.values(m.ranks.index(seen[-1]), (7,)), "from any rank")
        assert sorted(seen) == sorted(m.ranks[1:]), seen
    else:
        dist.send(m.values(m.rank, (7,)), m.ranks[0], group=m.group, tag=5)
    check_late_messages(m)


def check_late_messages(m):
    """What was given up meets nothing later, whether a wait's time is over or the group's."""
    late, got, meant = torch.zeros(3), torch.zeros(3), m.ranks[0]
    if m.rank == 1:
        work = dist.irecv(late, meant, group=m.group)
        raises(RuntimeError, lambda: work.wait(timedelta(milliseconds=100)), "timed out")
        raises(RuntimeError, work.wait, "canceled by rank")
    dist.barrier(group=m.group)
    if m.rank == 0:
        dist.send(torch.ones(3), m.ranks[1], group=m.group)
    if m.rank == 1:
        assert dist.recv(got, meant, group=m.group) == meant
        same(torch.stack([late, got]), torch.stack([torch.zeros(3), torch.ones(3)]), "after a time-out")
    backend = m.group or dist.group.WORLD
    if hasattr(backend, "set_timeout"):
        backend.set_timeout(timedelta(milliseconds=100))
        for source in (m.ranks[m.rank - 1], None):
            work = dist.irecv(late, source, group=m.group, tag=8)
            raises(RuntimeError, work.get_future().wait, "its timeout is over")
            raises(RuntimeError, work.wait, "was not submitted")
        backend.set_timeout(timedelta(seconds=60))


def check_pipeline(m):
    """Two stages of a model, activations to the right and gradients to the left: the losses of the whole model."""

    def stages():
        torch.manual_seed(5)
        return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh()), torch.nn.Linear(16, 3)

    features, target = torch.randn(8, 6, generator=torch.Generator().manual_seed(6)), torch.ones(8, 3)
    first, second = stages()
    whole = torch.nn.Sequential(first, second)
    expected = []
    for _ in range(3):
        whole.zero_grad()
        loss = torch.nn.functional.mse_loss(whole(features), target)
        loss.backward()
        with torch.no_grad():
            for parameter in whole.parameters():
                parameter -= 0.1 * parameter.grad
        expected.append(loss.detach())
    if m.rank > 1 or m.size == 1:
        return
    mine, there = stages()[m.rank], m.ranks[1 - m.rank]
    losses = []
    for _ in range(3):
        mine.zero_grad()
        if m.rank == 0:
            activation = mine(features)
            gradient = torch.empty_like(activation)
            dist.send(activation.detach(), there, group=m.group)
            dist.recv(gradient, there, group=m.group)
            activation.backward(gradient)
        else:
            activation = torch.empty(8, 16)
            dist.recv(activation, there, group=m.group)
            activation.requires_grad_()
            loss = torch.nn.functional.mse_loss(mine(activation), target)
            loss.backward()
            dist.send(activation.grad, there, group=m.group)
            losses.append(loss.detach())
        with torch.no_grad():
            for parameter in mine.parameters():
                parameter -= 0.1 * parameter.grad
    for got, loss in zip(losses, expected):
        assert torch.allclose(got, loss, atol=1e-6), (got, loss)


def check_errors(m):
    """All ranks are told, and the group lives on."""
    if m.size > 1:
        for give in (lambda: torch.ones(3 + m.rank), lambda: torch.ones(3, dtype=INTEGERS[m.rank % 2])):
            try:
                dist.all_reduce(give(), group=m.group)
            except RuntimeError as failure:
                assert "rank" in str(failure), failure
            else:
                raise AssertionError("the ranks differed, and no error came")
        try:
            if m.rank:
                dist.all_reduce(torch.ones(3), group=m.group)
            else:
                dist.barrier(group=m.group)
        except RuntimeError as failure:
            assert "rank" in str(failure), failure
        else:
            raise AssertionError("the ranks called different collectives, and no error came")
    for call in (
        lambda: dist.all_to_all_single(torch.empty(5), torch.empty(5), [1] * m.size, [9] * m.size, group=m.group),
        lambda: dist.all_reduce(torch.ones(3, dtype=torch.complex64), dist.ReduceOp.MAX, group=m.group),
    ):
        try:
            call()
        except (RuntimeError, ValueError):
            pass
        else:
            raise AssertionError("no error")
    if hasattr(torch, "float8_e5m2"):
        eight = torch.ones(2).to(torch.float8_e5m2)
        raises(TypeError, lambda: dist.all_reduce(eight, group=m.group), "float8_e5m2")
    if m.group is None or m.group is dist.group.WORLD:  # torch looks ranks up in the others
        raises(ValueError, lambda: dist.broadcast(torch.ones(2), 99, group=m.group), "99")
    mine = torch.ones(2)
    dist.all_reduce(mine, group=m.group)
    same(mine, torch.full((2,), float(m.size)), "after errors")


def train(group, hook=None, steps=4, state=None):
    """The losses and the parameters of a small training, with gradients exchanged in a group."""
    torch.manual_seed(dist.get_rank())
    data = [(torch.randn(8, 16), torch.randn(8, 4)) for _ in range(steps)]
    torch.manual_seed(100 + dist.get_rank())  # differs: DDP has to make rank 0's everybody's
    layers = torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 4)
    model = torch.nn.Sequential(*layers)
    model = torch.nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.002)
    if hook is not None:
        model.register_comm_hook(group if state is None else state, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for features, target in data:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(features), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses + [parameter.detach() for parameter in model.parameters()]


def check_ddp(m):
    """As gloo has it: to the bit for two ranks, whose sums have one order."""
    gloo = dist.new_group(m.ranks, backend="gloo")
    for ours, theirs in zip(train(m.group), train(gloo)):
        assert torch.equal(ours, theirs) if m.size <= 2 else torch.allclose(ours, theirs, atol=1e-5), (ours, theirs)


def check_compression(m):
    """Close to what is not compressed, though not the same; parameters the same on all ranks, to the bit."""
    expected = train(m.group)
    for wire in ("bf16", "f16"):
        got = train(m.group, halay.distributed.compress_hook(wire))
        for ours, theirs in zip(got, expected):
            assert torch.allclose(ours, theirs, atol=0.02), (wire, ours, theirs)
        assert m.size == 1 or not all(torch.equal(*pair) for pair in zip(got, expected)), f"{wire}: nothing was rounded"
        for mine in got[4:]:
            root = mine.clone()
            dist.broadcast(root, m.ranks[0], group=m.group)
            assert torch.equal(mine, root), (wire, mine, root)
    for dtype, given in ((torch.float32, (1 + 2**-7, 3 + 2**-10)), (torch.float64, (1 + 2**-30, 3.0))):
        net = torch.nn.Linear(1, 1, bias=False).to(dtype)
        model = torch.nn.parallel.DistributedDataParallel(net, process_group=m.group)
        model.register_comm_hook(m.group, halay.distributed.compress_hook("bf16"))
        model(torch.full((1, 1), given[m.rank % 2], dtype=dtype)).sum().backward()
        if m.size == 2:  # the sum in bf16 is 4; float64 is not rounded
            mean = 2.0 if dtype == torch.float32 else 2 + 2**-31
            same(net.weight.grad, torch.full((1, 1), mean, dtype=dtype), "a bucket")
    raises(ValueError, lambda: halay.distributed.compress_hook("fp8"), "'bf16', 'f16'")


def check_hooks(m):
    """Torch's hooks whose callbacks call collectives and wait for them; those of several buckets at a time."""
    power = (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook)
    quantization = (quantization_hooks.quantization_pertensor_hook, quantization_hooks.quantization_perchannel_hook)
    expected = train(m.group)
    # Those of quantization ask for CUDA, whatever the device of the data; torch 1.13's batched one gives no batch.
    kept = torch.Tensor.cuda, torch.nn.Module.cuda, powerSGD_hook._orthogonalize
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda it, *_: it
    powerSGD_hook._orthogonalize = lambda given, *more, **named: kept[2](
        given if given.dim() == 3 else given.unsqueeze(0), *more, **named)
    try:
        for hook in power + quantization:
            state = m.group or dist.group.WORLD
            if hook in power:
                state = powerSGD_hook.PowerSGDState(m.group, 2, start_powerSGD_iter=2, min_compression_rate=0.01)
            got = train(m.group, hook, state=state)
            for mine, plain in zip(got[4:], expected[4:]):
                root = mine.clone()
                dist.broadcast(root, m.ranks[0], group=m.group)
                assert torch.equal(mine, root), (hook, mine, root)
                assert torch.allclose(mine, plain, atol=0.3), (hook, mine, plain)
    finally:
        torch.Tensor.cuda, torch.nn.Module.cuda, powerSGD_hook._orthogonalize = kept


def check_failing_hook(m):
    """What a hook's callback raises, and what its collective ended with, is what backward() raises."""
    def fail(bucket, failure=KeyError):
        def callback(future):
            raise failure("in a hook")

        return dist.all_reduce(bucket.buffer(), group=m.group, async_op=True).get_future().then(callback)

    def differ(bucket):
        given = torch.ones(3 + m.rank)
        return dist.all_reduce(given, group=m.group, async_op=True).get_future().then(lambda future: future.value()[0])

    hooks = [(fail, KeyError, "in a hook"),
             (lambda bucket: fail(bucket, AttributeError), RuntimeError, "has raised AttributeError('in a hook')")]
    if m.size > 1:
        hooks += [(differ, RuntimeError, "rank 1"), (lambda bucket: differ(bucket).then(lambda more: more.value()),
                                                     RuntimeError, "rank 1")]  # fmt: skip
    for hook, kind, text in hooks:
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), process_group=m.group)
        model.register_comm_hook(None, lambda _, bucket, hook=hook: hook(bucket))
        raises(kind, model(torch.ones(1, 2)).sum().backward, text)


def check_nested(m):
    """Callbacks that wait for other futures: here and there at once, elsewhere when others are in flight again."""
    def nested(at):
        def callback(future):
            more = torch.full((2,), float(at))
            return dist.all_reduce(more, group=m.group, async_op=True).get_future().wait()[0] + future.value()[0]

        return callback

    def doubled(future):
        twice = future.value() * 2
        dist.all_reduce(twice, group=m.group)
        return twice

    works = [dist.all_reduce(torch.full((2,), 100.0 * at), group=m.group, async_op=True) for at in range(5)]
    futures = {}
    for at in range(5):
        futures[at] = works[at].get_future().then(nested(at)).then(doubled)
        if m.rank % 2:
            works[at].wait()  # so that the callback of the next one comes at once
    for at in range(5):
        same(futures[at].wait(), torch.full((2,), 202.0 * at * m.size**2), f"nested {at}")

    def leave(_):
        raise SystemExit(3)

    left = dist.all_reduce(torch.ones(2), group=m.group, async_op=True).get_future().then(leave)
    raises(RuntimeError, left.wait, "SystemExit(3)")
    done = dist.all_reduce(torch.ones(2), group=m.group, async_op=True).get_future()
    same(done.wait()[0], torch.full((2,), float(m.size)), "after SystemExit")


def check_subgroups(size):
    """Groups that overlap, each made by its members; and more of them than a rank can be in sets."""
    for ranks in ([0], list(range(size)), list(range(1, size)), list(range(0, size, 2))):
        if not ranks:
            continue
        group = dist.new_group(ranks)
        if dist.get_rank() in ranks:
            for check in CHECKS:
                check(Members(ranks, group))
    if size > 1:  # groups that share a set, and a tag
        groups = [dist.new_group([0, 1]) for _ in range(2)]
        got = [torch.empty(1), torch.empty(1)]
        if dist.get_rank() == 0:
            works = [dist.isend(torch.full((1,), float(i)), 1, group=groups[i]) for i in (0, 1)]
        else:
            works = [dist.irecv(got[i], 0, group=groups[i]) for i in (1, 0) if dist.get_rank() == 1]
        for work in works:
            work.wait()
        assert dist.get_rank() != 1 or [part.item() for part in got] == [0, 1], got
    for _ in range(40):
        group = dist.new_group([0, size - 1] if size > 1 else [0])
    if dist.get_rank() in (0, size - 1):
        dist.barrier(group=group)


def check_one_of_several(store, rank, size):
    """The backend of main memory beside another one for GPUs; gloo plays it, since nccl wants a GPU to be made."""
    if not PYTHON_BACKENDS:
        return
    dist.init_process_group("cpu:halay,cuda:gloo", store=store, rank=rank, world_size=size)
    world = Members(list(range(size)), None)
    assert isinstance(dist.group.WORLD._get_backend(torch.device("cpu")), DeviceGroup)
    for check in (check_reductions, check_scattered, check_lists, check_all_to_all, check_objects, check_pipeline,
                  check_ddp, check_compression):  # fmt: skip
        check(world)
    dist.destroy_process_group()


CHECKS = [
    check_reductions,
    check_scattered,
    check_lists,
    check_all_to_all,
    check_objects,
    check_works,
    check_points,
    check_pipeline,
    check_errors,
    check_nested,
]


def check_world(rank, size, path):
    store = dist.FileStore(path, size)
    dist.init_process_group("halay", store=store, rank=rank, world_size=size)
    assert dist.get_backend() == "halay" and dist.get_rank() == rank and dist.get_world_size() == size
    world = Members(list(range(size)), None)
    for check in CHECKS:
        check(world)
    check_ddp(world)
    check_compression(world)
    check_hooks(world)
    check_failing_hook(world)
    check_subgroups(size)
    dist.destroy_process_group()
    check_one_of_several(dist.PrefixStore("several", store), rank, size)
    if rank == 0:
        print(f"{size} ranks: as torch has it", flush=True)


def main():
    """The last rank alone while the others are a world of their own, then all of them."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for ranks in ([size - 1], list(range(size - 1)), list(range(size))):
        if rank in ranks:
            check_world(ranks.index(rank), len(ranks), f"{sys.argv[1]}.{ranks}")


if __name__ == "__main__":
    main()
