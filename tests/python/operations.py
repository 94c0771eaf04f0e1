# SPDX-License-Identifier: Apache-2.0
"""Every operation with every type and reduction that takes it, compared with NumPy. Run on several ranks."""

import array

import numpy

import halay

INTEGERS = ["int64", "int32", "int16", "int8", "uint16", "uint8"]
FLOATS = ["float64", "float32", "float16"]
BITS = ("bit-and", "bit-or")
REDUCTIONS = {
    "sum": numpy.add,
    "average": numpy.add,
    "min": numpy.minimum,
    "max": numpy.maximum,
    "product": numpy.multiply,
    "bit-and": numpy.bitwise_and,
    "bit-or": numpy.bitwise_or,
}


def values(rank, shape, dtype):
    """Small whole numbers, which every type adds and multiplies without rounding."""
    count = int(numpy.prod(shape))
    numbers = (numpy.arange(count) * 7 + rank * 3) % 3 + 1
    return (numbers % 2 if dtype == "bool" else numbers).astype(dtype).reshape(shape)


def reduced(size, shape, dtype, reduction):
    parts = [values(rank, shape, dtype) for rank in range(size)]
    if dtype == "bool" and reduction in ("sum", "product"):
        function = numpy.logical_or if reduction == "sum" else numpy.logical_and
    else:
        function = REDUCTIONS[reduction]
    total = parts[0]
    for part in parts[1:]:
        total = function(total, part, dtype=None if dtype == "bool" else dtype)
    return total / numpy.array(size, dtype) if reduction == "average" else total


def takes(dtype, reduction):
    if dtype in FLOATS:
        return reduction not in BITS
    return reduction != "average"


def same(got, expected, what):
    assert got.dtype == expected.dtype, (what, got.dtype, expected.dtype)
    assert got.shape == expected.shape, (what, got.shape, expected.shape)
    tolerance = 2e-3 if got.dtype == numpy.float16 else 1e-6
    if got.dtype.kind == "f":
        assert numpy.allclose(got, expected, rtol=tolerance), (what, got, expected)
    else:
        assert (got == expected).all(), (what, got, expected)


def check_reductions(ctx):
    """All-reduce, in place and not, and reduce-scatter."""
    size, rank = ctx.size, ctx.rank
    for dtype in INTEGERS + FLOATS + ["bool"]:
        for reduction in REDUCTIONS:
            if not takes(dtype, reduction):
                continue
            for shape in ((), (0,), (1,), (7, 3), (1000,)):
                what = (dtype, reduction, shape)
                mine = values(rank, shape, dtype)
                expected = reduced(size, shape, dtype, reduction)
                got = ctx.allreduce(mine, name=f"{dtype} {reduction}", reduction=reduction)
                same(got, expected, what)
                same(mine, values(rank, shape, dtype), what)
                assert ctx.allreduce(mine, mine, name=f"{dtype} {reduction}", reduction=reduction) is mine
                same(mine, expected, what)
            rows = values(rank, (size + 1, 5), dtype)
            got = ctx.reduce_scatter(rows, name="scattered", reduction=reduction)
            first = rank + (rank > 0)
            same(got, reduced(size, (size + 1, 5), dtype, reduction)[first : first + len(got)], "reduce-scatter")
            assert len(got) == 1 + (rank == 0)
    splits = [(3 * r) % 4 for r in range(size)]
    first = sum(splits[:rank])
    got = ctx.reduce_scatter(values(rank, (sum(splits), 2), "int32"), splits=splits)
    same(got, reduced(size, (sum(splits), 2), "int32", "sum")[first : first + splits[rank]], "splits")


def check_moves(ctx):
    """Broadcast, all-gather, all-to-all: what comes is what was given."""
    size, rank = ctx.size, ctx.rank
    for dtype in INTEGERS + FLOATS + ["bool"]:
        for root in range(size):
            data = values(rank, (4, 3), dtype)
            assert ctx.broadcast(data, root, name="broadcast") is data
            same(data, values(root, (4, 3), dtype), "broadcast")
        for ragged in (0, 3):  # the same from each rank, more from the later ones
            mine = values(rank, (2 + ragged * rank, 3), dtype)
            request = ctx.allgather_async(mine, name="gathered")
            parts = [values(r, (2 + ragged * r, 3), dtype) for r in range(size)]
            same(request.wait(), numpy.concatenate(parts), "all-gather")
            assert request.rows == [len(part) for part in parts]
        mine = values(rank, (2 * size, 3), dtype)
        parts = [values(r, (2 * size, 3), dtype)[2 * rank : 2 * rank + 2] for r in range(size)]
        same(ctx.alltoall(mine, name="exchanged"), numpy.concatenate(parts), "all-to-all")
        splits = [r + rank for r in range(size)]
        firsts = [sum(r + other for r in range(rank)) for other in range(size)]
        alls = [values(other, (sum(r + other for r in range(size)), 3), dtype) for other in range(size)]
        request = ctx.alltoall_async(values(rank, (sum(splits), 3), dtype), splits=splits, name="exchanged")
        parts = [alls[other][firsts[other] : firsts[other] + rank + other] for other in range(size)]
        same(request.wait(), numpy.concatenate(parts), "all-to-all with splits")
        assert request.rows == [rank + other for other in range(size)]


def check_rooted(ctx):
    """Reduce, gather and scatter, for each root."""
    size, rank = ctx.size, ctx.rank
    for dtype in INTEGERS + FLOATS + ["bool"]:
        for root in range(size):
            mine = values(rank, (7, 3), dtype)
            got = ctx.reduce(mine, root, name="reduced", reduction="max")
            assert (got is None) == (rank != root)
            if got is not None:
                same(got, reduced(size, (7, 3), dtype, "max"), "reduce")
            same(mine, values(rank, (7, 3), dtype), "reduce: the data")
            assert ctx.reduce(mine, root, mine, name="reduced", reduction="max") is (mine if rank == root else None)
            same(mine, reduced(size, (7, 3), dtype, "max") if rank == root else values(rank, (7, 3), dtype), "in place")
            mine = values(rank, (rank + 1, 3), dtype)
            request = ctx.gather_async(mine, root, name="gathered")
            got = request.wait()
            assert request.rows == [r + 1 for r in range(size)] and (got is None) == (rank != root)
            if got is not None:
                same(got, numpy.concatenate([values(r, (r + 1, 3), dtype) for r in range(size)]), "gather")
            for splits in (None, [(3 * r) % 4 for r in range(size)]):
                rows = sum(splits) if splits else size + 1
                parts = splits or [1 + (r == 0) for r in range(size)]
                whole = values(root, (rows, 3), dtype)
                first = sum(parts[:rank])
                given = whole if rank == root else whole[:0]
                got = ctx.scatter(given, root, name="dealt out", splits=splits if rank == root else None)
                same(got, whole[first : first + parts[rank]], "scatter")
                room = numpy.zeros((5, 3), dtype)
                got = ctx.scatter(whole if rank == root else None, root, room, name="dealt out", splits=splits)
                assert got.base is room
                same(got, whole[first : first + parts[rank]], "scatter into room")


def check_outs(ctx):
    """Results go where the program wants them, if they fit."""
    size, rank = ctx.size, ctx.rank
    mine = values(rank, (rank + 1, 2), "int32")
    room = numpy.full((size * (size + 1) // 2 + 3, 2), -1, "int32")
    got = ctx.allgather(mine, room, name="room")
    assert got.base is room and len(got) == len(room) - 3 and (room[len(got) :] == -1).all()
    try:
        ctx.allreduce(numpy.zeros(3), numpy.zeros(2))
        raise SystemExit("a result was taken for one that is too small")
    except ValueError as failure:
        assert "24 bytes" in str(failure) and "16" in str(failure), failure
    try:
        ctx.allreduce(numpy.zeros(3), numpy.zeros(3, "int64"))
        raise SystemExit("a result was taken for one of another type")
    except ValueError as failure:
        assert "I64" in str(failure) and "F64" in str(failure), failure


def check_options(ctx):
    size, rank = ctx.size, ctx.rank
    ones = numpy.ones(10, "float32")
    same(ctx.allreduce(ones, prescale=2.0, postscale=0.5, name="scaled"), ones * size, "scales")
    for wire in ("f16", "bf16"):
        same(ctx.allreduce(ones, wire=wire), ones * size, wire)
    got = ctx.allreduce(ones, reduction="adasum")
    same(got, ones, "adasum")
    group = [values(rank, (3,), "float32"), values(rank, (2, 2), "int64")]
    for got, dtype, shape in zip(ctx.allreduce_group(group, name="group"), ("float32", "int64"), ((3,), (2, 2))):
        same(got, reduced(size, shape, dtype, "sum"), "group")
    ctx.allreduce_group(group, group, name="group")
    same(group[1], reduced(size, (2, 2), "int64", "sum"), "group in place")
    deep = values(rank, (2, 1, 1, 2, 1, 1, 1, 1, 1, 3), "int32")
    same(ctx.allreduce(deep), reduced(size, deep.shape, "int32", "sum"), "ten dimensions")
    same(ctx.allgather(deep), numpy.concatenate([values(r, deep.shape, "int32") for r in range(size)]), "ten, gathered")


def check_handles(ctx):
    data = numpy.ones(5, "float32")
    tensor = ctx.register(halay.Collective.ALLREDUCE, data, data, name="handle")
    for step in range(1, 4):
        data[:] = step
        assert tensor.submit().wait() is data
        same(data, numpy.full(5, step * ctx.size, "float32"), "handle")
    group = [numpy.ones(3, "float32"), numpy.ones(4, "int32")]
    same(ctx.register_group(group, group, name="registered group").submit().wait()[1],
         numpy.full(4, ctx.size, "int32"), "group")  # fmt: skip
    tensor.unregister()
    try:
        tensor.submit()
        raise SystemExit("a tensor was submitted after it was unregistered")
    except halay.ClosedError as failure:
        assert "'handle'" in str(failure)


def check_buffers(ctx):
    """What has the buffer protocol, and what is refused."""
    mine = array.array("d", [1, 2])
    assert ctx.allreduce(mine).tolist() == [ctx.size, 2 * ctx.size]
    data = bytearray([1, 2, 3])
    assert ctx.allreduce(data, data) is data and data[2] == 3 * ctx.size
    assert bytes(ctx.allgather(b"ab")) == b"ab" * ctx.size
    request = ctx.allreduce_async(data, data)
    try:
        data.append(1)
        assert request.poll(), "a buffer grew under a request"
    except BufferError:
        pass
    request.wait()
    frozen = numpy.zeros(3)
    frozen.flags.writeable = False
    for wrong, kind, text in (
        (numpy.zeros((4, 4))[:, 1], ValueError, "not contiguous"),
        (numpy.zeros(3, "complex64"), TypeError, "complex64"),
        (numpy.zeros(3, ">f4"), TypeError, ">f4"),
        (numpy.zeros(3, "uint32"), TypeError, "uint32"),
        ([1.0, 2.0], TypeError, "list"),
        (frozen, ValueError, "read-only"),
    ):
        try:
            ctx.allreduce(wrong, wrong)
            raise SystemExit(f"taken: {wrong!r}")
        except kind as failure:
            assert text in str(failure), (failure, text)


def check_messages(ctx):
    """Round the ring, by name and by tag."""
    size, rank = ctx.size, ctx.rank
    if size < 2:
        return
    for options in ({"name": "round"}, {}, {"tag": 7}):
        for dtype in ("float32", "int64"):
            sent = ctx.send_async(values(rank, (3, 4), dtype), (rank + 1) % size, **options)
            got = numpy.zeros((3, 4), dtype)
            assert ctx.receive(got, (rank - 1) % size, **options) is got
            same(got, values((rank - 1) % size, (3, 4), dtype), "message")
            sent.wait()
    check_registered_messages(ctx)
    check_any_rank(ctx)
    check_withdrawn_messages(ctx)


def check_registered_messages(ctx):
    size, rank = ctx.size, ctx.rank
    mine, got = numpy.zeros(3), numpy.zeros(3)
    tensors = [ctx.register_send(mine, (rank + 1) % size, name="kept"),
               ctx.register_receive(got, (rank - 1) % size, name="kept")]  # fmt: skip
    for step in range(5):
        mine[:] = 10 * rank + step
        for request in ctx.submit_many(tensors):
            request.wait()
        same(got, numpy.full(3, 10.0 * ((rank - 1) % size) + step), "registered message")
        assert request.peer == (rank - 1) % size, request.peer
    for tensor in tensors:
        tensor.unregister()


def check_any_rank(ctx):
    """Rank 0 hears all others, in any order, and who they are."""
    if ctx.rank:
        ctx.send(numpy.full(2, ctx.rank), 0, tag=3, timeout=60)
        return
    seen = set()
    for _ in range(ctx.size - 1):
        got = numpy.zeros(2, dtype="int64")
        request = ctx.receive_async(got, halay.ANY_RANK, tag=3)
        request.wait()
        assert (got == request.peer).all(), (got, request.peer)
        seen.add(request.peer)
    assert seen == set(range(1, ctx.size)), seen


def check_withdrawn_messages(ctx):
    """What is late or canceled ends here alone, and meets nothing later."""
    peer = ctx.rank ^ 1
    if peer < ctx.size:
        late = ctx.receive_async(numpy.zeros(1), peer, tag=4, timeout=0.05)
        canceled = ctx.receive_async(numpy.zeros(1), peer, name="canceled")
        anybody = ctx.receive_async(numpy.zeros(1), halay.ANY_RANK, tag=4, timeout=0.05)
        canceled.cancel()
        fails(halay.TimeoutError, f"the send of rank {peer} was not submitted", late.wait)
        fails(halay.TimeoutError, "a send of any rank was not submitted", anybody.wait)
        fails(halay.CanceledError, f"canceled by rank {ctx.rank}", canceled.wait)
        assert late.peer is None
    ctx.barrier()
    if peer < ctx.size:
        sent = ctx.send_async(numpy.full(1, 5.0 + ctx.rank), peer, tag=4)
        got = ctx.receive(numpy.zeros(1), peer, tag=4, timeout=60)
        assert got[0] == 5 + peer, got
        sent.wait()


def fails(kind, text, function):
    try:
        function()
    except kind as failure:
        assert text in str(failure), failure
        return
    raise SystemExit(f"no {kind.__name__}: {text}")


def check_memory(ctx):
    shared = ctx.alloc((3, 4), "f64")
    shared[:] = ctx.rank
    ctx.allreduce(shared, shared)
    same(shared, numpy.full((3, 4), ctx.size * (ctx.size - 1) / 2), "shared memory")
    row = shared[1]
    del shared
    assert (row == ctx.size * (ctx.size - 1) / 2).all()


def check_sets(ctx):
    everybody = ctx.process_sets()[0]
    assert everybody.ranks == tuple(range(ctx.size)) and everybody.rank == ctx.rank
    if ctx.size < 3:
        return
    ranks = [ctx.size - 1, 0]
    if ctx.rank in ranks:
        some = ctx.process_set(ranks)
        assert some.ranks == tuple(sorted(ranks)) and some.included and some.rank == sorted(ranks).index(ctx.rank)
        got = ctx.allreduce(numpy.full(3, ctx.rank), process_set=some, name="some")
        assert (got == ctx.size - 1).all()
        got = ctx.allgather(numpy.full(1, ctx.rank), process_set=some, name="gathered")
        assert got.tolist() == [0, ctx.size - 1]
    ctx.barrier()
    some = ctx.process_sets()[1]
    assert some.ranks == tuple(sorted(ranks)) and some.included == (ctx.rank in ranks)
    ctx.barrier()
    if some.included:
        some.remove()


def main():
    with halay.Context() as ctx:
        check_reductions(ctx)
        check_moves(ctx)
        check_rooted(ctx)
        check_outs(ctx)
        check_options(ctx)
        check_handles(ctx)
        check_buffers(ctx)
        check_messages(ctx)
        check_memory(ctx)
        check_sets(ctx)
        if ctx.rank > 0:
            assert (ctx.allreduce(numpy.ones(3), name="last") == ctx.size - 1).all()
        ctx.join()
        assert ctx.counters()["in_flight"] == 0


main()
