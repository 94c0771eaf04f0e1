# SPDX-License-Identifier: Apache-2.0
"""halay.torch with tensors on a GPU, which the emulation is: what comes out, and that nothing goes through the host."""

import time
import types

import cuda_torch
import torch
from torch.overrides import TorchFunctionMode

import halay.torch as hvd
from halay import HalayError
from halay.request import Request
from halay.torch import _job, ops
from halay.torch.functions import _adopt, _Shape

DEVICE = torch.device("cuda", 0)
mode = cuda_torch.start()
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
torch.set_num_threads(1)
waits = []  # names of requests for which the host has waited


def watch(request, timeout=None, wait=Request.wait):
    waits.append(request.name)
    return wait(request, timeout)


Request.wait = watch


def network(device):
    torch.manual_seed(3)
    sizes = [(8, 6), (8,), (2, 8), (2,)]
    return [torch.nn.Parameter((torch.randn(size) / 3).to(device)) for size in sizes]


def loss_of(params, x):
    hidden = torch.tanh(torch.nn.functional.linear(x, params[0], params[1]))
    return torch.nn.functional.linear(hidden, params[2], params[3]).pow(2).mean()


def batches(steps, passes):
    return torch.randn(steps * passes, SIZE, 4, 6, generator=torch.Generator().manual_seed(5))


def train_alone(steps, passes=1):
    params = network("cpu")
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    for i, data in enumerate(batches(steps, passes)):
        if i % passes == 0:
            optimizer.zero_grad()
        torch.autograd.backward(loss_of(params, data.reshape(-1, 6)))
        if i % passes == passes - 1:
            optimizer.step()
    return torch.nn.utils.parameters_to_vector(params).detach()


def train(steps=4, passes=1, set_to_none=None, zeroed=False, **options):
    """The weights after these steps, and what went to the host in all but the first: that opens the way."""
    params = network(DEVICE)
    assert all(p.device == DEVICE for p in params)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(params, lr=0.1, momentum=0.9),
                                         named_parameters=[(f"p{i}", p) for i, p in enumerate(params)],
                                         backward_passes_per_step=passes, **options)
    for p in params if zeroed else ():
        p.grad = torch.zeros_like(p.detach())
    data = batches(steps, passes)
    on_device = [[part.to(DEVICE) for part in ranks] for ranks in data]
    for i in range(len(data)):
        if i == passes:
            since = cuda_torch.counts()
            waits.clear()
        if i % passes == 0:
            optimizer.zero_grad(**({} if set_to_none is None else {"set_to_none": set_to_none}))
        torch.autograd.backward(loss_of(params, on_device[i][RANK]))
        if i % passes == passes - 1:
            optimizer.step()
    copied = {kind: count - since[kind] for kind, count in cuda_torch.counts().items()}
    weights = torch.nn.utils.parameters_to_vector([p.detach() for p in params])
    return weights.cpu(), copied, [name for name in waits if ".news" not in name], params


def same(got, wanted, limit=1e-5):
    assert got.device.type == "cpu" and got.shape == wanted.shape
    error = (got.double() - wanted.double()).abs().max().item()
    assert error <= limit, (error, got, wanted)


def optimizer():
    """Gradients stay on the device: no copy to the host, and the host waits for no bucket."""
    wanted = train_alone(4)
    for options, limit in (({}, 1e-5), ({"groups": 2}, 1e-5), ({"set_to_none": True}, 1e-5),
                           ({"compression": hvd.Compression.fp16}, 1e-2),
                           ({"compression": hvd.Compression.bf16}, 5e-2)):
        got, copied, waited, params = train(zeroed=True, **options)
        same(got, wanted, limit)
        assert copied == {"bytes": 0, "blocking": 0, "torch": 0}, (options, copied)
        assert waited == [], (options, waited)
        if not options and SIZE > 1:
            assert all(p.grad.device == DEVICE for p in params)
            assert len({cuda_torch.address(p.grad) for p in params}) == 1  # one bucket
    got, copied, waited, _ = train(passes=2)
    same(got, train_alone(4, 2))
    assert copied["bytes"] == 0 and copied["torch"] == 0 and waited == []


def other_streams():
    """Results that are waited for in another stream than they were submitted in."""
    side, x = torch.cuda.Stream(), torch.arange(6).to(DEVICE)
    side.wait_stream(torch.cuda.current_stream())
    now = torch.cuda.current_stream()
    with torch.cuda.stream(side):
        whole = hvd.allreduce_async_(x * 1)
        both = hvd.grouped_allreduce_async([x * 1, x * 2])
        rows = hvd.allgather_async(x[:1 + RANK].to(torch.float32))
        places, ones = torch.tensor([[RANK]]).to(DEVICE), torch.ones(1, 3).to(DEVICE)
        entries = ops.sparse_allreduce_async(torch.sparse_coo_tensor(places, ones, (SIZE, 3)), "entries", hvd.Average)
    kept, keep = [], ops.keep_for_reader
    ops.keep_for_reader = lambda tensor: (kept.append(tuple(tensor.shape)), keep(tensor))
    results = [hvd.synchronize(whole), *hvd.synchronize(both)]
    values = entries()._values()
    ops.keep_for_reader = keep
    # The emulated host waits, so it finds no race.
    assert kept == [(6, 2), (6,), (6, 2), (6,), (6, 2), (6,), (SIZE, 3), (SIZE, 1)], kept
    same(values.cpu(), torch.full((SIZE, 3), 1 / SIZE))
    for got, factor in zip(results, (1, 1, 2)):
        got.record_stream(now)
        same(got.cpu(), factor * torch.arange(6))
    while not hvd.poll(rows):  # what ends here is made here, and is there for all
        pass
    with torch.cuda.stream(side):
        same(hvd.synchronize(rows).cpu(), torch.cat([torch.arange(1.0 + rank) for rank in range(SIZE)]))


def streams():
    """Gradients that several streams make: the exchange follows all of them, and they are dropped only then."""
    other_streams()
    if SIZE == 1:  # nothing is exchanged
        return
    params = network(DEVICE)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(params, lr=0.1), [(f"s{i}", p) for i, p in enumerate(params)])
    side = torch.cuda.Stream()
    (bucket,) = optimizer._buckets
    for member in bucket.members:
        with torch.cuda.stream(side if member.place[1] % 2 else torch.cuda.current_stream()):
            member.param.grad = torch.full_like(member.param.detach(), RANK + 1)
            if member.place[1] % 2:
                cuda_torch.clear(member.param.grad)  # late
            bucket.note_stream()
    bucket.start()
    bucket.finish()
    bucket.reset(1)
    for number, p in enumerate(params):
        same(p.grad.cpu(), torch.full(p.shape, 0 if number % 2 else (SIZE + 1) / 2))


def operations():
    """Every operation, beside that of main memory."""
    on_host = torch.arange(6, dtype=torch.float32).reshape(3, 2) + RANK
    everyone = torch.stack([on_host - RANK + rank for rank in range(SIZE)])
    x = on_host.to(DEVICE)
    since = cuda_torch.counts()
    got = hvd.allreduce(x, op=hvd.Sum)
    assert got.device == DEVICE and got is not x
    assert hvd.allreduce_(x.clone(), op=hvd.Average).device == DEVICE
    half = hvd.allreduce(x.to(torch.bfloat16), op=hvd.Sum)
    assert cuda_torch.counts() == since, (cuda_torch.counts(), since)
    since = since["bytes"]
    same(got.cpu(), everyone.sum(0))
    same(half.cpu(), everyone.sum(0))
    for op, wanted in ((hvd.Min, everyone.amin(0)), (hvd.Max, everyone.amax(0)), (hvd.Product, everyone.prod(0))):
        same(hvd.allreduce(x, op=op).cpu(), wanted)
    whole = hvd.allreduce(x.to(torch.int64))
    assert whole.device == DEVICE
    same(whole.cpu(), everyone.sum(0).div(SIZE, rounding_mode="trunc"))
    first, second = hvd.grouped_allreduce([x, x * 2], op=hvd.Sum)
    same(second.cpu(), everyone.sum(0) * 2)
    same(first.cpu(), everyone.sum(0))
    same(hvd.broadcast(x, SIZE - 1).cpu(), everyone[-1])
    y = x.clone()
    assert hvd.broadcast_(y, 0) is y
    same(y.cpu(), everyone[0])
    same(hvd.allgather(x).cpu(), everyone.reshape(-1, 2))
    part = hvd.reducescatter(torch.cat([x] * SIZE), op=hvd.Sum)
    same(part.cpu(), everyone.sum(0))
    assert cuda_torch.counts()["bytes"] == since
    rows = hvd.allgather(x[:1 + RANK % 2])
    assert rows.device == DEVICE
    same(rows.cpu(), torch.cat([everyone[rank][:1 + rank % 2] for rank in range(SIZE)]))
    moved, received = hvd.alltoall(torch.cat([x] * SIZE), torch.full((SIZE,), 3, dtype=torch.int32))
    same(moved.cpu(), everyone.reshape(-1, 2))
    assert received.tolist() == [3] * SIZE
    assert set(+cuda_torch.host_copies) == {"cpu"}, cuda_torch.host_copies  # those that are here


def others():
    """Steps that are replayed, a set of some ranks, a rank that has joined, sparse gradients."""
    x = torch.full((5,), float(RANK)).to(DEVICE)
    for _ in range(8):
        since = cuda_torch.counts()
        got = hvd.allreduce(x, op=hvd.Sum, name="again")
        assert cuda_torch.counts() == since
        same(got.cpu(), torch.full((5,), float(sum(range(SIZE)))))
    if SIZE > 1:
        alone = hvd.add_process_set([1])
        if RANK == 1:
            same(hvd.allreduce(x, op=hvd.Sum, process_set=alone).cpu(), torch.full((5,), 1.0))
        hvd.remove_process_set(alone)
    if RANK > 0:
        same(hvd.allreduce(x, op=hvd.Sum, name="without rank 0").cpu(), torch.full((5,), float(sum(range(SIZE)))))
    hvd.join()
    weight = torch.nn.Parameter(torch.zeros(4, 3).to(DEVICE))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("sparse", weight)])
    wanted = torch.zeros(4, 3)
    for _ in range(2):
        weight.grad = torch.sparse_coo_tensor(torch.tensor([[RANK]]), torch.ones(1, 3), (4, 3))
        optimizer.step()
        wanted[:SIZE] -= 1 / SIZE
    same(weight.detach().cpu(), wanted)


def normalisation():
    """SyncBatchNorm neither copies to the host nor waits."""
    data = torch.randn(SIZE, 8, 3, generator=torch.Generator().manual_seed(1))
    norm, alone = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
    for name in ("weight", "bias"):
        setattr(norm, name, torch.nn.Parameter(getattr(norm, name).detach().to(DEVICE)))
    for name in ("running_mean", "running_var"):
        setattr(norm, name, getattr(norm, name).to(DEVICE))
    x = data[RANK].to(DEVICE)
    norm(x)
    alone(data.reshape(-1, 3))
    since = cuda_torch.counts()
    waits.clear()
    got = norm(x)
    assert cuda_torch.counts() == since and waits == []
    same(got.detach().cpu(), alone(data.reshape(-1, 3)).detach().reshape(SIZE, 8, 3)[RANK])
    same(norm.running_var.cpu(), alone.running_var)


def without_module():
    """What cannot be reached is copied, as of a build without CUDA."""
    _job._state.device_fault = "there is no module"
    x = torch.ones(3).to(DEVICE)
    got = hvd.allreduce(x, op=hvd.Sum)
    assert got.device == DEVICE
    same(got.cpu(), torch.full((3,), float(SIZE)))
    weights, copied, _, params = train(zeroed=True)
    same(weights, train_alone(4))
    assert copied["bytes"] == 0 and (SIZE == 1 or copied["torch"] > 0)
    assert all(p.grad.device == DEVICE for p in params) or SIZE == 1
    _job._state.device_fault = ""


def parameters():
    params = dict(enumerate(network(DEVICE)))
    named = {f"w{i}": p.detach().add_(RANK) for i, p in params.items()}
    hvd.broadcast_parameters(named, 0)
    for i, p in enumerate(network("cpu")):
        same(named[f"w{i}"].cpu(), p.detach())
    some = network(DEVICE)
    adam = torch.optim.SGD(some, lr=0.1 + RANK, momentum=0.9)
    if RANK == 0:  # the others have no state yet
        for p in some:
            p.grad = torch.ones_like(p)
        adam.step()
    hvd.broadcast_optimizer_state(adam, 0)
    places = []

    class Places(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if function is not torch.empty:
                return function(*args, **(kwargs or {}))
            return places.append(kwargs["device"])

    with Places():  # a moment is where its parameter is, not on the current GPU
        _adopt({}, {1: {"m": _Shape((2,), torch.float32, "cuda"), "step": _Shape((), torch.float32, "cpu")}},
               [None, types.SimpleNamespace(device=torch.device("cuda", 1))])
    assert places == [torch.device("cuda", 1), torch.device("cpu")], places
    assert adam.param_groups[0]["lr"] == 0.1
    moment = adam.state_dict()["state"][0]["momentum_buffer"]
    assert moment.device == DEVICE
    same(moment.cpu(), torch.ones(8, 6))


def keeps_state():
    """Nothing is kept of a job that has failed, whose results may be wrong."""
    state = hvd.elastic.TorchState(step=1)
    flat = torch.ones(1000).to(DEVICE)
    hvd.allreduce_(flat, op=hvd.Sum)
    state.step = 2
    state.save()
    assert not fails(hvd.barrier) or RANK  # rank 1 may hear of the abort first
    if RANK == 0:
        _job.context().abort("enough")
    end = time.monotonic() + 30
    while not fails(_job.context().check):
        assert time.monotonic() < end, "the other ranks do not learn of the abort"
    state.step = 3
    assert fails(state.save)
    assert fails(lambda: hvd.elastic.TorchState(step=4))
    assert fails(lambda: hvd.elastic.TorchState(torch.nn.Linear(1, 1)))
    state.restore()
    assert state.step == 2


def fails(function):
    try:
        function()
    except (HalayError, hvd.HorovodInternalError):
        return True
    return False


operations()
optimizer()
streams()
others()
normalisation()
without_module()
parameters()
assert hvd.cuda_built() and not hvd.nccl_built()
hvd.barrier()
keeps_state()
mode.__exit__(None, None, None)
hvd.shutdown()
