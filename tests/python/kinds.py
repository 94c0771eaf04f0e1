# SPDX-License-Identifier: Apache-2.0
"""
Every call with every kind of array and tensor, on two ranks: it gives what the elements say, or is refused on both with
a TypeError or a ValueError (through torch.distributed also a RuntimeError of torch's). kinds.py numpy | torch
"""

import array
import ctypes
import os
import sys
import tempfile
import weakref

import checks
import numpy

import halay

RANK = SIZE = None
REFUSALS = (TypeError, ValueError)


def numbers(rank):
    return numpy.arange(1.0, 5.0, dtype="float32") + rank


# ---- kinds: what a rank gives ----

def masked(rank):
    return numpy.ma.array(numbers(rank), mask=[False, True, False, False])


def read_only(rank):
    made = numbers(rank)
    made.flags.writeable = False
    return made


def mapped(rank):
    made = numpy.memmap(tempfile.TemporaryFile(), "float32", "w+", shape=(4,))
    made[:] = numbers(rank)
    return made


ARRAYS = {
    "plain": numbers,
    "float64": lambda r: numbers(r).astype("float64"),
    "float16": lambda r: numbers(r).astype("float16"),
    "int64": lambda r: numbers(r).astype("int64"),
    "uint8": lambda r: numbers(r).astype("uint8"),
    "bool": lambda r: numbers(r) > 2,
    "uint32": lambda r: numbers(r).astype("uint32"),
    "complex": lambda r: numbers(r).astype("complex64"),
    "long double": lambda r: numbers(r).astype("longdouble"),
    "dates": lambda r: numbers(r).astype("int64").astype("datetime64[s]"),
    "text": lambda r: numbers(r).astype("U5"),
    "objects": lambda r: numbers(r).astype(object),
    "records": lambda r: numpy.zeros(4, [("x", "f4"), ("y", "i4")]),
    "other byte order": lambda r: numbers(r).astype(">f4"),
    "other byte order, integers": lambda r: numbers(r).astype(">i8"),
    "Fortran order": lambda r: numpy.asfortranarray(numbers(r).reshape(2, 2)),
    "reversed": lambda r: numbers(r)[::-1],
    "every second": lambda r: numpy.repeat(numbers(r), 2)[::2],
    "expanded": lambda r: numpy.broadcast_to(numpy.float32(r + 1), (4,)),
    "read-only": read_only,
    "matrix": lambda r: numpy.matrix(numbers(r).reshape(2, 2)),
    "masked": masked,
    "mapped": mapped,
    "scalar": lambda r: numpy.float32(r + 1),
    "integer scalar": lambda r: numpy.int64(r + 1),
    "no dimensions": lambda r: numpy.array(r + 1.0),
    "empty": lambda r: numpy.zeros((0, 3), "float32"),
    "many dimensions": lambda r: numbers(r).reshape(4, *[1] * 12),
    "bytearray": lambda r: bytearray(numbers(r).astype("uint8")),
    "bytes": lambda r: bytes(numbers(r).astype("uint8")),
    "array.array": lambda r: array.array("d", numbers(r)),
    "ctypes": lambda r: (ctypes.c_float * 4)(*numbers(r)),
    "memoryview with gaps": lambda r: memoryview(bytearray(8))[::2],
    "list": lambda r: list(numbers(r)),
    "float": float,
    "None": lambda r: None,
    "str": lambda r: "1234",
    "range": lambda r: range(4),
}
MUST_WORK = {"plain", "float64", "float16", "int64", "uint8", "bool", "matrix", "mapped", "no dimensions", "empty",
             "scalar", "integer scalar", "read-only", "bytearray", "bytes", "array.array", "ctypes"}  # fmt: skip


def elements_of(x):
    return numpy.frombuffer(x, "uint8") if isinstance(x, bytes) else numpy.asarray(x)


def together(a, b):
    return a | b if a.dtype == bool else a + b


def part(rows, rank):
    """This rank's rows, or those that are for it."""
    return numpy.array_split(rows, 2)[rank]


# What each call gives, of what both ranks gave; None where it gives nothing here.
RESULTS = {
    "sum": lambda a, b: together(a, b),
    "first": lambda a, b: a,
    "rows": lambda a, b: numpy.concatenate([a, b]),
    "part": lambda a, b: part(together(a, b), RANK),
    "exchanged": lambda a, b: numpy.concatenate([part(a, RANK), part(b, RANK)]),
    "root's sum": lambda a, b: together(a, b) if RANK == 0 else None,
    "root's rows": lambda a, b: numpy.concatenate([a, b]) if RANK == 0 else None,
    "dealt": lambda a, b: part(a, RANK),
    "average": lambda a, b: (together(a, b) / 2).astype(a.dtype),
}


def context_calls(ctx):
    def message(x):
        if RANK == 0:
            ctx.send(x, 1)
            return x
        return ctx.receive(x, 0)

    return {
        "allreduce": ("sum", lambda x: ctx.allreduce(x, name="a")),
        "allreduce in place": ("sum", lambda x: ctx.allreduce(x, x, name="b")),
        "allreduce_group": ("sum", lambda x: ctx.allreduce_group([x, numpy.ones(1)], name="c")[0]),
        "allreduce_group in place": ("sum", lambda x: (lambda both: ctx.allreduce_group(both, both, name="d")[0])([x])),
        "register": ("sum", lambda x: ctx.register(halay.Collective.ALLREDUCE, x, name="e").submit().wait()),
        "broadcast": ("first", lambda x: ctx.broadcast(x, name="f")),
        "allgather": ("rows", lambda x: ctx.allgather(x, name="g")),
        "reduce_scatter": ("part", lambda x: ctx.reduce_scatter(x, name="h")),
        "reduce_scatter in place": ("part", lambda x: ctx.reduce_scatter(x, x, name="n")),
        "alltoall": ("exchanged", lambda x: ctx.alltoall(x, name="i")),
        "alltoall in place": ("exchanged", lambda x: ctx.alltoall(x, x, name="o")),
        "reduce": ("root's sum", lambda x: ctx.reduce(x, name="j")),
        "reduce in place": ("root's sum", lambda x: ctx.reduce(x, out=x, name="k")),
        "gather": ("root's rows", lambda x: ctx.gather(x, name="l")),
        "scatter": ("dealt", lambda x: ctx.scatter(x, name="m")),
    }, {"send, receive": ("first", message)}


def try_all(calls, kinds, elements, refusals=REFUSALS):
    """How each call ends with each kind, as a list of words."""
    ended = []
    for what, (result, call) in calls.items():
        for kind, make in kinds.items():
            about, both = f"{what} of {kind}", [elements(make(rank)) for rank in range(2)]
            try:
                got = call(make(RANK))
            except refusals as refused:
                how = next((one.__name__ for one in REFUSALS if isinstance(refused, one)), "")
                ended.append(f"{about}: {how if refusals is REFUSALS else 'refused'}")
                continue
            wanted = RESULTS[result](*both)
            if wanted is not None:
                got = elements(got)
                assert got.shape == wanted.shape and (got == wanted).all(), (about, got, wanted)
            ended.append(f"{about}: done")
    return ended


def compare(ctx, ended):
    """Both ranks have ended alike."""
    text = numpy.frombuffer("\n".join(ended).encode(), "uint8").copy()
    both = ctx.allgather_async(text, name="ended")
    whole = bytes(both.wait()).decode()
    first, second = whole.encode()[:both.rows[0]].decode(), whole.encode()[both.rows[0]:].decode()
    differing = [pair for pair in zip(first.split("\n"), second.split("\n")) if pair[0] != pair[1]]
    assert not differing and len(first) == len(second), differing
    return set(ended)


def arrays(ctx):
    calls, messages = context_calls(ctx)
    ended = compare(ctx, try_all(calls, ARRAYS, elements_of))
    # A message has two ends: what only one of them can be is left out.
    both = MUST_WORK - {"scalar", "integer scalar", "read-only", "bytes"} | {"masked", "objects", "list", "reversed"}
    compare(ctx, try_all(messages, {kind: ARRAYS[kind] for kind in sorted(both)}, elements_of))
    refused = [kind for kind in MUST_WORK if f"allreduce of {kind}: done" not in ended]
    assert not refused, refused
    for kind in ("masked", "objects", "other byte order", "dates", "complex", "list"):
        assert f"allreduce of {kind}: TypeError" in ended, kind
    half = ctx.allreduce(numpy.float64(0.5), name="loss")
    assert float(half) == 1


def other_memory(ctx):
    """A tensor that gets other memory in flight keeps the old until it has ended: the engine writes there."""
    import torch
    import torch.distributed as dist

    def own(x):
        request = ctx.allreduce_async(x, x, name="other memory")
        return request.wait

    def registered(x):
        tensor = ctx.register(halay.Collective.ALLREDUCE, x, x, name="other memory, registered")
        return lambda: tensor.submit().wait()

    for begin in (own, registered, lambda x: dist.all_reduce(x, async_op=True).wait):
        for change in (lambda x: x.set_(torch.zeros(1)), lambda x: setattr(x, "data", torch.zeros(1))):
            array = numbers(RANK)
            x, kept = torch.from_numpy(array), weakref.ref(array)
            end = begin(x)
            change(x)
            memory = array.ctypes.data
            del array
            assert kept() is not None and kept().ctypes.data == memory, "freed in flight"
            end()
            assert (kept() is None) or (kept() == numbers(0) + numbers(1)).all(), kept()
            assert x.tolist() == [0], x
            del end  # a registered tensor's name is free again


def tensors(ctx):
    import torch
    import torch.distributed as dist

    import halay.distributed
    import halay.torch as hvd

    class Own(torch.Tensor):
        pass

    class Wrapped(torch.Tensor):
        """Of other tensors: it has no memory of its own."""

        @staticmethod
        def __new__(cls, given):
            return torch.Tensor._make_wrapper_subclass(cls, given.shape, dtype=given.dtype)

        @classmethod
        def __torch_dispatch__(cls, function, kinds, given=(), named=None):
            made = function(*(torch.zeros(4) if isinstance(one, cls) else one for one in given), **named or {})
            return cls(made) if isinstance(made, torch.Tensor) else made

    def without(x, elements_left):
        """Its storage has been freed, or shrunk."""
        x.storage().resize_(elements_left)
        x.lacks_memory = True
        return x

    def values(rank):
        return torch.arange(1.0, 5.0) + rank

    kinds = {
        "plain": values,
        "leaf": lambda r: values(r).requires_grad_(),
        "parameter": lambda r: torch.nn.Parameter(values(r)),
        "of a graph": lambda r: values(r).requires_grad_() * 1,
        "subclass": lambda r: values(r).as_subclass(Own),
        "bfloat16": lambda r: values(r).bfloat16(),
        "int64": lambda r: values(r).long(),
        "int8": lambda r: values(r).to(torch.int8),
        "uint8": lambda r: values(r).to(torch.uint8),
        "bool": lambda r: values(r) > 2,
        "complex": lambda r: torch.complex(values(r), values(r)),
        "conjugated": lambda r: torch.complex(values(r), values(r)).conj(),
        "negated": lambda r: torch.complex(torch.zeros(4), values(r)).conj().imag,
        "negated, one": lambda r: torch.complex(torch.zeros(1, 1), values(r)[:1, None]).conj().imag,
        "transposed": lambda r: values(r).reshape(2, 2).t(),
        "expanded": lambda r: values(r)[:1].expand(4),
        "every second": lambda r: values(r).repeat_interleave(2)[::2],
        "channels last": lambda r: torch.stack([values(r), values(r)]).reshape(2, 2, 2, 1).to(
            memory_format=torch.channels_last),
        "no dimensions": lambda r: torch.tensor(r + 1.0),
        "empty": lambda r: torch.zeros(0, 3),
        "sparse": lambda r: values(r).to_sparse(),
        "compressed": lambda r: values(r).reshape(2, 2).to_sparse_csr(),
        "quantized": lambda r: torch.quantize_per_tensor(values(r), 1.0, 0, torch.quint8),
        "meta": lambda r: torch.empty(4, device="meta"),
        "no memory": lambda r: torch._efficientzerotensor((4,)),
        "wrapper": lambda r: Wrapped(values(r)),
        "freed": lambda r: without(values(r), 0),
        "shrunk": lambda r: without(values(r), 2),
        "named": lambda r: values(r).rename("N"),
        "nested": lambda r: torch.nested.nested_tensor([values(r), values(r)[:2]]),
        "array": numbers,
        "list": lambda r: list(numbers(r)),
        "float": float,
        "None": lambda r: None,
    }
    if torch.backends.mkldnn.is_available():
        kinds["mkldnn"] = lambda r: values(r).to_mkldnn()

    def elements(x):
        """In NumPy, of kinds that have elements; what has none must be refused."""
        if not isinstance(x, torch.Tensor):
            return numpy.array("none")
        if x.device.type == "meta" or x.is_quantized or getattr(x, "is_nested", False):
            return numpy.array("none")
        if isinstance(x, Wrapped) or hasattr(x, "lacks_memory"):
            return numpy.array("none")
        x = x.detach().to_dense() if x.layout != torch.strided else x.detach()
        x = x.as_subclass(torch.Tensor).resolve_conj().resolve_neg().clone()
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy()

    def group(call):
        return lambda x: call([x, torch.ones(1)])[0]

    def parameters(x):
        hvd.broadcast_parameters({"x": x, "y": torch.ones(1)} if isinstance(x, torch.Tensor) else [x, 1][1], 0)
        return x

    horovod = {
        "allreduce": ("sum", lambda x: hvd.allreduce(x, op=hvd.Sum)),
        "allreduce_": ("sum", lambda x: hvd.allreduce_(x, op=hvd.Sum)),
        "allreduce, average": ("average", lambda x: hvd.allreduce(x)),
        "allreduce, fp16": ("sum", lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16)),
        "allreduce_async": ("sum", lambda x: hvd.synchronize(hvd.allreduce_async(x, op=hvd.Sum))),
        "grouped_allreduce": ("sum", group(lambda both: hvd.grouped_allreduce(both, op=hvd.Sum))),
        "grouped_allreduce_": ("sum", group(lambda both: hvd.grouped_allreduce_(both, op=hvd.Sum))),
        "grouped_allreduce, average": ("average", group(hvd.grouped_allreduce)),
        "allgather": ("rows", hvd.allgather),
        "grouped_allgather": ("rows", lambda x: hvd.grouped_allgather([x, torch.ones(1)])[0]),
        "broadcast": ("first", lambda x: hvd.broadcast(x, 0)),
        "broadcast_": ("first", lambda x: hvd.broadcast_(x, 0)),
        "broadcast_parameters": ("first", parameters),
        "alltoall": ("exchanged", hvd.alltoall),
        "reducescatter": ("part", lambda x: hvd.reducescatter(x, op=hvd.Sum)),
        "grouped_reducescatter": ("part", lambda x: hvd.grouped_reducescatter([x, torch.ones(2)], op=hvd.Sum)[0]),
    }
    own = {kind: make for kind, make in kinds.items() if isinstance(make(0), torch.Tensor)}
    ended = compare(ctx, try_all(context_calls(ctx)[0], own, elements))
    for kind in ("wrapper", "freed", "shrunk"):
        assert f"allreduce of {kind}: TypeError" in ended, kind
    hvd.init()
    ended = compare(ctx, try_all(horovod, kinds, elements))
    for kind in ("plain", "leaf", "parameter", "of a graph", "bfloat16", "int64", "bool", "no dimensions", "empty"):
        assert f"allreduce of {kind}: done" in ended, kind
    hvd.shutdown()

    def rows(x):
        made = [torch.zeros(x.shape, dtype=x.dtype) for _ in range(2)]
        dist.all_gather(made, x)
        return torch.cat(made)

    def single(x):
        made = torch.zeros((2 * x.shape[0], *x.shape[1:]), dtype=x.dtype)
        getattr(dist, "all_gather_into_tensor", dist._all_gather_base)(made, x)
        return made

    def scattered(x):
        parts = list(x.chunk(2))
        made = torch.zeros(parts[0].shape, dtype=x.dtype)
        dist.reduce_scatter(made, parts)
        return made

    def exchanged(x):
        parts, made = list(x.chunk(2)), [torch.zeros(x.chunk(2)[0].shape, dtype=x.dtype) for _ in range(2)]
        dist.all_to_all(made, parts)
        return torch.cat(made)

    def exchanged_single(x):
        made = torch.zeros(x.shape, dtype=x.dtype)
        dist.all_to_all_single(made, x)
        return made

    def gathered(x):
        if not x.dim():
            raise ValueError("what cannot be joined here")
        made = [torch.zeros(x.shape, dtype=x.dtype) for _ in range(2)] if RANK == 0 else None
        dist.gather(x, made, 0)
        return torch.cat(made) if made else None

    def dealt(x):
        parts = list(x.chunk(2))
        made = torch.zeros(parts[0].shape, dtype=x.dtype)
        dist.scatter(made, parts if RANK == 0 else None, 0)
        return made

    def message(x):
        dist.send(x, 1) if RANK == 0 else dist.recv(x, 0)
        return x

    def in_place(call):
        return lambda x: (call(x), x)[1]

    torch_calls = {
        "all_reduce": ("sum", in_place(dist.all_reduce)),
        "all_reduce_coalesced": ("sum", in_place(lambda x: dist.all_reduce_coalesced([x]))),
        "reduce": ("root's sum", in_place(lambda x: dist.reduce(x, 0))),
        "broadcast": ("first", in_place(lambda x: dist.broadcast(x, 0))),
        "all_gather": ("rows", rows),
        "all_gather_into_tensor": ("rows", single),
        "reduce_scatter": ("part", scattered),
        "all_to_all": ("exchanged", exchanged),
        "all_to_all_single": ("exchanged", exchanged_single),
        "gather": ("root's rows", gathered),
    }
    two_ends = {"send, recv": ("first", message), "scatter": ("dealt", dealt)}
    store = dist.FileStore(os.environ["KINDS_STORE"], 2)
    dist.init_process_group("halay", store=store, rank=RANK, world_size=2)
    refusals = (*REFUSALS, RuntimeError, AttributeError, IndexError)  # torch's own, of what is no tensor
    if torch.__version__ >= "2":
        del kinds["wrapper"]  # torch gives the backend what the class makes of it
    ended = compare(ctx, try_all(torch_calls, kinds, elements, refusals))
    for kind in ("plain", "bfloat16", "negated", "transposed", "every second", "channels last", "sparse"):
        assert f"all_reduce of {kind}: done" in ended, kind
    movable = {kind: kinds[kind] for kind in ("plain", "leaf", "transposed", "every second", "channels last", "negated",
                                              "bool", "complex", "of a graph", "bfloat16")}
    compare(ctx, try_all(two_ends, movable, elements, refusals))
    uneven, part = [torch.zeros(3), torch.zeros(1)], torch.zeros(2)
    for call in (lambda: dist.all_gather(uneven, torch.ones(2)), lambda: dist.all_to_all(uneven, [torch.ones(2)] * 2),
                 lambda: dist.scatter(part, [torch.ones(1)] * 2 if RANK == 0 else None)):
        checks.raises(RuntimeError, call, "the ranks give")
    two = [torch.zeros(4, dtype=torch.int32), torch.zeros(4)]
    for call in (lambda: dist.all_gather(two, torch.ones(4)), lambda: dist.all_to_all(two, [torch.ones(4)] * 2),
                 lambda: dist.reduce_scatter(torch.zeros(4), two)):
        checks.raises((ValueError, RuntimeError), call, "type")
    other_memory(ctx)
    dist.destroy_process_group()


with halay.Context(settings={"HALAY_STALL_SHUTDOWN_TIME": 60}) as context:
    RANK, SIZE = context.rank, context.size
    {"numpy": arrays, "torch": tensors}[sys.argv[1]](context)
