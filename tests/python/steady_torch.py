# SPDX-License-Identifier: Apache-2.0
"""Trainings whose steps repeat, and some that differ: DistributedOptimizer, torch.distributed and DDP compute the same
whether steps are replayed or not. steady_torch.py SEED STORE"""

import os
import random
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import halay.distributed  # noqa: F401 (the backend's name)
import halay.torch as hvd
from halay.distributed import _engine, _numbers

STEPS = 60


def network():
    torch.manual_seed(3)
    layers = [torch.nn.Linear(6, 6) for _ in range(5)]
    return torch.nn.ModuleList(layers).double()


def loss_of(model, used, data):
    for layer in used:
        data = torch.tanh(model[layer](data))
    return data.pow(2).mean()


def plan_steps(seed, count):
    """What each step uses, and what it does besides: the same on all ranks."""
    alike = random.Random(seed)
    steps = []
    for step in range(count):
        if step % 20 < 12 or alike.random() < 0.5:
            steps.append((list(range(5)), ""))
        else:
            used = sorted(alike.sample(range(5), alike.randint(1, 5)))
            steps.append((used, alike.choice(["", "mean", "gather", "set", "barrier"])))
    return steps


def batch_of(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(4, 6, generator=generator, dtype=torch.float64)


def zero_gradients(model, optimizer):
    """In place, where there are gradients."""
    optimizer.zero_grad(set_to_none=False)
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def train_alone(steps, size):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (used, _) in enumerate(steps):
        zero_gradients(model, optimizer)
        (sum(loss_of(model, used, batch_of(step, rank)) for rank in range(size)) / size).backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


def besides(what, step, rank, size):
    if what == "mean":
        got = hvd.allreduce(torch.tensor([float(rank + step)]), name="metric")
        assert torch.isclose(got, torch.tensor([step + (size - 1) / 2])), got
    elif what == "gather":
        assert hvd.allgather(torch.full((rank + 1, 2), float(rank)), name="rows").shape[0] == size * (size + 1) // 2
    elif what == "set":
        if size > 1:
            members = [0, size - 1][:size - 1]
            some = hvd.add_process_set(members)
            if rank in members:
                got = hvd.allreduce(torch.ones(3), op=hvd.Sum, process_set=some, name="in the set")
                assert torch.equal(got, torch.full((3,), float(len(members))))
            hvd.remove_process_set(some)
    elif what == "barrier":
        hvd.barrier()


def optimizer(seed):
    """DistributedOptimizer: the weights of one process on the joint batch."""
    steps = plan_steps(seed, STEPS)
    rank, size = hvd.rank(), hvd.size()
    wanted = train_alone(steps, size)
    for options in ({}, {"groups": 2}):
        model = network()
        sgd = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                                       named_parameters=model.named_parameters(), **options)
        for step, (used, what) in enumerate(steps):
            sgd.zero_grad(set_to_none=False)
            loss_of(model, used, batch_of(step, rank)).backward()
            besides(what, step, rank, size)
            sgd.step()
        got = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
        error = (got - wanted).abs().max().item()
        assert error < 1e-9, error


def collectives(seed):
    """torch.distributed: the numbers that are its names come again after 64."""
    alike, rank, size = random.Random(seed), dist.get_rank(), dist.get_world_size()
    data = [torch.empty(count) for count in (1, 300, 20000, 7)]
    half = dist.new_group(list(range(0, size, 2)))
    for step in range(64):
        period = 4
        if step > 40 and alike.random() < 0.1:
            kind = alike.choice(["barrier", "broadcast", "object", "half", "send", "unlike"])
            if kind == "barrier":
                dist.barrier()
            elif kind == "broadcast":
                dist.broadcast(data[1].fill_(rank), size - 1)
                assert data[1].eq(size - 1).all()
            elif kind == "object":
                got = [None] * size
                dist.all_gather_object(got, {"rank": rank})
                assert got == [{"rank": other} for other in range(size)]
            elif kind == "half":
                if rank % 2 == 0:
                    one = torch.ones(2)
                    dist.all_reduce(one, group=half)
                    assert one.eq(len(range(0, size, 2))).all()
            elif kind == "send" and size > 1:
                if rank == 0:
                    dist.send(torch.full((3,), 5.0), size - 1)
                elif rank == size - 1:
                    dist.recv(data[3][:3], 0)
                    assert data[3][:3].eq(5).all()
            elif kind == "unlike":
                try:
                    dist.all_reduce(torch.ones(3 + (rank == 0)))
                    assert size == 1
                except RuntimeError:
                    pass
        works = []
        for number in range(period):
            data[number].fill_(rank + step + number)
            works.append(dist.all_reduce(data[number], async_op=True))
        if random.random() < 0.5:
            works.reverse()
        for work in works:
            work.get_future().wait() if random.random() < 0.2 else work.wait()
        for number in range(period):
            assert data[number].eq(sum(other + step + number for other in range(size))).all(), (step, number)


def ddp(seed, find_unused):
    """DDP, whose buckets are submitted in its own order."""
    steps = plan_steps(seed, STEPS)
    rank, size = dist.get_rank(), dist.get_world_size()
    if not find_unused:
        steps = [(list(range(5)), "") for _ in steps]
    wanted = train_alone(steps, size)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def forward(self, used, data):
            return loss_of(self.layers, used, data)

    model = Net()
    wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0005,
                                                        find_unused_parameters=find_unused)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (used, _) in enumerate(steps):
        zero_gradients(model, sgd)
        wrapped(used, batch_of(step, rank)).backward()
        sgd.step()
    got = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    error = (got - wanted).abs().max().item()
    assert error < 1e-9, error


def numbers():
    """The names of collectives come again with the steps, and on all ranks alike."""
    for period in list(range(1, 131)) + [200, 256, 400]:
        names, calls = _numbers.Numbers(), {}
        for call in range(2048):
            number = names.take(call % period)
            if call >= 1024 and period <= _numbers.SLOTS_MAX:
                assert calls.setdefault(number, call % period) == call % period, (period, call)
        assert period <= _numbers.SLOTS_MAX or names.slots == _numbers.SLOTS, period
    for differing in (5, 200, 390, 511, 700):  # one call that is not the same there, and fails
        ranks = [_numbers.Numbers(), _numbers.Numbers()]
        for call in range(4096):
            alike = call % 3 if call < 2000 else call % 5
            if call == differing + _numbers.SLOTS_MAX:
                for rank in ranks:
                    rank.note_failure(differing)
            assert ranks[0].take(alike) == ranks[1].take("other" if call == differing else alike), (differing, call)
        assert ranks[0].slots == 65


def steady():
    """DDP of some three buckets: at last a step tells the engine nothing new and, replayed, sends nothing."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.016)
    counters, seen = _engine._world["engine"].context.counters, []
    for step in range(450):
        if step >= 400:
            seen.append(counters())
        model(torch.ones(2, 64)).sum().backward()
    assert seen[-1]["negotiations"] == seen[0]["negotiations"], (seen[0], seen[-1])
    if os.environ.get("HALAY_REPLAY", "1") == "1":
        assert any(a["messages_sent"] == b["messages_sent"] for a, b in zip(seen, seen[10:])), (seen[0], seen[-1])


def main():
    seed, store = sys.argv[1:]
    torch.set_num_threads(1)
    numbers()
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    optimizer(seed)
    hvd.shutdown()
    dist.init_process_group("halay", init_method="file://" + store, rank=rank, world_size=size,
                            timeout=timedelta(seconds=60))
    steady()
    collectives(seed)
    ddp(seed, False)
    ddp(seed, True)
    dist.destroy_process_group()


main()
