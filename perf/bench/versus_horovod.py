#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The engine beside Horovod and torch.distributed's gloo: the same gradients, in turn, in one run.

Each model's gradients (those of perf/src/engine/models.c) are submitted at once, last layers first, then waited for. A
step is as long as its slowest rank's; the median of the steps counts. "one" is a single cached tensor of 4 KB,
submitted and waited for. halay runs as halay-perf engine of a build folder, Horovod and gloo as this file again, once a
rank. The systems take turns; each one's best round counts. A system that is not installed is left out and reported.

Horovod 0.28.1 needs Python 3.10 (a virtual environment does) and Open MPI's compilers:
    pip install torch==1.13.1 'numpy<2' 'setuptools<70' 'cmake<3.28' wheel packaging cloudpickle psutil pyyaml cffi
    HOROVOD_WITH_MPI=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_WITHOUT_TENSORFLOW=1 \\
        HOROVOD_WITHOUT_MXNET=1 pip install --no-build-isolation horovod==0.28.1
gloo comes with any torch: pip install torch.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import bench  # noqa: E402 (beside this file)
from bench import TOP  # noqa: E402

MODULES = {"horovod": "horovod.torch", "gloo": "torch.distributed"}
PEERS = {"horovod": "Horovod", "gloo": "gloo"}
OURS = {"shared": "`halay_alloc`", "private": "private"}
WARMUP = 3
STEPS_LEAST, STEPS_MOST = 5, 1000
LIMIT_S = 300


def expand(pattern):
    """The numbers of a pattern of perf/src/engine/models.c: "3*(9408 2*64)"."""
    words = re.findall(r"\d+|[*()]", pattern)

    def items(at):
        out = []
        while at < len(words) and words[at] != ")":
            times, body = 1, [int(words[at])]
            at += 1
            if at < len(words) and words[at] == "*":
                times = body[0]
                if words[at + 1] == "(":
                    body, at = items(at + 2)
                else:
                    body, at = [int(words[at + 1])], at + 1
                at += 1
            out += body * times
        return out, at

    return items(0)[0]


def read_models(path):
    """Name -> number of elements of each tensor, in order of forward."""
    with open(path, encoding="utf-8") as file:
        rows = re.findall(r'\{\s*"([^"]+)",\s*"[^"]*",\s*((?:"[^"]*"\s*)+),\s*\d+\s*\}', file.read())
    models = {"one": [1024]}
    for name, strings in rows:
        models[name] = expand("".join(re.findall(r'"([^"]*)"', strings)))
    return models


# ---- a rank of Horovod or gloo ---------------------------------------------------------------------------------------


class Horovod:
    def __init__(self):
        import horovod.torch as hvd
        hvd.init()
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()
        self.version = "horovod " + __import__("horovod").__version__

    def submit(self, tensor, name):
        return self.hvd.allreduce_async_(tensor, name=name, op=self.hvd.Sum)

    def wait(self, handle):
        self.hvd.synchronize(handle)

    def barrier(self):
        self.hvd.barrier()

    def greatest(self, tensor):
        return self.hvd.allreduce(tensor, name="greatest", op=self.hvd.Max)

    def leave(self):
        self.hvd.shutdown()


class Gloo:
    def __init__(self):
        import torch.distributed as dist
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=self.rank,
                                world_size=self.size)
        self.dist = dist
        self.version = "gloo of torch " + __import__("torch").__version__

    def submit(self, tensor, name):
        return self.dist.all_reduce(tensor, async_op=True)

    def wait(self, handle):
        handle.wait()

    def barrier(self):
        self.dist.barrier()

    def greatest(self, tensor):
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return tensor

    def leave(self):
        self.dist.barrier()
        self.dist.destroy_process_group()


def step(peer, tensors, name):
    start = time.perf_counter()
    handles = [peer.submit(tensors[i], "%s.%d" % (name, i)) for i in range(len(tensors) - 1, -1, -1)]
    for handle in handles:
        peer.wait(handle)
    return time.perf_counter() - start


def be_rank(which, name, seconds):
    """Rank 0 prints the result as one line of JSON."""
    import torch
    torch.set_num_threads(1)
    peer = Horovod() if which == "horovod" else Gloo()
    tensors = [torch.ones(count) for count in read_models(os.path.join(TOP, "perf/src/engine/models.c"))[name]]
    warm = []
    for _ in range(WARMUP):
        peer.barrier()
        warm.append(step(peer, tensors, name))
    if any(abs(float(t[0]) - peer.size ** WARMUP) > 1e-3 * peer.size ** WARMUP for t in tensors):
        raise SystemExit("%s: the sums are wrong" % which)
    worst = float(peer.greatest(torch.tensor([min(warm)]))[0])
    steps = min(max(int(seconds / worst), STEPS_LEAST), STEPS_MOST)
    times = []
    for _ in range(steps):
        for tensor in tensors:
            tensor.fill_(1.0)
        peer.barrier()
        times.append(step(peer, tensors, name))
    slowest = peer.greatest(torch.tensor(times, dtype=torch.float64))
    if peer.rank == 0:
        print(json.dumps({"step_ms": statistics.median(slowest.tolist()) * 1e3, "steps": steps,
                          "version": peer.version}), flush=True)
    peer.leave()


# ---- the run ---------------------------------------------------------------------------------------------------------


def run_halay(options, name, buffers):
    command = [os.path.join(options.build, "launcher", "halayrun"), "-np", str(options.ranks), "--no-prefix",
               os.path.join(options.build, "perf", "halay-perf"), "engine", "--buffers", buffers,
               "--idle", "0", "--json", "-"]
    if name != "one":
        command += ["--model", name, "-n", "1"]
    report = json.loads(bench.run(command, limit_s=LIMIT_S))
    version = "halay " + report["versions"]["halay"]
    if name == "one":
        return {"step_ms": report["driven_latency_us"]["p50"] / 1e3, "version": version}
    return {"step_ms": report["step_ms"], "version": version}


def run_horovod(options, name):
    command = [options.mpirun, "-np", str(options.ranks), options.horovod, os.path.abspath(__file__),
               "--rank-of", "horovod", "--models", name, "--seconds", str(options.seconds)]
    return bench.last_object(bench.run(command, bench.mpi_environment(), LIMIT_S))


def run_gloo(options, name):
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(options.ranks):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.ranks), MEETING=folder + "/meeting")
            environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
            ranks.append(subprocess.Popen(
                [options.torch, os.path.abspath(__file__), "--rank-of", "gloo", "--models", name, "--seconds",
                 str(options.seconds)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        said = [rank.communicate(timeout=LIMIT_S) for rank in ranks]
        for number, rank in enumerate(ranks):
            if rank.returncode:
                raise RuntimeError("gloo: rank %d: exit status %d\n%s"
                                   % (number, rank.returncode, said[number][1][-2000:]))
        return bench.last_object(said[0][0])


def is_installed(which, python):
    if bench.can_import(python, "torch, " + MODULES[which], LIMIT_S):
        return True
    how = __doc__[__doc__.index("Horovod 0.28.1"):__doc__.index("gloo comes")] if which == "horovod" else \
        __doc__[__doc__.index("gloo comes"):]
    print("versus_horovod.py: %s is left out: '%s' has no %s\n%s(--%s names another Python)\n"
          % (which, python, MODULES[which], how, "horovod" if which == "horovod" else "torch"), file=sys.stderr)
    return False


def measure(options, name, systems):
    """System -> the best round."""
    best = {}
    for _ in range(options.rounds):
        for system, run in systems.items():
            result = run(options, name)
            if system not in best or result["step_ms"] < best[system]["step_ms"]:
                best[system] = result
    return best


def columns_of(peers):
    """perf/bench/speedups reads them by their names."""
    return (["model", "tensors", "MB"] + ["halay, " + OURS[ours] for ours in OURS] + [PEERS[peer] for peer in peers] +
            ["%s / %s" % (PEERS[peer], OURS[ours]) for peer in peers for ours in OURS])


def row_of(name, counts, best, peers):
    ms = {system: result["step_ms"] for system, result in best.items()}
    return (["`%s`" % name, len(counts), bench.figure(4 * sum(counts) / 1e6, 2)] +
            [bench.figure(ms[system]) for system in list(OURS) + peers] +
            ["%.1f" % (ms[peer] / ms[ours]) for peer in peers for ours in OURS])


def read(parser, models):
    """The options of a parser that has --models, --ranks and --rounds."""
    options = bench.read(parser)
    options.models = options.models.split(",")
    for name in options.models:
        if name not in models:
            parser.error("no model '%s': there are %s" % (name, ", ".join(models)))
    if options.ranks < 2 or options.rounds < 1:
        parser.error("ranks must be at least 2, rounds at least 1")
    return options


def parse(models):
    parser = bench.parser(__doc__)
    parser.add_argument("--models", default="one,many-small,resnet50,bert-large",
                        help="from %s, with commas (all but tft-electricity)" % ", ".join(models))
    parser.add_argument("--ranks", type=int, default=2, help="(2)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each system (2)")
    parser.add_argument("--seconds", type=float, default=3, help="of a peer's turn, about (3)")
    parser.add_argument("--horovod", default=sys.executable, metavar="PYTHON", help="with Horovod (this one)")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="with torch, for gloo (this one)")
    parser.add_argument("--mpirun", default="mpirun", help="of the MPI that Horovod was built with (mpirun)")
    parser.add_argument("--list", action="store_true", help="print the models and end")
    parser.add_argument("--rank-of", choices=["horovod", "gloo"], help=argparse.SUPPRESS)
    return read(parser, models)


def main():
    models = read_models(os.path.join(TOP, "perf/src/engine/models.c"))
    options = parse(models)
    if options.rank_of:
        return be_rank(options.rank_of, options.models[0], options.seconds)
    if options.list:
        for name, counts in models.items():
            print("%s: %d tensors, %d elements" % (name, len(counts), sum(counts)))
        return 0
    systems = {"shared": lambda o, name: run_halay(o, name, "shared"),
               "private": lambda o, name: run_halay(o, name, "private")}
    if is_installed("horovod", options.horovod):
        systems["horovod"] = run_horovod
    if is_installed("gloo", options.torch):
        systems["gloo"] = run_gloo
    if len(systems) == 2:
        print("skipped: neither Horovod nor torch to compare with", file=sys.stderr)
        return 77
    peers = [peer for peer in PEERS if peer in systems]
    rows, versions = [], set()
    for name in options.models:
        best = measure(options, name, systems)
        rows.append(row_of(name, models[name], best, peers))
        versions.update(result["version"] for result in best.values())
    bench.show(options, "versus-horovod", columns_of(peers), rows, "ms a step, %d ranks, in turn; %s."
               % (options.ranks, ", ".join(sorted(versions))))
    return 0


if __name__ == "__main__":
    bench.start(main)
