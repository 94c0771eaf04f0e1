# SPDX-License-Identifier: Apache-2.0
"""
What is raised: every rank learns of a mismatch, with tensor, ranks and both values; and of its own mistakes.

errors.py killed: the last rank is killed, and every other one gets an exception that names it.
errors.py met FOLDER: the ranks meet over a store of the program's own, which is a folder.
"""

import os
import signal
import sys
import threading
import time

import numpy
from checks import raises

import halay


def check_mismatches(ctx):
    """Rank 1 differs; what the text says of it depends on who is compared with whom."""
    odd = ctx.rank == 1
    zeros = numpy.zeros

    def collective():
        return ctx.broadcast(zeros(2), name="operation") if odd else ctx.allreduce(zeros(2), name="operation")

    for name, call, words in (
        ("shape", lambda: ctx.allreduce(zeros(3 + odd), name="shape"), ("[3]", "[4]")),
        ("type", lambda: ctx.allreduce(zeros(3, "int32" if odd else "int64"), name="type"), ("i32", "i64")),
        ("reduction", lambda: ctx.allreduce(zeros(3), name="reduction", reduction="min" if odd else "max"),
         ("min", "max")),
        ("root", lambda: ctx.broadcast(zeros(3), int(odd), name="root"), ("0", "1")),
        ("reduce's root", lambda: ctx.reduce(zeros(3), int(odd), name="reduce's root"), ("0", "1")),
        ("gather", lambda: ctx.gather(zeros((2, 3 + odd)), name="gather"), ("3", "4")),
        ("operation", collective, ("broadcast", "allreduce")),
        ("prescale", lambda: ctx.allreduce(zeros(3), name="prescale", prescale=2.5 + odd), ("2.5", "3.5")),
        ("columns", lambda: ctx.allgather(zeros((2, 3 + odd)), name="columns"), ("3", "4")),
    ):  # fmt: skip
        failure = raises(halay.MismatchError, call, f"'{name}'", "rank 1", *words)
        assert failure.status == halay.Status.MISMATCH and failure.tensor == name, (failure.status, failure.tensor)
        assert 1 in failure.ranks and len(failure.ranks) == 2, failure.ranks
    assert (ctx.allreduce(numpy.ones(3), name="shape") == ctx.size).all(), "the engine did not go on"


def check_own(ctx):
    """What one rank does wrong is told at once, to it alone."""
    if ctx.rank == 0:
        request = ctx.allreduce_async(numpy.ones(2), name="twice")
        failure = raises(halay.DuplicateError, lambda: ctx.allreduce(numpy.ones(2), name="twice"), "'twice'")
        assert failure.tensor == "twice"
        raises(TimeoutError, lambda: request.wait(0.01), "'twice'", "in flight")
        assert not request.poll() and request.error() is None
        raises(TimeoutError, lambda: halay.wait_all([request], 0.01), "1 requests")
        raises(TimeoutError, lambda: halay.wait_any([request], 0.01), "1 requests")
        raises(halay.ArgumentError, lambda: ctx.allreduce(numpy.ones(2), name=""))
        raises(halay.ArgumentError, lambda: ctx.allreduce(numpy.ones(2), name="x" * 256))
        raises(ValueError, lambda: ctx.allreduce_async(numpy.ones(2), name="x\0y"), "NUL")
        raises(TypeError, lambda: ctx.allreduce(numpy.ones(2), name=3), "str", "int")
        raises(ValueError, lambda: ctx.alloc(3, "float32"), "'float32'", "f32")
        raises(ValueError, lambda: ctx.alloc(3, "bf16"), "torch")
        raises(ValueError, lambda: ctx.alloc(3, kind="cupy"), "'cupy'", "numpy")
        raises(halay.ArgumentError, lambda: ctx.broadcast(numpy.ones(2), 99, name="root"), "root 99 is not a rank",
               f"has {ctx.size}")
        raises(halay.UnsupportedError, lambda: ctx.allreduce(numpy.ones(2, "int32"), name="a", reduction="average"),
               "average", "i32")
        raises(TypeError, lambda: ctx.allreduce(numpy.ones(2), op="sum"), "allreduce", "'op'", "reduction")
        raises(TypeError, lambda: ctx.barrier(op="sum"), "barrier", "'op'")
        raises(halay.ArgumentError, lambda: ctx.allreduce_group([numpy.ones(2), numpy.ones(2, "int32")], name="group",
               reduction="average"), "'group'", "member 1", "average", "i32")
        raises(TypeError, lambda: ctx.broadcast(numpy.ones(2), "0"), "root", "str")
        raises(ValueError, lambda: ctx.allreduce(numpy.ones(2), name="b", reduction="mean"), "'mean'", "average")
        raises(ValueError, lambda: ctx.alltoall(numpy.ones(2), splits=[1], name="c"), "1 splits")
        raises(ValueError, lambda: ctx.alltoall(numpy.ones(2), splits=[-1] * ctx.size, name="c"), "fewer than 0")
        raises(ValueError, lambda: ctx.allreduce(numpy.ones(2), splits=[1] * ctx.size, name="c"), "reduce-scatter")
        raises(ValueError, lambda: ctx.gather(numpy.ones(2), 1, splits=[1] * ctx.size, name="c"), "a scatter")
        raises(ValueError, lambda: ctx.scatter(None, 1, name="c"), "neither data nor out")
        raises(ValueError, lambda: ctx.scatter(None, 0, numpy.ones(2), name="c"), "no data")
        few = [2] + [0] * (ctx.size - 1)
        raises(halay.ArgumentError, lambda: ctx.scatter(numpy.ones(3), splits=few, name="c"), "rank 0", "2 rows", "3")
        raises(ValueError, lambda: ctx.broadcast(numpy.ones(2), 1 << 32, name="root"), "root is 4294967296")
        raises(ValueError, lambda: ctx.process_set([0, 1 << 32]), "a rank is 4294967296")
        raises(ValueError, lambda: ctx.allgather(numpy.float64(1), name="d"), "rows")
    ctx.barrier()
    assert (ctx.allreduce(numpy.ones(2), name="months", timeout=1e9) == ctx.size).all()
    if ctx.rank != 0:
        request = ctx.allreduce_async(numpy.ones(2), name="twice")
    assert (request.wait() == ctx.size).all() and (request.wait() == ctx.size).all()


def check_closed():
    ctx = halay.Context()
    request = ctx.allreduce_async(numpy.ones(2), name="open")
    request.wait()
    late = ctx.allreduce_async(numpy.ones(2), name=f"of rank {ctx.rank} alone")
    told = []
    late.add_done_callback(told.append)
    ctx.barrier()  # nobody is closed before all have submitted
    ctx.close()
    ctx.close()
    assert (request.wait() == ctx.size).all(), "what had ended is lost"
    failure = raises((halay.ClosedError, halay.PeerError), late.wait)  # another rank may have closed before this one
    assert failure.tensor == late.name and told == [late]
    raises(halay.ClosedError, lambda: ctx.allreduce(numpy.ones(2)), "closed")
    raises(halay.ClosedError, lambda: ctx.alloc(3), "closed")
    raises(halay.ConfigError, lambda: halay.Context(transport="smoke"), "smoke")
    raises(ValueError, lambda: halay.Context(unique_id=b"short", rank=0, size=1), "256 bytes", "5")
    raises(TypeError, lambda: halay.Context(unique_id="id", rank=0, size=1), "str")
    raises(ValueError, lambda: halay.Context(rank=0, size=2), "unique_id")


def withdrawn(ctx):
    """By one rank, before the last one has come; and by a time-out, which begins when all others are there."""
    last = ctx.size - 1
    ones = numpy.ones(2)
    if ctx.rank != last:
        request = ctx.allreduce_async(ones, name="canceled")
        late = ctx.allreduce_async(ones, name="late") if ctx.rank else None
        ctx.barrier("others are there")
        if ctx.rank == 0:
            late = ctx.allreduce_async(ones, name="late", timeout=0.05)
            request.cancel()
        raises(halay.TimeoutError, late.wait, "'late'", f"rank {last}")
        raises(halay.CanceledError, request.wait, "'canceled'", "rank 0")
        ctx.barrier("over")
    else:
        ctx.barrier("others are there")
        ctx.barrier("over")
        raises(halay.CanceledError, lambda: ctx.allreduce(ones, name="canceled"), "'canceled'")
        raises(halay.TimeoutError, lambda: ctx.allreduce(ones, name="late"), "'late'")
    for name in ("canceled", "late"):
        assert (ctx.allreduce(ones, name=name) == ctx.size).all()


def aborted():
    """By one thread while another waits, and a new start after it."""
    ctx = halay.Context()
    last = ctx.size - 1
    request = ctx.allreduce_async(numpy.ones(2), name=f"of {ctx.rank} alone")
    ctx.barrier()
    passed = numpy.ones(1)  # An abort overtakes what is on its way: the last rank has to know that nobody waits there.
    sent = ctx.send_async(passed, last) if ctx.rank != last else None
    if ctx.rank == last:
        for rank in range(last):
            ctx.receive(passed, rank)
        threading.Thread(target=ctx.abort, args=("no more",)).start()
    failure = raises(halay.CanceledError if ctx.rank == last else halay.PeerError, request.wait, "aborted: no more")
    assert ctx.rank == last or failure.ranks == (last,), failure.ranks
    ctx.close()
    del sent
    with halay.Context(settings={"HALAY_SPIN_US": 0}) as ctx:
        assert (ctx.allreduce(numpy.ones(2)) == ctx.size).all()
    raises(halay.ConfigError, lambda: halay.Context(settings={"HALAY_SPIN": 0}), "HALAY_SPIN")


def met():
    """Over a store of the program's own: a folder."""
    folder, rank, size = sys.argv[2], int(os.environ.pop("HALAY_RANK")), int(os.environ.pop("HALAY_SIZE"))

    def put(key, value):
        with open(f"{folder}/writing {rank}", "wb") as file:
            file.write(value)
        os.rename(file.name, f"{folder}/{key.replace('/', '|')}")

    def get(key, seconds):
        end = time.monotonic() + seconds
        while True:
            try:
                with open(f"{folder}/{key.replace('/', '|')}", "rb") as file:
                    return file.read()
            except FileNotFoundError:
                if time.monotonic() >= end:
                    return None
                time.sleep(0.001)

    def fail(key, value):
        raise KeyError("the program's own")

    with halay.Context(rendezvous=halay.Rendezvous(rank, size, put, get)) as ctx:
        assert (ctx.rank, ctx.size) == (rank, size)
        assert (ctx.allreduce(numpy.ones(2)) == size).all()
    raises(KeyError, lambda: halay.Context(rendezvous=halay.Rendezvous(rank, size, fail, get)), "the program's own")


def killed():
    """The others' halayrun sends SIGTERM, which they ignore for the test's sake."""
    ctx = halay.Context()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    victim = ctx.size - 1
    ctx.allreduce(numpy.ones(2), name="before")
    if ctx.rank == victim:
        ctx.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    request = ctx.allreduce_async(numpy.ones(2), name="during")
    try:
        ctx.barrier()
    except halay.PeerError:  # the death may overtake its end
        pass
    failure = raises(halay.PeerError, request.wait, f"rank {victim}")
    assert victim in failure.ranks and failure.tensor == "during", (failure.ranks, failure.tensor)
    raises(halay.PeerError, lambda: ctx.allreduce(numpy.ones(2), name="after"), f"rank {victim}")
    raises(halay.PeerError, ctx.check, f"rank {victim}")
    print("told", flush=True)


if sys.argv[1:] == ["killed"]:
    killed()
elif sys.argv[1:2] == ["met"]:
    met()
else:
    with halay.Context() as context:
        check_mismatches(context)
        check_own(context)
        withdrawn(context)
    check_closed()
    aborted()
