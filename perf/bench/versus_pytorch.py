#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trainer beside PyTorch's TFTs: training samples per second, in turn, in one run.

Shapes of the Electricity configuration: 168 + 24 hours, batch of 64 (--batch), 4 heads, dropout 0.1, hidden size 160
and 64; synthetic samples, so that reading data does not count. halay runs as halay-tft-bench of a build folder, the
others as this file again, in a process of their own:

    nvidia                NVIDIA's DeepLearningExamples, PyTorch/Forecasting/TFT: modeling.py and configuration.py in a
                          folder that --nvidia names; f32, and bf16 by autocast
    pytorch-forecasting   its TFT of hidden size 64, hidden continuous size 32, f32

All compute on the CPU, or all on a GPU (--device cuda: tools/gpu-check), where the rows are f32 without TF32, tf32, and
bf16; NVIDIA's TFT then runs as its script does, and with each step as one CUDA graph, which is what halay does; batches
lie on the GPU, Adam is fused, and only every tenth step is waited for. The systems take turns; a turn's figure is that
of its median step, and each one's best round counts. A system that is not installed is left out and reported (pip
install torch pytorch-forecasting); so is the row of bf16 on a processor without it, and a step that cannot be a graph.
"""

import argparse
import atexit
import collections
import enum
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import types
import warnings

sys.dont_write_bytecode = True
import bench  # noqa: E402 (beside this file)
from bench import can_import  # noqa: E402

NVIDIA_FILES = ("modeling.py", "configuration.py")
NO_BF16 = "no matrix products in bf16 here"  # halay-tft's error (tft/core/model/model.c)
ENCODER, HORIZON, LIMIT_S = 168, 24, 600
WARMUP = 8  # steps: TorchScript compiles in the first ones, and cuDNN chooses

# What is compared: a name, hidden size, type of the products' factors, who has it.
ROWS = [("hidden size 160, f32", 160, "f32", ["nvidia"]), ("hidden size 160, bf16", 160, "bf16", ["nvidia"]),
        ("hidden size 64, f32", 64, "f32", ["nvidia", "pytorch-forecasting"])]
GPU_ROWS = [("hidden size %d, %s" % (hidden, dtype), hidden, dtype, ["nvidia", "nvidia-graph"])
            for hidden in (160, 64) for dtype in ("bf16", "tf32", "f32")]
PEERS = {"nvidia": "NVIDIA's TFT", "nvidia-graph": "NVIDIA's TFT, a CUDA graph",
         "pytorch-forecasting": "pytorch-forecasting"}


# ---- a peer's process ------------------------------------------------------------------------------------------------


def nvidia_step(options, hidden, dtype):
    """A training step of NVIDIA's model as a function, and its version."""
    import torch
    os.environ.setdefault("TFT_SCRIPTING", "1")  # older files take apex's layer norm without it
    inputs = types.ModuleType("data_utils")  # what configuration.py takes from the file that reads data
    inputs.InputTypes = enum.IntEnum("InputTypes", "TARGET OBSERVED KNOWN STATIC ID TIME", start=0)
    inputs.DataTypes = enum.IntEnum("DataTypes", "CONTINUOUS CATEGORICAL DATE STR", start=0)
    inputs.FeatureSpec = collections.namedtuple("FeatureSpec", ["name", "feature_type", "feature_embed_type"])
    sys.modules["data_utils"] = inputs
    # The model waits for a GPU wherever it runs: a copy without that line. TorchScript reads the file, so it must be
    # one.
    copy = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, copy, True)
    for name in NVIDIA_FILES:
        with open(os.path.join(options.nvidia, name), encoding="utf-8") as source, \
                open(os.path.join(copy, name), "w", encoding="utf-8") as to:
            to.writelines(line for line in source if line.strip() != "torch.cuda.synchronize()")
    sys.path.insert(0, copy)
    from configuration import ElectricityConfig
    from modeling import TemporalFusionTransformer
    config = ElectricityConfig()
    config.hidden_size = hidden
    device, size, length = options.device, options.batch, ENCODER + HORIZON
    on_gpu = device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype != "f32"
    model = TemporalFusionTransformer(config).to(device).train()
    batch = {"s_cat": torch.randint(0, 369, (size, length, 1), device=device), "s_cont": None, "k_cat": None,
             "k_cont": torch.randn(size, length, 3, device=device), "o_cat": None, "o_cont": None,
             "target": torch.randn(size, length, 1, device=device), "id": None}
    model(batch)  # its lazy parameters take their shapes
    levels = torch.tensor([0.1, 0.5, 0.9], device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, **(dict(fused=True, capturable=True) if on_gpu else {}))

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bf16", cache_enabled=not on_gpu):
            forecast = model(batch)
        over = forecast.float() - batch["target"][:, ENCODER:, :]
        ((1 - levels) * over.relu() + levels * (-over).relu()).mean(dim=(0, 1)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()

    return step, "NVIDIA's TFT, torch " + torch.__version__ + (
        " on an " + torch.cuda.get_device_name() if on_gpu else "")


def graph_of(step):
    """The step as one CUDA graph."""
    import torch
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARMUP):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def pytorch_forecasting_step(options, hidden):
    import pandas
    import pytorch_forecasting as peer
    import torch
    hours = ENCODER + HORIZON + options.batch
    table = pandas.DataFrame({"zone": [str(z) for z in range(10) for _ in range(hours)],
                              "hour": list(range(hours)) * 10, "y": torch.randn(10 * hours).numpy()})
    table["of_day"], table["of_week"] = table.hour % 24 * 1.0, table.hour // 24 % 7 * 1.0
    data = peer.TimeSeriesDataSet(
        table, time_idx="hour", target="y", group_ids=["zone"], max_encoder_length=ENCODER, min_encoder_length=ENCODER,
        max_prediction_length=HORIZON, min_prediction_length=HORIZON, static_categoricals=["zone"],
        time_varying_known_reals=["of_day", "of_week", "hour"], time_varying_unknown_reals=["y"])
    model = peer.TemporalFusionTransformer.from_dataset(
        data, hidden_size=hidden, hidden_continuous_size=hidden // 2, attention_head_size=4, dropout=0.1,
        loss=peer.QuantileLoss([0.1, 0.5, 0.9]), output_size=3).to(options.device).train()
    x, y = next(iter(data.to_dataloader(train=True, batch_size=options.batch, num_workers=0)))
    x = {name: one.to(options.device) if torch.is_tensor(one) else one for name, one in x.items()}
    y = tuple(one.to(options.device) if torch.is_tensor(one) else one for one in y)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model.loss(model(x)["prediction"], y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()

    return step, "pytorch-forecasting " + peer.__version__


def be_peer(options):
    """Prints the result as one line of JSON."""
    warnings.filterwarnings("ignore")
    import torch
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    hidden, dtype = int(options.hidden), options.dtype
    step, version = pytorch_forecasting_step(options, hidden) if options.peer == "pytorch-forecasting" else \
        nvidia_step(options, hidden, dtype)
    if options.peer == "nvidia-graph":
        step = graph_of(step)
    wait, together = (torch.cuda.synchronize, min(10, options.steps)) if options.device == "cuda" else (int, 1)
    for _ in range(WARMUP):
        step()
    wait()
    times = []
    for _ in range(options.steps // together):
        start = time.perf_counter()
        for _ in range(together):
            step()
        wait()
        times.append((time.perf_counter() - start) / together)
    print(json.dumps({"samples_per_second": options.batch / statistics.median(times), "version": version}), flush=True)


# ---- the run ---------------------------------------------------------------------------------------------------------


def run_halay(options, hidden, dtype):
    command = [os.path.join(options.build, "perf/halay-tft-bench"), "--threads", str(options.threads),
               "--hidden", str(hidden), "--batch", str(options.batch), "--dtype", dtype, "--device", options.device,
               "--steps", str(options.steps), "--json", "-"]
    report = json.loads(bench.run(command, limit_s=LIMIT_S))
    rate = options.batch / report["step_ms"] * 1e3
    return {"samples_per_second": rate, "version": "halay, " + report["matrix_products"]}


def run_peer(options, which, hidden, dtype):
    command = [options.torch, os.path.abspath(__file__), "--peer", which, "--hidden", str(hidden), "--dtype", dtype,
               "--threads", str(options.threads), "--steps", str(options.steps), "--batch", str(options.batch),
               "--device", options.device]
    if options.nvidia:
        command += ["--nvidia", options.nvidia]
    return bench.last_object(bench.run(command, limit_s=LIMIT_S))


def run_if_possible(options, which, hidden, dtype):
    """None, after a line about it, for steps that cannot be a graph."""
    try:
        return run_peer(options, which, hidden, dtype)
    except RuntimeError as error:
        if which != "nvidia-graph":
            raise
        print("versus_pytorch.py: no graph, hidden size %d, %s: %s"
              % (hidden, dtype, str(error).strip().splitlines()[-1]), file=sys.stderr)
        return None


def peers_of(options):
    peers = []
    if not options.nvidia:
        print("versus_pytorch.py: nvidia is left out: --nvidia names no folder with its files", file=sys.stderr)
    elif not all(os.path.exists(os.path.join(options.nvidia, name)) for name in NVIDIA_FILES):
        raise RuntimeError("'%s' has no %s" % (options.nvidia, " and ".join(NVIDIA_FILES)))
    elif not can_import(options.torch, "torch", LIMIT_S):
        print("versus_pytorch.py: nvidia is left out: '%s' has no torch" % options.torch, file=sys.stderr)
    else:
        peers += ["nvidia", "nvidia-graph"]
    if options.device == "cuda":
        return peers
    if can_import(options.torch, "pytorch_forecasting", LIMIT_S):
        peers.append("pytorch-forecasting")
    else:
        print("versus_pytorch.py: '%s' has no pytorch_forecasting: left out" % options.torch, file=sys.stderr)
    return peers


def measure(options, row, peers):
    """System -> the best round."""
    _, hidden, dtype, who = row
    best = {}
    for _ in range(options.rounds):
        for system in ["halay"] + [peer for peer in who if peer in peers]:
            if system == "halay":
                result = run_halay(options, hidden, dtype)
            else:
                result = run_if_possible(options, system, hidden, dtype)
            if not result:
                continue
            if system not in best or result["samples_per_second"] > best[system]["samples_per_second"]:
                best[system] = result
    return best


def measure_if_possible(options, row, peers):
    """None, after a line about it, for a row of bf16 on a processor without it."""
    try:
        return measure(options, row, peers)
    except RuntimeError as error:
        if NO_BF16 not in str(error):
            raise
        print("versus_pytorch.py: '%s' is left out: %s" % (row[0], str(error).strip().splitlines()[-1]),
              file=sys.stderr)
        return None


def row_of(name, best, peers):
    """perf/bench/speedups reads the ratios in brackets."""
    ours = best["halay"]["samples_per_second"]
    cells = [name, "%.0f" % ours]
    for peer in peers:
        theirs = best[peer]["samples_per_second"] if peer in best else 0
        cells.append("%.0f (%.1f)" % (theirs, ours / theirs) if theirs else "")
    return cells


def parse():
    parser = bench.parser(__doc__)
    parser.add_argument("--nvidia", metavar="FOLDER", help="with NVIDIA's modeling.py and configuration.py")
    parser.add_argument("--torch", default=sys.executable, metavar="PYTHON", help="with torch (this one)")
    parser.add_argument("--threads", type=int, default=2, help="of each system (2)")
    parser.add_argument("--steps", type=int, default=10, help="of a turn, after %d to warm up (10)" % WARMUP)
    parser.add_argument("--rounds", type=int, default=2, help="turns of each system (2)")
    parser.add_argument("--hidden", metavar="SIZES", default="160,64", help="hidden sizes, with commas (160,64)")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step (64)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where all compute (cpu)")
    parser.add_argument("--peer", choices=list(PEERS), help=argparse.SUPPRESS)
    parser.add_argument("--dtype", choices=["f32", "tf32", "bf16"], help=argparse.SUPPRESS)
    options = bench.read(parser)
    if min(options.threads, options.steps, options.rounds, options.batch) < 1:
        parser.error("threads, steps, rounds and batch must be at least 1")
    if set(options.hidden.split(",")) - {"160", "64"}:
        parser.error("hidden sizes are of 160, 64")
    return options


def main():
    options = parse()
    if options.peer:
        return be_peer(options)
    peers = peers_of(options)
    if not peers:
        print("skipped: nothing of PyTorch to compare with", file=sys.stderr)
        return 77
    rows, versions = [], set()
    if options.device == "cpu":
        peers = [peer for peer in peers if peer != "nvidia-graph"]
    for row in GPU_ROWS if options.device == "cuda" else ROWS:
        best = measure_if_possible(options, row, peers) if str(row[1]) in options.hidden.split(",") else None
        if best:
            rows.append(row_of(row[0], best, peers))
            versions.update(result["version"] for result in best.values())
    bench.show(options, "versus-pytorch", ["", "halay"] + [PEERS[peer] for peer in peers], rows,
               "Training samples/s, %s%s, in turn; in brackets halay's over theirs; %s."
               % ("a GPU, " if options.device == "cuda" else "", bench.plural(options.threads, "thread"),
                  ", ".join(sorted(versions))))
    return 0


if __name__ == "__main__":
    bench.start(main)
