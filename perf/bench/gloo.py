# SPDX-License-Identifier: Apache-2.0
"""Gloo's all-reduce over TCP beside ours: through torch.distributed, and in C++ by the benchmark of its sources.

usage (one rank of torch.distributed): gloo.py FILE RANK RANKS BYTES...

Calls follow each other without a barrier, which is in Gloo's favour: halay-perf has one before each iteration.
"""

import functools
import os
import subprocess
import sys
import tempfile
import time

ALGORITHMS = ("allreduce_ring_chunked", "allreduce_halving_doubling")
LIMIT_S = 600


def iterations(size):
    return max(10, min(1000, (64 << 20) // size))


def be_rank(file, rank, ranks, *sizes):
    """Prints a line for each size: the bytes and the median of the slowest rank's µs."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method="file://" + file, rank=int(rank), world_size=int(ranks))
    for size in map(int, sizes):
        data, times = torch.empty(size // 4), []
        for _ in range(iterations(size) + 2):
            data.fill_(1)
            begin = time.perf_counter()
            distributed.all_reduce(data)
            times.append(time.perf_counter() - begin)
        if not bool((data == int(ranks)).all()):
            sys.exit("the sums are wrong")
        slowest = torch.tensor(times[2:])
        distributed.all_reduce(slowest, distributed.ReduceOp.MAX)
        if rank == "0":
            print(size, 1e6 * float(slowest.median()), flush=True)


def run_ranks(commands, device):
    """Standard output of rank 0 of a command a rank; RuntimeError if one of them fails."""
    environment = dict(os.environ, GLOO_SOCKET_IFNAME=device, OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen(command, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) for command in commands]
    try:
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    if any(rank.returncode for rank in ranks):
        raise RuntimeError("%s: exit status %s" % (" ".join(commands[0]), [rank.returncode for rank in ranks]))
    return said[0]


def through_torch(options, places, device, sizes):
    """Bytes -> µs. A place makes the words that run a rank's command out of the command's.

    The ranks meet in a file of the build folder, since each host of a lab has a /tmp of its own.
    """
    with tempfile.TemporaryDirectory(dir=options.build) as folder:
        said = run_ranks([place([options.torch, os.path.abspath(__file__), os.path.join(folder, "store"), str(rank),
                                 str(len(places))] + [str(size) for size in sizes])
                          for rank, place in enumerate(places)], device)
    return {int(size): float(us) for size, us in (line.split() for line in said.splitlines())}


def in_cpp(options, places, device, sizes):
    """Bytes -> µs, the better of two algorithms."""
    return {size: min(one_in_cpp(options, places, device, size, algorithm) for algorithm in ALGORITHMS)
            for size in sizes}


def one_in_cpp(options, places, device, size, algorithm):
    with tempfile.TemporaryDirectory(dir=options.build) as folder:
        said = run_ranks([place([options.gloo, "--size", str(len(places)), "--rank", str(rank), "--shared-path", folder,
                                 "--prefix", "halay", "--transport", "tcp", "--tcp-device", device, "--no-verify",
                                 "--elements", str(size // 4), "--iteration-count", str(iterations(size)), "--nanos",
                                 algorithm]) for rank, place in enumerate(places)], device)
    rows = [line.split() for line in said.splitlines()]
    return [int(row[3]) / 1000 for row in rows if len(row) >= 7 and row[1] == str(size // 4)][0]


def add_options(parser):
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch, to measure Gloo through it")
    parser.add_argument("--gloo", metavar="PROGRAM", help="gloo/benchmark/benchmark of a build of Gloo, to measure it")


def peers(options):
    """Name -> function of places, device and sizes; says which are left out."""
    given = {"torch.distributed, Gloo": (options.torch, through_torch), "Gloo in C++": (options.gloo, in_cpp)}
    for name, (path, _) in given.items():
        if not path:
            print("%s is left out: %s" % (name, "--torch names no Python" if "torch" in name else
                                          "--gloo names no program"), file=sys.stderr)
    return {name: functools.partial(times, options) for name, (path, times) in given.items() if path}


if __name__ == "__main__":
    be_rank(*sys.argv[1:])
