# SPDX-License-Identifier: Apache-2.0
"""Many steps of DDP and of DistributedOptimizer in flat memory, on ranks of halayrun's: memory_torch.py STEPS"""

import gc
import sys

import torch
import torch.distributed as dist

import halay.distributed  # noqa: F401 registers the backend
import halay.torch as hvd

ROOM = 1 << 20


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))


def step(model, optimizer, data):
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()


def check(kind, steps, model, optimizer):
    data = torch.randn(4, 64)
    for _ in range(max(1000, steps // 5)):
        step(model, optimizer, data)
    before = resident()
    for _ in range(steps):
        step(model, optimizer, data)
    after = resident()
    assert after - before < ROOM, f"{kind}: {steps} steps, {before} bytes before, {after} after"
    print(f"{kind}: {steps} steps, {before} bytes before, {after} after", flush=True)


def main():
    torch.set_num_threads(1)
    steps = int(sys.argv[1])
    dist.init_process_group("halay")
    model = torch.nn.parallel.DistributedDataParallel(network())
    check("DDP", steps, model, torch.optim.SGD(model.parameters(), lr=1e-6))
    dist.destroy_process_group()
    hvd.init()
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    check("DistributedOptimizer", steps, model, hvd.DistributedOptimizer(optimizer, model.named_parameters()))
    hvd.shutdown()


if __name__ == "__main__":
    main()
