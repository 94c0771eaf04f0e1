# SPDX-License-Identifier: Apache-2.0
"""
How programs end and are interrupted. ends.py WHAT, on two ranks:

interrupt: Ctrl-C in a wait is heard, and the request goes on. start: Ctrl-C in a start, and another start. sets:
Ctrl-C while a process set is made, and a close. fork: a child has no context, and ends as it likes.
flight: the program ends with things in flight. raise: it ends with an exception. late: ... with arrays and requests
that live longer than the modules. thread: ... while another thread waits. outlived: memory of the context's lives on.
forgotten: nobody closes the context. stalled: the rank that others wait for shows where it is.
"""

import gc
import os
import signal
import sys
import threading
import time
import warnings

import numpy
from checks import raises

import halay


def interrupt():
    with halay.Context() as ctx:
        data = numpy.ones(3)
        if ctx.rank == 0:
            waits = threading.Event()

            def press():
                waits.wait()
                os.kill(os.getpid(), signal.SIGINT)

            threading.Thread(target=press).start()
            for wait in (lambda: ctx.allreduce(data, data, name="interrupted"), lambda: ctx.barrier("second")):
                try:
                    waits.set()
                    wait()
                    raise SystemExit("the wait ended")
                except KeyboardInterrupt:
                    break
            gc.collect()
            assert len(ctx._orphans) == 1, "nobody keeps the data"
            ctx.barrier("go")
        else:
            ctx.barrier("go")
            ctx.allreduce(data, data, name="interrupted")
        ctx.barrier()
        assert (data == 2).all(), data
        ctx.allreduce(numpy.ones(1), name="reaps")
        assert not ctx._orphans
        count_users(ctx)


class Pressed:
    """A context's lock; Ctrl-C comes when it is left for the first time."""

    def __init__(self, ctx):
        self.ctx, self.lock, ctx._lock = ctx, ctx._lock, self

    def __enter__(self):
        return self.lock.__enter__()

    def __exit__(self, *why):
        self.ctx._lock = self.lock
        self.lock.__exit__(*why)
        raise KeyboardInterrupt


def count_users(ctx):
    """Who is in a call is counted, and no longer when Ctrl-C comes before it: close() would wait."""
    request = ctx.allreduce_async(numpy.ones(1), name="counted")
    for call in (request.wait, lambda: ctx._call(lambda: 0)):
        Pressed(ctx)
        raises(KeyboardInterrupt, call)
        assert ctx._users == 0, ctx._users
    assert request.wait() == 2


def start():
    """Rank 0 gives up a start that the other never joins; then both start with another id."""
    with halay.Context() as ctx:
        made = numpy.zeros(256, "uint8")
        if ctx.rank == 0:
            made[:] = numpy.frombuffer(halay.unique_id(), "uint8")
            try:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                halay.Context(unique_id=halay.unique_id(), rank=0, size=2, settings={"HALAY_START_TIMEOUT": 3600})
                raise SystemExit("the start ended")
            except KeyboardInterrupt:
                pass
        ctx.broadcast(made, name="id")
        with halay.Context(unique_id=bytes(made), rank=ctx.rank, size=2) as other:
            assert (other.rank, other.size) == (ctx.rank, 2)
            assert (other.allreduce(numpy.ones(3)) == 2).all()


def sets():
    """One that the other rank does not make."""

    def press():
        while not ctx._users:  # it has been asked for, and is waited for
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    with halay.Context() as ctx:
        if ctx.rank == 0:
            try:
                threading.Thread(target=press).start()
                ctx.process_set([0, 1])
                raise SystemExit("the set was made")
            except KeyboardInterrupt:
                pass
        ctx.barrier()
        if ctx.rank == 1:
            raises(halay.CanceledError, lambda: ctx.process_set([0, 1]), "[0,1]", "rank 0")
        made = ctx.process_set([1, 0])
        assert (ctx.allreduce(numpy.ones(2), process_set=made) == 2).all()
        if ctx.rank == 0:
            raises(halay.TimeoutError, lambda: made.remove(0.05), "rank 1")
        ctx.barrier()
        if ctx.rank == 1:
            raises(halay.TimeoutError, made.remove, "rank 0")
        made.remove()
        # In orders that differ: all are asked for before one is waited for, or a time-out says who waits for what.
        one, other = ([0], [0, 1]) if ctx.rank == 0 else ([0, 1], [1])
        requests = [ctx.process_set_async(ranks) for ranks in (one, other)]
        assert [made.wait().ranks for made in requests] == [tuple(one), tuple(other)]
        ended = []

        def make():
            try:
                ctx.process_set([0, 1])
            except halay.HalayError as failure:
                ended.append(failure)

        if ctx.rank == 0:
            thread = threading.Thread(target=make)
            thread.start()
            while ctx.counters()["in_flight"] == 0:
                pass
        ctx.barrier("asked")
        ctx.barrier("both wait")
    if ctx.rank == 0:
        thread.join()
        assert len(ended) == 1 and isinstance(ended[0], (halay.ClosedError, halay.PeerError)), ended


def fork():
    with halay.Context() as ctx:
        data = numpy.ones(3)
        tensor = ctx.register(halay.Collective.ALLREDUCE, data, data, name="x")
        shared = ctx.alloc(3)
        shared[:] = 1
        called = threading.Event()
        request = tensor.submit()
        request.add_done_callback(lambda _: called.set())
        lasting = ctx.allreduce_async(numpy.ones(2), name="across the fork") if ctx.rank == 0 else None
        child = os.fork()
        if child == 0:
            for call in (lambda: ctx.allreduce(data), tensor.submit, lambda: ctx.alloc(3), ctx.check):
                try:
                    call()
                    os._exit(3)
                except halay.UnsupportedError as failure:
                    assert "child of fork" in str(failure), failure
            ctx.close()
            if lasting is not None:
                assert lasting.poll() and lasting.error() is not None
            del request, tensor, lasting
            sys.exit(7)  # as a program ends, with what it has registered to be done then
        _, status = os.waitpid(child, 0)
        assert os.WEXITSTATUS(status) == 7, status
        if lasting is None:
            lasting = ctx.allreduce_async(numpy.ones(2), name="across the fork")
        assert (lasting.wait() == 2).all() and (request.wait() == 2).all()
        assert called.wait(60)
        assert (tensor.submit().wait() == 4).all()
        assert (ctx.allreduce(shared, shared) == 2).all()


def in_flight(ctx):
    """Requests that the others never submit, with all that may hang on one."""
    alone = ctx.allreduce_async(numpy.ones(5), name=f"alone {ctx.rank}")
    alone.add_done_callback(lambda request: None)
    ctx.allreduce_async(numpy.ones(5), name=f"forgotten {ctx.rank}")
    shared = ctx.alloc(10)
    data = numpy.ones(1)
    tensor = ctx.register(halay.Collective.ALLREDUCE, data, data, name=f"registered {ctx.rank}")
    return alone, shared, tensor, tensor.submit()


def flight():
    ctx = halay.Context()
    in_flight(ctx)
    assert (ctx.allreduce(numpy.ones(2), name="x") == 2).all()


def raise_():
    ctx = halay.Context()
    kept = in_flight(ctx)
    assert (ctx.allreduce(numpy.ones(2), name="x") == 2).all()
    raise RuntimeError(f"the program's own, with {len(kept)} in flight")


def late():
    global kept
    ctx = halay.Context()
    kept = (ctx, *in_flight(ctx))
    sys.kept = kept  # destroyed when the modules are gone
    assert (ctx.allreduce(numpy.ones(2), name="x") == 2).all()


def close_in_use():
    """close() frees nothing while a call does not end; then the context is left as it is."""
    ctx = halay.Context(unique_id=halay.unique_id(), rank=0, size=1)
    begun, may_end, freed, ended = threading.Event(), threading.Event(), [], []
    ctx._at_close.append(lambda: freed.append(1))

    def call():
        begun.set()
        may_end.wait()
        return 0

    user = threading.Thread(target=lambda: ended.append(ctx._call(call)))
    user.start()
    begun.wait()
    patience, halay.context.CLOSE_SECONDS = halay.context.CLOSE_SECONDS, 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ctx.close()
    halay.context.CLOSE_SECONDS = patience
    assert not freed, "what a thread uses was freed"
    assert ["a thread is still in a call" in str(one.message) for one in caught] == [True], caught
    may_end.set()
    user.join()
    assert ended == [0] and ctx._users == 0
    raises(halay.ClosedError, lambda: ctx.allreduce(numpy.ones(1)))
    ctx.close()
    assert not freed


def close_while_a_thread_begins():
    """close() waits for it, as the end of the interpreter would not."""
    may_begin, start = threading.Event(), halay.watcher._thread.start_new_thread
    halay.watcher._thread.start_new_thread = lambda run, args: start(lambda: may_begin.wait() and run(*args), ())
    ctx = halay.Context()
    in_flight(ctx)
    ctx.barrier()
    halay.watcher._thread.start_new_thread = start
    patience, halay.context.CLOSE_SECONDS = halay.context.CLOSE_SECONDS, 600
    closer = threading.Thread(target=ctx.close)
    closer.start()
    closer.join(0.2)
    assert closer.is_alive(), "close() did not wait"
    may_begin.set()
    closer.join()
    halay.context.CLOSE_SECONDS = patience


def thread():
    close_in_use()
    close_while_a_thread_begins()
    ctx = halay.Context()
    ended = []

    def wait():
        try:
            ctx.allreduce(numpy.ones(5), name=f"alone {ctx.rank}")
        except halay.HalayError as failure:
            ended.append(failure)

    waiter = threading.Thread(target=wait)
    waiter.start()
    ctx.barrier()
    ctx.close()
    waiter.join()
    assert len(ended) == 1, ended
    ctx = halay.Context()
    # Still waiting when the interpreter ends. An error that nobody catches would be printed by a daemon thread, which
    # Python itself may not survive then.
    threading.Thread(target=wait, daemon=True).start()
    ctx.barrier()


def outlived():
    """An array over shared memory lives longer than its context."""
    with halay.Context() as ctx:
        shared = ctx.alloc(1 << 20)
        shared[:] = ctx.rank
        ctx.allreduce(shared, shared)
    assert (shared == 1).all()
    shared[:] = 3
    with halay.Context() as ctx:
        assert (ctx.allreduce(shared, shared) == 6).all()


def forgotten():
    for turn in range(3):
        ctx = halay.Context()
        assert (ctx.allreduce(numpy.full(2, turn)) == 2 * turn).all()
        del ctx
        gc.collect()


def stalled():
    """Rank 1 is in lost_in_here() until rank 0 has reported that."""
    reported = threading.Event()

    def note(_level, line):
        print(line, file=sys.stderr, flush=True)
        if "stalled: rank 1" in line:
            reported.set()

    def lost_in_here(path):
        while not os.path.exists(path):
            time.sleep(0.01)

    path = os.environ["STALLED_FILE"]
    with halay.Context(log=note, settings={"HALAY_STALL_CHECK_TIME": 0.2}) as ctx:
        ctx.barrier()
        if ctx.rank:
            lost_in_here(path)
        request = ctx.allreduce_async(numpy.ones(1), name="late")
        if not ctx.rank:
            assert reported.wait(60)
            open(path, "w").close()
        assert request.wait() == 2


signal.signal(signal.SIGINT, signal.default_int_handler)  # where the test's parent ignores it, Python does
{"interrupt": interrupt, "start": start, "sets": sets, "fork": fork, "flight": flight, "raise": raise_, "late": late,
 "thread": thread, "outlived": outlived, "forgotten": forgotten, "stalled": stalled}[sys.argv[1]]()  # fmt: skip
