#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export_torch and import_torch of halay.tft beside PyTorch's models: the same parameters must give the same forecasts.

    python3 torch_models.py [--build FOLDER] [--nvidia FOLDER]

For each case a table of random numbers is written, prepared, and trained on for a few steps.

    export   the file is loaded, strictly, into PyTorch's model, made with the arguments that export returns; both
             forecast the same windows
    import   the parameters of a random PyTorch model are written to a file and imported; both forecast the same
             windows, and exporting again gives the same bits

The models are pytorch-forecasting's, if it can be imported, and that of NVIDIA's DeepLearningExamples, if --nvidia
names a folder with modeling.py of its PyTorch/Forecasting/TFT. One that is missing is reported and left out; if both
are, the exit status is 77.

Differences are those from PyTorch's forecasts in double, relative to the largest; in brackets those of PyTorch's own
forecasts in f32, which show the effect of rounding: large where a layer norm meets values that are nearly equal.
"""

import argparse
import csv
import importlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import types
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ENCODER, HORIZON, ROWS, TOLERANCE = 12, 4, 60, 1e-5
QUANTILES = [0.05, 0.5, 0.9]

# Inputs by (role, type): their names. The first target's name cannot be a module's in torch.
RICH = {("static", "category"): ["area", "kind"], ("static", "real"): ["height", "width"],
        ("known", "category"): ["holiday"], ("known", "real"): ["price", "values"],
        ("observed", "category"): ["state"], ("observed", "real"): ["wind", "rain"], ("target", "real"): ["P.M"]}
SMALL = {("static", "category"): ["area"], ("known", "real"): ["price"], ("target", "real"): ["load"]}
PLAIN = {("known", "real"): ["price"], ("observed", "real"): ["wind"], ("target", "real"): ["load", "gas"]}
NARROW = {("static", "real"): ["height", "width"], ("known", "real"): ["price", "hour"],
          ("known", "category"): ["flag"], ("target", "real"): ["load"]}
SIZES = {"area": 5, "kind": 2, "holiday": 3, "state": 4, "flag": 2}
CASES = [  # format, conformance, inputs, hidden size, heads, hidden continuous size, shortest encoder
    ("nvidia", "nvidia", RICH, 8, 2, 6, ENCODER), ("nvidia", "nvidia", SMALL, 8, 1, 8, ENCODER),
    ("nvidia", "published", RICH, 16, 4, 8, ENCODER), ("nvidia", "published", SMALL, 8, 2, 8, ENCODER),
    ("pytorch-forecasting", "pytorch-forecasting", RICH, 8, 2, 6, ENCODER),
    ("pytorch-forecasting", "pytorch-forecasting", SMALL, 8, 1, 8, ENCODER),
    ("pytorch-forecasting", "pytorch-forecasting", PLAIN, 8, 2, 3, 5),
    ("pytorch-forecasting", "pytorch-forecasting", NARROW, 8, 2, 1, ENCODER),
]


# ---- the table -------------------------------------------------------------------------------------------------------


class Table:
    """Rows of a few entities: numbers as they are written, so that both sides read the same."""

    def __init__(self, inputs, shortest, folder):
        self.inputs, self.folder, self.entities = inputs, folder, ["e%d" % k for k in range(5)]
        self.rows = {e: [self.row() for _ in range(ROWS)] for e in self.entities}
        for k, rows in enumerate(self.rows.values()):  # all categories are there
            for name in self.names("static"):
                for row in rows:
                    row[name] = k % SIZES[name] if name in SIZES else rows[0][name]
        lines = ["%s: {column: %s, role: %s, type: %s%s}"
                 % (n, n, role, kind, "" if kind == "category" else ", scale: none")
                 for (role, kind), names in inputs.items() for n in names]
        with open(self.path("schema.yaml"), "w", encoding="utf-8") as file:
            file.write("id: {column: id}\ntime: {column: t, integer: true}\ninputs:\n  %s\n" % "\n  ".join(lines) +
                       "window: {encoder: %d, horizon: %d, min_encoder: %d}\n" % (ENCODER, HORIZON, shortest) +
                       "split: {train: '< 40', test: '< %d'}\n" % ROWS)
        columns = [name for names in inputs.values() for name in names]
        with open(self.path("table.csv"), "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["id", "t"] + columns)
            for entity in self.entities:
                for t, row in enumerate(self.rows[entity]):
                    writer.writerow([entity, t] + ["c%d" % row[c] if c in SIZES else repr(row[c]) for c in columns])
        self.shortest = shortest

    def path(self, name):
        return os.path.join(self.folder, name)

    def names(self, role, kind=None):
        return [n for (r, k), names in self.inputs.items() for n in names if r == role and kind in (None, k)]

    def row(self):
        return {name: random.randrange(SIZES[name]) if name in SIZES else random.uniform(-1.5, 1.5)
                for names in self.inputs.values() for name in names}

    def value(self, entity, t, name):
        return self.rows[entity][t][name]


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError("%s: exit status %d\n%s" % (" ".join(command), done.returncode, done.stderr))
    return done.stdout


def forecasts(tft, table, checkpoint):
    """(entity, origin) -> target -> horizon -> quantiles"""
    found, out = {}, table.path("forecast.csv")
    for split in ["test"] + (["train"] if table.shortest < ENCODER else []):  # there windows begin in the first rows
        run(tft, "predict", "--checkpoint", checkpoint, "--split", split, "--stride", "3", table.path("table.csv"),
            "-o", out)
        with open(out, encoding="utf-8") as file:
            reader = csv.DictReader(file)
            for row in reader:
                window = found.setdefault((row[reader.fieldnames[0]], int(row["origin"])), {})
                for target in table.names("target"):
                    window.setdefault(target, []).append([float(row["%s_%g" % (target, q)]) for q in QUANTILES])
    return found


# ---- safetensors, as the format's description has it -----------------------------------------------------------------


def read_file(path):
    import torch
    with open(path, "rb") as file:
        length, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(length)), file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(entry["shape"])
    return tensors


def write_file(path, tensors):
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + 4 * tensor.numel()]}
        at += 4 * tensor.numel()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.detach().contiguous().numpy().tobytes())


# ---- the models ------------------------------------------------------------------------------------------------------


class Nvidia:
    def __init__(self, folder):
        """The model waits for a GPU wherever it runs: a copy without that line. TorchScript reads the file, so there
        must be one."""
        self.copy = tempfile.TemporaryDirectory()
        with open(os.path.join(folder, "modeling.py"), encoding="utf-8") as source, \
                open(os.path.join(self.copy.name, "modeling.py"), "w", encoding="utf-8") as to:
            to.writelines(line for line in source if line.strip() != "torch.cuda.synchronize()")
        sys.path.insert(0, self.copy.name)
        self.module = importlib.import_module("modeling")

    def make(self, document, table):
        import torch
        model = self.module.TemporalFusionTransformer(types.SimpleNamespace(**document["arguments"])).eval()
        with torch.no_grad():  # its lazy parameters take their shapes
            model(self.batch(document, table, [(table.entities[0], ENCODER - 1)], torch.float32))
        return model

    def batch(self, document, table, windows, real):
        import torch
        batch = {"id": None}
        for part, names in document["inputs"].items():
            kind = torch.long if part.endswith("cat") else real
            batch[part] = torch.tensor([[[table.value(e, t, n) for n in names]
                                         for t in range(origin + 1 - ENCODER, origin + 1 + HORIZON)]
                                        for e, origin in windows], dtype=kind) if names else None
        return batch

    def forecast(self, model, document, table, windows, real):
        """(window, target, horizon, quantile)"""
        return model(self.batch(document, table, windows, real)).unsqueeze(1)


class PytorchForecasting:
    def __init__(self):
        self.module = importlib.import_module("pytorch_forecasting")

    def make(self, document, table):
        from pytorch_forecasting.metrics import MultiLoss, QuantileLoss
        losses = [QuantileLoss(document["quantiles"]) for _ in document["targets"]]
        model = self.module.TemporalFusionTransformer(
            loss=losses[0] if len(losses) == 1 else MultiLoss(losses), **document["arguments"]).eval()
        model.transform_output = lambda prediction, target_scale, loss=None: prediction  # not back to the data's unit
        return model

    def forecast(self, model, document, table, windows, real):
        """Steps of the past come first in a row of the batch, what is missing behind them."""
        import torch
        back = {theirs: ours for ours, theirs in document["names"].items()}
        lengths = [min(ENCODER, origin + 1) for _, origin in windows]

        def part(names, kind, past):
            rows = []
            for (e, origin), length in zip(windows, lengths):
                steps = range(origin + 1 - length, origin + 1) if past else range(origin + 1, origin + 1 + HORIZON)
                row = [[table.value(e, t, back.get(n, n)) for n in names] for t in steps]
                rows.append(row + [[0] * len(names)] * ((max(lengths) if past else HORIZON) - len(row)))
            return torch.tensor(rows, dtype=kind)

        a = document["arguments"]
        out = model({"encoder_cat": part(a["x_categoricals"], torch.long, True),
                     "encoder_cont": part(a["x_reals"], real, True),
                     "decoder_cat": part(a["x_categoricals"], torch.long, False),
                     "decoder_cont": part(a["x_reals"], real, False),
                     "encoder_lengths": torch.tensor(lengths),
                     "decoder_lengths": torch.full((len(windows),), HORIZON), "target_scale": None})["prediction"]
        return torch.stack(out if isinstance(out, list) else [out], dim=1)


# ---- the comparison --------------------------------------------------------------------------------------------------


def differences(implementation, model, document, table, found):
    """Ours and theirs in f32, from theirs in double: the largest of each, relative to the largest forecast."""
    import torch
    windows = sorted(found)
    ours = torch.tensor([[found[w][target] for target in table.names("target")] for w in windows], dtype=torch.float64)
    with torch.no_grad():
        theirs = implementation.forecast(model, document, table, windows, torch.float32).double()
        exact = implementation.forecast(model.double(), document, table, windows, torch.float64)
    model.float()
    if exact.shape != ours.shape:
        raise RuntimeError("forecasts of shape %s and %s" % (list(exact.shape), list(ours.shape)))
    return [((f - exact).abs().max() / exact.abs().max()).item() for f in (ours, theirs)]


def one_case(tft, implementation, case, folder):
    """What is wrong, as texts, the differences after export and after import, and the names and shapes of PyTorch's."""
    import torch
    name, conformance, inputs, hidden, heads, continuous, shortest = case
    table = Table(inputs, shortest, folder)
    from halay.tft import Forecaster, export_torch, import_torch
    sizes = {"hidden_size": hidden, "heads": heads, "hidden_continuous_size": continuous, "quantiles": QUANTILES}
    keys = ["--hidden-size", str(hidden), "--heads", str(heads), "--hidden-continuous-size", str(continuous),
            "--quantiles", ",".join(map(str, QUANTILES))]
    data, trained, file, again = (table.path(p) for p in ("d.htd", "run", "f.safetensors", "g.safetensors"))
    run(tft, "prepare", "--schema", table.path("schema.yaml"), table.path("table.csv"), "-o", data)
    run(tft, "train", "--data", data, "--out", trained, "--max-steps", "5", "--threads", "1",
        "--conformance", conformance, "--keep", "0", *keys)
    wrong, both = [], []

    document = export_torch(Forecaster.load(trained), file, name)
    model = implementation.make(document, table)
    model.load_state_dict(read_file(file), strict=True)
    both.append(differences(implementation, model, document, table, forecasts(tft, table, trained)))

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    write_file(file, model.state_dict())
    imported = import_torch(file, name, data=data, **sizes)
    imported.save(table.path("imported"))
    both.append(differences(implementation, model, document, table, forecasts(tft, table, table.path("imported"))))
    export_torch(imported, again, name)
    written, state = read_file(again), model.state_dict()
    for tensor in sorted(set(written) ^ set(state)):
        wrong.append("'%s' is in one of the files only" % tensor)
    for tensor in sorted(set(written) & set(state)):
        if not torch.equal(written[tensor], state[tensor]) and tensor != "static_encoder.vsn.joint_grn.lin_c.weight":
            wrong.append("'%s' has other bits after a round trip" % tensor)
    wrong += ["forecasts differ by %.3g of the largest after %s, %s's own in f32 by %.3g" % (ours, what, name, theirs)
              for (ours, theirs), what in zip(both, ("export", "import")) if not ours <= max(TOLERANCE, 4 * theirs)]
    return wrong, both, {tensor: list(values.shape) for tensor, values in state.items()}


def find_models(options):
    models = {}
    if options.nvidia:
        models["nvidia"] = Nvidia(options.nvidia)
    else:
        print("torch_models.py: nvidia is left out: --nvidia names no folder", file=sys.stderr)
    try:
        models["pytorch-forecasting"] = PytorchForecasting()
    except ImportError as error:
        print("torch_models.py: pytorch-forecasting is left out: %s" % error, file=sys.stderr)
    return models


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"), help="build folder (../../build)")
    parser.add_argument("--nvidia", metavar="FOLDER", help="with NVIDIA's modeling.py")
    parser.add_argument("--names", metavar="FILE",
                        help="append each format's names and shapes of the first case (torch_models.txt)")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.environ["HALAY_LIBRARY"] = os.path.join(options.build, ".libs", "libhalay.so.1")
    sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
    try:
        import torch
    except ImportError as error:
        print("skipped: %s" % error, file=sys.stderr)
        return 77
    torch.manual_seed(1)
    random.seed(1)
    models, failed, done = find_models(options), 0, 0
    for case in CASES:
        if case[0] not in models:
            continue
        with tempfile.TemporaryDirectory() as folder:
            tft = os.path.join(options.build, "halay-tft")
            wrong, (after_export, after_import), shapes = one_case(tft, models[case[0]], case, folder)
        done += 1
        failed += bool(wrong)
        print("%-20s %-20s hidden %2d, %2d inputs: export %.1e (%.1e), import %.1e (%.1e)%s" % (
            case[0], case[1], case[3], sum(map(len, case[2].values())), *after_export, *after_import,
            ": WRONG" if wrong else ""), flush=True)
        for text in wrong:
            print("    " + text)
        if options.names and case[2] is RICH and case[0] == case[1]:
            with open(options.names, "a", encoding="utf-8") as file:
                file.writelines("%s %s %d %s\n" % (case[0], tensor, len(shape), " ".join(map(str, shape)))
                                for tensor, shape in sorted(shapes.items()))
    if not done:
        print("skipped: none of the models is there", file=sys.stderr)
        return 77
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
