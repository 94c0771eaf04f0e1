# SPDX-License-Identifier: Apache-2.0
"""
Trainings of today's PyTorch over halay and over gloo, in one job: the same losses, to the bit for two ranks.

Needs torch 2.4; tests/python/with_torch.sh runs it in a given environment.
"""

import copy
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import halay.distributed  # noqa: F401 registers the backend

STEPS = 4


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))


def train(net, optimizer):
    torch.manual_seed(10 + dist.get_rank())
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(torch.randn(4, 16)), torch.randn(4, 8))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses


def adam(net):
    return torch.optim.Adam(net.parameters(), lr=0.01)


def ddp():
    net = torch.nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.001)
    return train(net, adam(net))


def ddp_compiled():
    net = torch.nn.parallel.DistributedDataParallel(torch.compile(model(), backend="aot_eager"))
    return train(net, adam(net))


def ddp_compiled_around():
    """The compiler sees DDP's forward, in which the reducer calls the backend."""
    net = torch.compile(torch.nn.parallel.DistributedDataParallel(model()), backend="aot_eager")
    return train(net, adam(net))


def functional():
    """Collectives within a compiled function."""
    import torch.distributed._functional_collectives as functional

    size, group = dist.get_world_size(), dist.new_group(list(range(dist.get_world_size())))
    given = torch.arange(6.0 * size).reshape(-1, 2) + dist.get_rank()

    def compute(values):
        reduced = functional.all_reduce(values * 2, "sum", group)
        part = functional.reduce_scatter_tensor(reduced, "sum", 0, group)
        whole = functional.all_gather_tensor(part + 1, 0, group)
        dealt = functional.all_to_all_single(whole, None, None, group)
        dist.all_reduce(dealt)
        received = torch.empty(dealt.shape[0] * size, 2)
        dist.all_gather_into_tensor(received, dealt)
        return received

    return [compute(given), torch.compile(compute, backend="aot_eager")(given)]


def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel

    net = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    return train(net, adam(net))


def fsdp2():
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    net = model()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return train(net, adam(net))


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    net = torch.nn.parallel.DistributedDataParallel(model())
    return train(net, ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01))


def tensor_parallel():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = parallelize_module(model(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    torch.manual_seed(3)
    losses = []
    optimizer = adam(net)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = net(torch.randn(4, 16)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses


def pipeline():
    """Two stages (further ranks look on) and four micro-batches."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 5):
        return []
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    group, rank = dist.new_group([0, 1]), dist.get_rank()
    if rank > 1:
        return []
    net = model()[:2] if rank == 0 else model()[2:]
    stage = PipelineStage(net, rank, 2, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, 4, loss_fn=torch.nn.functional.mse_loss)
    optimizer = adam(net)
    torch.manual_seed(5)
    losses = []
    for _ in range(STEPS):
        features, target = torch.randn(8, 16), torch.randn(8, 8)
        optimizer.zero_grad()
        of_parts = []
        if rank == 0:
            schedule.step(features)
        else:
            schedule.step(target=target, losses=of_parts)
        optimizer.step()
        losses += [loss.detach().clone() for loss in of_parts]
    return losses + [parameter.detach() for parameter in net.parameters()]


def dtensor():
    try:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    except ImportError:
        from torch.distributed._tensor import Replicate, Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(4)
    whole = torch.randn(8, 6)
    by_rows = distribute_tensor(whole, mesh, [Shard(0)])
    by_columns = by_rows.redistribute(mesh, [Shard(1)])
    return [by_columns.redistribute(mesh, [Replicate()]).to_local(), (by_rows @ by_rows.t()).full_tensor()]


def checkpoint():
    import torch.distributed.checkpoint as dcp

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    net = model()
    saved = copy.deepcopy(net.state_dict())
    dcp.save({"net": net.state_dict()}, checkpoint_id=folder[0])
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    state = {"net": net.state_dict()}
    dcp.load(state, checkpoint_id=folder[0])
    for name, value in saved.items():
        assert torch.equal(value, state["net"][name]), name
    return []


CASES = [
    ddp,
    ddp_compiled,
    ddp_compiled_around,
    functional,
    fsdp1,
    fsdp2,
    zero,
    tensor_parallel,
    pipeline,
    dtensor,
    checkpoint,
]


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    wrong = 0
    kept = []
    chosen = [case for case in CASES if case.__name__ in sys.argv[2:] or not sys.argv[2:]]
    for case in chosen:
        results = []
        for backend in ("gloo", "halay"):
            store = dist.FileStore(f"{sys.argv[1]}.{case.__name__}.{backend}", size)
            dist.init_process_group(backend, store=store, rank=rank, world_size=size)
            try:
                results.append(case())
            except Exception as failure:
                results.append(failure)
            # gloo of torch 2.4: its destructor waits, with Python's lock, for a thread that waits for this lock.
            kept.append(list(dist.distributed_c10d._world.pg_map))
            dist.destroy_process_group()
        neither = all(isinstance(result, Exception) for result in results)
        ok = neither or not any(isinstance(result, Exception) for result in results) and all(
            torch.equal(a, b) if size <= 2 else torch.allclose(a, b, atol=1e-5) for a, b in zip(*results)
        )
        wrong += not ok
        if rank == 0 or not ok:
            said = f"gloo fails, too: {str(results[0]).splitlines()[0]}" if neither else "as gloo has it"
            print(f"{case.__name__}: {said if ok else f'DIFFERS: {results}'}", flush=True)
    sys.stdout.flush()
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
