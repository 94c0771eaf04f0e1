# SPDX-License-Identifier: Apache-2.0
"""Steps that repeat, and others among them: the results are right whether steps are replayed or not. steady.py SEED"""

import asyncio
import random
import sys
import threading

import numpy

import halay

TENSORS = 6
STEPS = 100


def value(rank, step, number):
    return rank + 1 + step % 7 + 10 * number


class Steps:
    """TENSORS all-reduces, which each step submits: one by name, some in memory of halay's."""

    def __init__(self, ctx):
        self.ctx, self.ranks = ctx, range(ctx.size)
        self.data, self.handles = [], []
        for number in range(TENSORS):
            count = [1, 100, 5000][number % 3]
            data = ctx.alloc(count, "f32") if number % 2 else numpy.zeros(count, "float32")
            self.data.append(data)
            by_name = number == TENSORS - 1
            self.handles.append(
                None if by_name else ctx.register(halay.Collective.ALLREDUCE, data, data, name=f"t{number}"))

    def submit(self, step, number):
        data = self.data[number]
        data[:] = value(self.ctx.rank, step, number)
        handle = self.handles[number]
        return handle.submit() if handle else self.ctx.allreduce_async(data, data, name=f"t{number}")

    def submit_all(self, step, own):
        order = list(range(TENSORS))
        own.shuffle(order)
        if own.random() < 0.3:  # several in one call
            named = order.pop(order.index(TENSORS - 1))
            for number in order:
                self.data[number][:] = value(self.ctx.rank, step, number)
            requests = dict(zip(order, self.ctx.submit_many([self.handles[number] for number in order])))
            requests[named] = self.submit(step, named)
            return requests
        return {number: self.submit(step, number) for number in order}

    def check(self, step, numbers):
        for number in numbers:
            expected = sum(value(rank, step, number) for rank in self.ranks)
            assert (self.data[number] == expected).all(), (step, number, self.data[number], expected)


def finish(requests, own):
    """Wait for all of them, in one of the ways that there are."""
    requests = list(requests)
    own.shuffle(requests)
    how = own.choice(["wait", "poll", "all", "any", "callback", "await", "limit"])
    if how == "wait":
        for request in requests:
            request.wait()
    elif how == "poll":
        while not all(request.poll() for request in requests):
            pass
    elif how == "all":
        halay.wait_all(requests)
    elif how == "any":
        left = list(requests)
        while left:
            left.pop(halay.wait_any(left)).wait()
    elif how == "callback":
        ended = threading.Semaphore(0)
        for request in requests:
            request.add_done_callback(lambda one: ended.release())
        for _ in requests:
            assert ended.acquire(timeout=60)
    elif how == "await":
        async def ended():
            for request in requests:
                await request

        asyncio.run(ended())
    else:
        for request in requests:
            while True:
                try:
                    request.wait(0.001)
                    break
                except TimeoutError:
                    pass
    for request in requests:
        request.wait()


# ---- steps of another kind, the same on all ranks but for the order --------------------------------------------------


def lacks(steps, step, alike, own):
    numbers = alike.sample(range(TENSORS), alike.randint(0, TENSORS - 1))
    own.shuffle(numbers)
    finish([steps.submit(step, number) for number in numbers], own)
    steps.check(step, numbers)


def twice(steps, step, alike, own):
    for turn in (step, step + 1):
        number = alike.randrange(TENSORS)
        steps.submit(turn, number).wait()
        steps.check(turn, [number])


def other(steps, step, alike, own):
    requests = steps.submit_all(step, own)
    data = numpy.full(alike.choice([3, 3000]), steps.ctx.rank + 1.0)
    requests["other"] = steps.ctx.allreduce_async(data, data, name=f"other{alike.randrange(3)}")
    finish(requests.values(), own)
    assert (data == sum(rank + 1 for rank in steps.ranks)).all()
    steps.check(step, range(TENSORS))


def unlike(steps, step, alike, own):
    """A name of the steps, with another size."""
    data = numpy.full(alike.choice([2, 200]), steps.ctx.rank + 1.0)
    steps.ctx.allreduce(data, data, name=f"t{TENSORS - 1}")
    assert (data == sum(rank + 1 for rank in steps.ranks)).all()


def gather(steps, step, alike, own):
    requests = steps.submit_all(step, own)
    rows = steps.ctx.allgather(numpy.full(steps.ctx.rank + 1, steps.ctx.rank), name="rows")
    assert rows.tolist() == [rank for rank in steps.ranks for _ in range(rank + 1)]
    finish(requests.values(), own)
    steps.check(step, range(TENSORS))


def barrier(steps, step, alike, own):
    steps.ctx.barrier()


def process_set(steps, step, alike, own):
    ctx = steps.ctx
    members = sorted(alike.sample(list(steps.ranks), alike.randint(1, ctx.size)))
    requests = steps.submit_all(step, own)
    if ctx.rank in members:
        some = ctx.process_set(members)
        data = numpy.ones(4)
        assert (ctx.allreduce(data, data, name="in the set", process_set=some) == len(members)).all()
        some.remove()
    finish(requests.values(), own)
    steps.check(step, range(TENSORS))


def join(steps, step, alike, own):
    """One rank makes a step alone: the others count as zero."""
    ctx, last = steps.ctx, alike.randrange(steps.ctx.size)
    if ctx.rank == last:
        finish(steps.submit_all(step, own).values(), own)
        for number in range(TENSORS):
            assert (steps.data[number] == value(last, step, number)).all()
    assert ctx.join() == last


def taken_back(steps, step, alike, own):
    requests = steps.submit_all(step, own)
    for request in requests.values():
        request.cancel()
    for request in requests.values():
        try:
            request.wait()
        except halay.CanceledError:
            pass
    steps.ctx.barrier()


def alone(steps, step, alike, own):
    """The ranks but one begin the step, and wait for something that the one does before it."""
    ctx, late, data = steps.ctx, alike.randrange(steps.ctx.size), numpy.ones(1)
    requests = steps.submit_all(step, own) if ctx.rank != late else {}
    ctx.allreduce(data, data, name="before")
    requests = requests or steps.submit_all(step, own)
    finish(requests.values(), own)
    steps.check(step, range(TENSORS))


OTHERS = [lacks, twice, other, unlike, gather, barrier, process_set, join, taken_back, alone]


def main():
    seed = sys.argv[1]
    with halay.Context() as ctx:
        alike, own = random.Random(seed), random.Random(f"{seed} {ctx.rank}")
        steps = Steps(ctx)
        equal = 0
        for step in range(STEPS):
            if equal > 3 and alike.random() < 0.15:
                alike.choice(OTHERS)(steps, step, alike, own)
                equal = 0
            else:
                finish(steps.submit_all(step, own).values(), own)
                steps.check(step, range(TENSORS))
                equal += 1


main()
