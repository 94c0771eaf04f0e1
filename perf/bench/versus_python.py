#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""halay from Python beside gloo and Horovod: the same work, in turn, in one run, once a rank.

    small      an all-reduce of 4 KB, in µs: halay by a registered handle and by name, torch.distributed over halay
               and over gloo
    optimizer  what DistributedOptimizer adds to a step, in ms: halay.torch and horovod.torch, on the gradients of
               perf/src/engine/models.c (--models)
    ddp        what DistributedDataParallel adds to a step of a network of 100 MB, in ms: halay and gloo
    fsdp       a step of that network under fully_shard, in ms: halay and gloo (torch 2.6 and later)

Rank 0's median counts, and the best round of each system. A system that is not installed is
left out and reported. --torch names a Python with torch, --horovod one with Horovod (perf/bench/versus_horovod.py says
how to install it); halay is that of these sources and of a build folder.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import bench  # noqa: E402 (beside this file)
from bench import TOP  # noqa: E402
import versus_horovod  # noqa: E402

LIMIT_S = 600
WARMUP, LEAST_STEPS = 5, 5
SMALL = 1024
LAYERS, WIDTH = 6, 2048  # 100 MB of weights and biases
BATCH = 64
SYSTEMS = {"small": ["handle", "name", "halay", "gloo"], "optimizer": ["halay", "horovod"],
           "ddp": ["halay", "gloo"], "fsdp": ["halay", "gloo"]}
WAYS = {"handle": "%s, by a registered handle", "name": "%s, by name", "halay": "%s"}
MODELS = os.path.join(TOP, "perf/src/engine/models.c")


# ---- a rank ----------------------------------------------------------------------------------------------------------


def median_ms(step, count):
    """The median of so many steps; every rank takes as many."""
    for _ in range(WARMUP):
        step()
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def open_group(system):
    """torch.distributed over halay or gloo."""
    import torch.distributed as dist
    if system == "halay":
        import halay.distributed  # noqa: F401
    dist.init_process_group(system)
    return dist


def small(system, options):
    if system in ("handle", "name"):
        import numpy
        import halay
        with halay.Context() as ctx:
            data = numpy.ones(SMALL, numpy.float32)
            tensor = ctx.register(halay.Collective.ALLREDUCE, data, data, name="handle", reduction="max")
            step = (lambda: tensor.submit().wait()) if system == "handle" else (
                lambda: ctx.allreduce(data, data, name="name", reduction="max"))
            return ctx.rank, median_ms(step, options.steps)
    import torch
    dist = open_group(system)
    data = torch.ones(SMALL)
    ms = median_ms(lambda: dist.all_reduce(data, op=dist.ReduceOp.MAX), options.steps)
    rank = dist.get_rank()
    dist.destroy_process_group()
    return rank, ms


class Gradients:
    """Parameters of some sizes whose gradients are there after backward, and cost next to nothing."""

    def __init__(self, counts):
        import torch
        self.parameters = [torch.nn.Parameter(torch.zeros(count)) for count in counts]
        self.ones = [torch.ones(1).expand(count) for count in counts]

    def backward(self):
        import torch
        torch.autograd.backward(self.parameters[::-1], self.ones[::-1])


def optimizer(system, options):
    import torch
    if system == "halay":
        import halay.torch as hvd
    else:
        import horovod.torch as hvd
    hvd.init()
    counts = versus_horovod.read_models(MODELS)[options.models[0]]
    steps = []
    for is_distributed in (False, True):
        gradients = Gradients(counts)
        sgd = torch.optim.SGD(gradients.parameters, lr=0.0)
        if is_distributed:
            named = [("p%d" % i, p) for i, p in enumerate(gradients.parameters)]
            sgd = hvd.DistributedOptimizer(sgd, named_parameters=named)

        def step(sgd=sgd, gradients=gradients):
            sgd.zero_grad()
            gradients.backward()
            sgd.step()

        steps.append(median_ms(step, options.steps))
    rank = hvd.rank()
    hvd.shutdown()
    return rank, steps[1] - steps[0]


def network():
    import torch
    torch.manual_seed(1)
    layers = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def train_step(model):
    import torch
    batch = torch.randn(BATCH, WIDTH)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step():
        sgd.zero_grad()
        model(batch).sum().backward()
        sgd.step()

    return step


def ddp(system, options):
    import torch
    dist = open_group(system)
    alone = median_ms(train_step(network()), options.steps)
    both = median_ms(train_step(torch.nn.parallel.DistributedDataParallel(network())), options.steps)
    rank = dist.get_rank()
    dist.destroy_process_group()
    return rank, both - alone


def fsdp(system, options):
    import torch
    from torch.distributed.fsdp import fully_shard
    dist = open_group(system)
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in model[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    ms = median_ms(train_step(model), options.steps)
    rank = dist.get_rank()
    dist.destroy_process_group()
    return rank, ms


def be_rank(options):
    """Rank 0 prints the result as one line of JSON."""
    case, system = options.rank_of.split("/")
    if (case, system) not in (("small", "handle"), ("small", "name")):
        import torch
        torch.set_num_threads(1)
    rank, ms = {"small": small, "optimizer": optimizer, "ddp": ddp, "fsdp": fsdp}[case](system, options)
    if rank == 0:
        print(json.dumps({"ms": ms}), flush=True)


# ---- the run ---------------------------------------------------------------------------------------------------------


def python_of(case, system, options):
    return options.horovod if case == "optimizer" else options.torch


def run_one(case, system, model, options, steps):
    environment = bench.mpi_environment(PYTHONPATH=os.path.join(TOP, "python"), OMP_NUM_THREADS="1",
                                        HALAY_LIBRARY=os.path.join(options.build, ".libs/libhalay.so.1"),
                                        GLOO_SOCKET_IFNAME=os.environ.get("GLOO_SOCKET_IFNAME", "lo"))
    start = [os.path.join(options.build, "launcher/halayrun"), "-np", str(options.ranks), "--no-prefix"]
    if system == "horovod":
        start = [options.mpirun, "-np", str(options.ranks)]
    command = start + [python_of(case, system, options), os.path.abspath(__file__), "--rank-of", case + "/" + system,
                       "--models", model, "--steps", str(max(LEAST_STEPS, int(steps * options.share)))]
    with tempfile.TemporaryDirectory() as folder:
        return bench.last_object(bench.run(command, dict(environment, TMPDIR=folder), LIMIT_S))["ms"]


def measure(case, model, options, steps):
    """System -> the best round, in ms."""
    best = {}
    for _ in range(options.rounds):
        for system in SYSTEMS[case]:
            if system in options.left_out:
                continue
            ms = run_one(case, system, model, options, steps)
            best[system] = min(ms, best.get(system, ms))
    return best


def rows_of(what, best, peer, factor=1):
    """A row for each of halay's figures, the peer's beside it, and how many times it is."""
    theirs = best.get(peer)
    return [[WAYS.get(system, "%s") % what, bench.figure(ms * factor),
             bench.figure(theirs * factor) if theirs is not None else "",
             "%.1f" % (theirs / ms) if theirs is not None and ms > 0 else ""]
            for system, ms in best.items() if system != peer]


def parse(models):
    parser = bench.parser(__doc__)
    parser.add_argument("--cases", default=",".join(SYSTEMS), help="with commas (all)")
    parser.add_argument("--models", default="many-small,resnet50,bert-large",
                        help="of the optimizer, from %s, with commas (all but tft-electricity)" % ", ".join(models))
    parser.add_argument("--ranks", type=int, default=2, help="(2)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each system (3)")
    parser.add_argument("--share", type=float, default=1, help="of the usual number of steps (1)")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="with torch (this one)")
    parser.add_argument("--horovod", default=sys.executable, metavar="PYTHON", help="with Horovod and torch (this one)")
    parser.add_argument("--mpirun", default="mpirun", help="of the MPI that Horovod was built with (mpirun)")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    options = versus_horovod.read(parser, models)
    options.cases = options.cases.split(",")
    for name in options.cases:
        if name not in SYSTEMS:
            parser.error("no case '%s': there are %s" % (name, ", ".join(SYSTEMS)))
    return options


def main():
    models = versus_horovod.read_models(MODELS)
    options = parse(models)
    if options.rank_of:
        be_rank(options)
        return 0
    options.left_out = []
    if "optimizer" in options.cases and not bench.can_import(options.horovod, "torch, horovod.torch", LIMIT_S):
        print("versus_python.py: horovod is left out: '%s' has none; perf/bench/versus_horovod.py --help says how to "
              "install it" % options.horovod, file=sys.stderr)
        options.left_out.append("horovod")
    if not bench.can_import(options.torch, "torch.distributed, numpy", LIMIT_S):
        print("skipped: '%s' has no torch and NumPy; --torch names another Python" % options.torch, file=sys.stderr)
        return 77
    rows = []
    if "small" in options.cases:
        rows += rows_of("all-reduce of 4 KB, µs", measure("small", "one", options, 3000), "gloo", 1e3)
    if "optimizer" in options.cases:
        for name in options.models:
            best = measure("optimizer", name, options, {"many-small": 200, "resnet50": 20}.get(name, 5))
            rows += rows_of("DistributedOptimizer, `%s`: what it adds to a step, ms" % name, best, "horovod")
    if "ddp" in options.cases:
        rows += rows_of("DDP of 100 MB: what it adds to a step, ms", measure("ddp", "one", options, 15), "gloo")
    if "fsdp" in options.cases:
        rows += rows_of("FSDP 2 of 100 MB: a step, ms", measure("fsdp", "one", options, 15), "gloo")
    versions = [bench.run([options.torch, "-c", "import torch; print('torch', torch.__version__)"]).strip()]
    bench.show(options, "versus-python", ["what", "halay", "gloo or Horovod", "times"], rows,
               "%d ranks, in turn, best of %s; %s; Horovod with the torch of its Python."
               % (options.ranks, bench.plural(options.rounds, "round"), ", ".join(versions)))
    return 0


if __name__ == "__main__":
    bench.start(main)
