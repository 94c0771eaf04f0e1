# SPDX-License-Identifier: Apache-2.0
"""Random operations from several threads and in two contexts, in another order on each rank. threads.py SEED"""

import _thread
import asyncio
import os
import random
import sys
import threading

import numpy

import halay

THREADS = 3
STEPS = 60


def one(ctx, name, kind, count):
    """Submit one operation; returns the request and what its result must be."""
    mine = numpy.arange(count, dtype="float64") + ctx.rank
    parts = [numpy.arange(count, dtype="float64") + rank for rank in range(ctx.size)]
    if kind == "allreduce":
        return ctx.allreduce_async(mine, name=name), sum(parts)
    if kind == "in place":
        return ctx.allreduce_async(mine, mine, name=name, reduction="max"), parts[-1]
    if kind == "broadcast":
        return ctx.broadcast_async(mine, count % ctx.size, name=name), parts[count % ctx.size]
    return ctx.allgather_async(mine, name=name), numpy.concatenate(parts)


def check(request, expected):
    got = request.wait()
    assert (got == expected).all(), (request.name, got, expected)


def work(ctx, thread, seed, failures):
    try:
        alike = random.Random(f"{seed} {thread}")  # the same on every rank
        own = random.Random(f"{seed} {thread} {ctx.rank}")
        for step in range(STEPS):
            batch = [(f"{thread} {number}", alike.choice(["allreduce", "in place", "broadcast", "allgather"]),
                      alike.choice([1, 100, 20000])) for number in range(alike.randint(1, 5))]  # fmt: skip
            own.shuffle(batch)
            requests = [one(ctx, *operation) for operation in batch]
            own.shuffle(requests)
            how = own.choice(["wait", "poll", "all", "any", "callback", "await"])
            if how == "poll":
                while not all(request.poll() for request, _ in requests):
                    pass
            elif how == "all":
                halay.wait_all([request for request, _ in requests])
            elif how == "any":
                left = [request for request, _ in requests]
                while left:
                    assert left.pop(halay.wait_any(left)).poll()
            elif how == "callback":
                ended = threading.Semaphore(0)
                for request, _ in requests:
                    request.add_done_callback(lambda one: ended.release())
                for _ in requests:
                    assert ended.acquire(timeout=60), "a callback was not called"
            elif how == "await":
                asyncio.run(gather([request for request, _ in requests]))
            for request, expected in requests:
                check(request, expected)
    except BaseException as failure:
        failures.append(failure)
        raise


async def gather(requests):
    async def result(request):
        return await request

    assert len(await asyncio.gather(*map(result, requests))) == len(requests)


def check_callbacks(ctx):
    """One that raises does not keep the next one from being called; one that submits may do so."""
    told, said = threading.Event(), threading.Event()
    hook, sys.excepthook = sys.excepthook, lambda *what: told.set()

    def submit_more(_):
        ctx.allreduce_async(numpy.ones(1), name="from a callback").add_done_callback(lambda more: said.set())

    def fail(_):
        raise ValueError("the program's own")

    request = ctx.allreduce_async(numpy.ones(1), name="called back")
    try:
        request.add_done_callback(fail)
    except ValueError:  # it had ended, so the callback was called at once
        told.set()
    request.add_done_callback(submit_more)
    were_called = told.wait(60), said.wait(60)
    sys.excepthook = hook
    assert were_called == (True, True), were_called


def check_waiting_callbacks(ctx):
    """Callbacks that wait for requests whose own callbacks end them; and one that ends its thread, as it seems."""
    count, ended = 5, threading.Semaphore(0)
    hook, sys.excepthook = sys.excepthook, lambda kind, *_: ended.release() if kind is SystemExit else hook(kind, *_)

    def nest(request):
        inner = threading.Event()
        ctx.allreduce_async(numpy.ones(1), name=request.name + " again").add_done_callback(lambda _: inner.set())
        if inner.wait(60):
            ended.release()

    requests = [ctx.allreduce_async(numpy.ones(1), name=f"nested {at}") for at in range(count)]
    for request in requests:
        threading.Thread(target=request.add_done_callback, args=[nest]).start()
    assert all(ended.acquire(timeout=60) for _ in requests), "a callback that waits kept another from being called"
    request = ctx.allreduce_async(numpy.ones(1), name="leaves")
    try:
        request.add_done_callback(lambda _: sys.exit(3))
    except SystemExit:  # it had ended
        ended.release()
    assert ended.acquire(timeout=60), "SystemExit was lost"
    sys.excepthook = hook
    again = threading.Event()
    ctx.allreduce_async(numpy.ones(1), name="after SystemExit").add_done_callback(lambda _: again.set())
    assert again.wait(60), "SystemExit ended the callbacks"


def check_close(ctx):
    """It ends, whatever a callback waits for; what is left is called."""
    context, left, holds, told = halay.Context(), threading.Event(), threading.Event(), threading.Event()

    def hold(_):
        holds.set()
        left.wait()  # until the other's callback comes, which close() calls

    if ctx.rank == 0:
        context.allreduce_async(numpy.ones(1), name="held").add_done_callback(hold)
    ctx.barrier("submitted")  # so that it has not ended before
    if ctx.rank:
        context.allreduce_async(numpy.ones(1), name="held").add_done_callback(lambda _: holds.set())
    assert holds.wait(60)
    alone = context.allreduce_async(numpy.ones(1), name=f"alone {ctx.rank}")
    alone.add_done_callback(lambda _: (left.set(), told.set()))
    ctx.barrier("held")
    context.close()
    assert told.wait(60)


def check_starts(ctx):
    """A new thread takes the context's lock before all else, as when its garbage collector ends a request there."""
    context, called, starter = halay.Context(), threading.Event(), None
    places = [(module, name) for module in (_thread, threading)
              for name in ("start_new_thread", "_start_new_thread", "_start_joinable_thread") if hasattr(module, name)]
    kept = [getattr(*place) for place in places]

    def take_first(start):
        def begin(function, *rest, **named):
            def run(*given):
                with context._lock:
                    pass
                return function(*given)

            return start(run, *rest, **named)

        return begin

    def nest(_):  # so that another thread is started to look meanwhile
        inner = threading.Event()
        context.allreduce_async(numpy.ones(1), name="again").add_done_callback(lambda _: inner.set())
        if inner.wait(60):
            called.set()

    if ctx.rank == 0:
        first = context.allreduce_async(numpy.ones(1), name="first")
        starter = threading.Thread(target=first.add_done_callback, args=[nest], daemon=True)
        for place, start in zip(places, kept):
            setattr(*place, take_first(start))
        starter.start()
        starter.join(60)
    ctx.barrier("the watcher has started")
    if ctx.rank:
        context.allreduce(numpy.ones(1), name="first")
        context.allreduce(numpy.ones(1), name="again")
    elif starter.is_alive() or not called.wait(60):
        print("the start of a thread waits for the thread, which waits for the lock", file=sys.stderr, flush=True)
        os._exit(1)  # nothing can be closed any more
    for place, start in zip(places, kept):
        setattr(*place, start)
    context.close()


def check_many(ctx):
    data = [numpy.ones(4) for _ in range(20)]
    tensors = [ctx.register(halay.Collective.ALLREDUCE, one, one, name=f"many {at}") for at, one in enumerate(data)]
    for results in (halay.wait_all(ctx.submit_many(tensors)), [one.wait() for one in ctx.submit_many(tensors)]):
        assert len(results) == 20
    assert all((one == ctx.size**2).all() for one in data), data


with halay.Context() as first, halay.Context() as second:
    failures: list = []
    threads = [
        threading.Thread(target=work, args=(ctx, f"{number} {thread}", sys.argv[1], failures))
        for number, ctx in enumerate((first, second))
        for thread in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    check_callbacks(first)
    check_waiting_callbacks(second)
    if first.size > 1:
        check_close(first)
        check_starts(first)
    check_many(second)
