# SPDX-License-Identifier: Apache-2.0
"""
Models from and for PyTorch: names and shapes are those of state_dict() (tests/reference/torch_models.txt, written by
torch_models.py, which also compares forecasts); each of their numbers is one of ours and comes back with the same bits;
a file that does not fit is refused with every difference; so is a model that a graph cannot express. A run's folder
that was exported and imported forecasts the same.

usage: torch_files.py TOP_SRCDIR FOLDER: FOLDER is empty, and halay-tft is in PATH.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import warnings

import numpy as np
from halay.errors import ArgumentError, ConfigError, FormatError, HalayError, UnsupportedError
from halay.tft import Forecaster, _torch, _torch_maps, export_torch, import_torch
from halay.tft._session import session_of

ENCODER, HORIZON = 12, 4
NVIDIA, FORECASTING = "nvidia", "pytorch-forecasting"
RICH = [("area", "static", 5), ("kind", "static", 2), ("height", "static", 0), ("width", "static", 0),
        ("holiday", "known", 3), ("price", "known", 0), ("values", "known", 0), ("state", "observed", 4),
        ("wind", "observed", 0), ("rain", "observed", 0), ("P.M", "target", 0)]  # fmt: skip
SMALL = [("area", "static", 5), ("price", "known", 0), ("load", "target", 0)]
KEYS = {"hidden_size": 8, "heads": 2, "hidden_continuous_size": 6}

top, scratch = sys.argv[1:]


def path(name):
    return os.path.join(scratch, name)


def table(inputs):
    """Rows of five entities, in which each category is there, and their schema."""
    columns = {"id": [], "t": [], **{name: [] for name, _, _ in inputs}}
    for entity in range(5):
        for t in range(60):
            columns["id"].append(f"e{entity}")
            columns["t"].append(t)
            for k, (name, role, categories) in enumerate(inputs):
                step = entity if role == "static" else entity + t
                number = np.sin(step * 0.7 + k) + step % 3
                columns[name].append(f"c{step % categories}" if categories else float(number))
    schema = {
        "id": {"column": "id"},
        "time": {"column": "t", "integer": True},
        "inputs": {
            name: {"column": name, "role": role, **({"type": "category"} if size else {"scale": "none"})}
            for name, role, size in inputs
        },
        "window": {"encoder": ENCODER, "horizon": HORIZON},
        "split": {"train": "< 40", "test": "< 60"},
    }
    return columns, schema


class Case:
    """A model whose weights are 1, 2, 3, ..., its map and what the map makes of them."""

    def __init__(self, format, inputs, conformance=None):
        self.format = format
        rows, schema = table(inputs)
        made = Forecaster(schema=schema, verbose=False, conformance=conformance or format, **KEYS)
        session = made._session(None)
        prepared, how = made._described(rows, None)
        from halay.tft.forecaster import _prepare

        self.data = _prepare(session, prepared, how)
        self.handle = _torch._create(session, data=self.data, config=made._config())
        self.model = model_of(self.handle)
        _torch_maps.check(format, self.model)
        self.map = _torch_maps.make_map(format, self.model)
        self.count = sum(int(np.prod(shape)) for shape in self.model.shapes.values())
        self.block = np.arange(1, self.count + 1, dtype=np.float32)
        self.theirs = _torch_maps.give(self.map, self.block)
        self.ours, at = {}, 0
        for name, shape in self.model.shapes.items():
            count = int(np.prod(shape))
            self.ours[name] = self.block[at : at + count].reshape(shape)
            at += count

    def written(self, tensors):
        _torch.write_file(path("f.safetensors"), tensors)
        return path("f.safetensors")

    def read(self, file):
        return _torch.read_file(file, self.map, self.count)


def model_of(handle):
    from halay.tft._library import lib
    from halay.tft._session import describe

    return _torch_maps.Model.of(describe(lib.halay_tft_model_describe, handle), _torch._weights_of(handle)[0])


def refused(kind, *texts, call):
    try:
        call()
    except kind as failure:
        for text in texts:
            assert text in str(failure), f"not said: {text}\nbut:\n{failure}"
        return
    raise AssertionError(f"{texts[0]}: is not refused")


# ---- maps ----


def check_whole(case, without_place):
    """Every number of theirs is one of ours, once, and every one of ours comes back; but for what the source says."""
    groups = _torch._groups_of(case.map)
    times = np.zeros(case.count, int)
    for name, places in case.map.items():
        kinds = set(np.unique(places[places < 0]))
        assert not kinds or (len(kinds) == 1 and (places < 0).all()), name
        if not kinds and groups[name][0] == name:
            np.add.at(times, places, 1)
        for other in groups[name]:
            assert case.theirs[other].tobytes() == case.theirs[name].tobytes(), (name, other)
    assert (times <= 1).all() and (times == 0).sum() == without_place, np.bincount(times)
    back = case.read(case.written(case.theirs))
    assert (back[times == 1] == case.block[times == 1]).all() and not back[times == 0].any()


def check_listed(case):
    """All names and shapes of one format's state_dict()."""
    wanted = {}
    with open(os.path.join(top, "tests/reference/torch_models.txt"), encoding="utf-8") as file:
        for format, name, dimensions, *shape in map(str.split, file):
            assert len(shape) == int(dimensions)
            if format == case.format:
                wanted[name] = tuple(map(int, shape))
    assert wanted == {name: one.shape for name, one in case.theirs.items()}, "other names or shapes"


def check_places(nvidia, forecasting, both):
    """
    A few places by hand. The model's history: wind, rain, state, price, values, holiday, P.M; NVIDIA's: state, wind,
    rain, holiday, price, values, P.M.
    """
    theirs, ours = nvidia.theirs, nvidia.ours
    vsn = "TFTpart2.history_vsn"
    qkv, mask = theirs["TFTpart2.attention.qkv_linears.weight"], theirs["TFTpart2.attention._mask"]
    assert theirs["TFTpart2.history_encoder.weight_ih_l0"][11, 3] == ours["encoder.kernel"][3, 11]
    assert theirs["TFTpart2.history_encoder.weight_hh_l0"][31, 0] == ours["encoder.recurrent"][0, 31]
    assert theirs[f"{vsn}.joint_grn.lin_a.weight"][5, 2] == ours["history.joint.dense1.kernel"][2 * 8 + 2, 5]
    assert theirs[f"{vsn}.joint_grn.out_proj.weight"][3, 8 + 1] == ours["history.joint.skip.kernel"][1, 5]
    assert theirs[f"{vsn}.joint_grn.glu.lin.weight"][7 + 1, 4] == ours["history.joint.gate.kernel"][4, 0]
    assert theirs[f"{vsn}.var_grns.0.lin_i.weight"][1, 2] == ours["history.variable.state.dense2.kernel"][2, 1]
    assert qkv[8 + 4 + 1, 6] == ours["attention.key.1.kernel"][6, 1]
    assert qkv[16 + 3, 6] == ours["attention.value.kernel"][6, 3]
    assert mask[0, 0, 3] == -np.inf and mask[0, 1, 0] == 0 and mask.shape == (1, 16, 16)
    assert theirs["embedding.t_cont_o_embedding_vectors"][1, 5] == ours["input.rain.kernel"].ravel()[5]
    assert theirs["embedding.s_cat_embed.1.weight"][1, 5] == ours["input.kind.table"][1, 5]
    assert theirs["static_encoder.context_grns.3.glu.lin.bias"][8 + 2] == ours["context.state_c.gate.bias"].ravel()[2]

    theirs, ours = forecasting.theirs, forecasting.ours
    scaler = theirs["decoder_variable_selection.prescalers.values_.weight"]
    assert scaler[4, 0] == ours["input.values.kernel"].ravel()[4]
    one = theirs["encoder_variable_selection.single_variable_grns.P_M.fc1.weight"]
    assert one[1, 3] == ours["history.variable.P.M.dense1.kernel"][3, 1]
    bias = ours["context.state_c.dense1.bias"].ravel()
    assert theirs["static_context_initial_cell_lstm.fc1.bias"][6] == bias[6]
    assert theirs["multihead_attn.q_layers.1.bias"][2] == ours["attention.query.1.bias"].ravel()[2]

    theirs, ours = both.theirs, both.ours
    assert theirs["output_layer.1.weight"][2, 7] == ours["output.quantiles.kernel"][7, 5]
    assert theirs["output_layer.0.bias"][1] == ours["output.quantiles.bias"].ravel()[2]


# ---- files ----


def check_differences(case):
    """Each tensor's difference is listed, with both shapes."""
    tensors = {name: one for name, one in case.theirs.items() if name not in (
        "lstm_decoder.bias_hh_l0", "multihead_attn.w_h.weight", "pos_wise_ff.fc1.bias")}  # fmt: skip
    tensors["output_layer.weight"] = tensors["output_layer.weight"].reshape(24, 1)
    tensors["pos_wise_ff.fc9.bias"] = case.theirs["pos_wise_ff.fc1.bias"]
    refused(
        FormatError,
        "'lstm_decoder.bias_hh_l0' [32] is missing",
        "'multihead_attn.w_h.weight' [8, 4] is missing",
        "tensor 'output_layer.weight' is [24, 1], the model's is [3, 8]",
        "'pos_wise_ff.fc1.bias' [8] is missing",
        "'pos_wise_ff.fc9.bias' [8] is not one of the model's",
        call=lambda: case.read(case.written(tensors)),
    )


def check_sameness(case):
    """Of what is there under several names, one is enough; two that differ are refused."""
    tensors = dict(case.theirs)
    for name in ("prescalers.price.weight", "decoder_variable_selection.prescalers.price.weight",
                 "post_lstm_gate_decoder.fc.bias"):  # fmt: skip
        del tensors[name]
    assert case.read(case.written(tensors)).tobytes() == case.block.tobytes()
    del tensors["encoder_variable_selection.prescalers.price.weight"]
    refused(
        FormatError,
        "'prescalers.price.weight' [6, 1] is missing",
        "'encoder_variable_selection.prescalers.price.weight' [6, 1] is missing",
        call=lambda: case.read(case.written(tensors)),
    )
    tensors = dict(case.theirs)
    name = "post_lstm_add_norm_decoder.norm.bias"
    tensors[name] = tensors[name] + np.eye(1, tensors[name].size, dtype=np.float32)[0]
    refused(
        FormatError,
        f"'post_lstm_add_norm_encoder.norm.bias' and '{name}' are one and the same",
        call=lambda: case.read(case.written(tensors)),
    )


def check_hostile(case):
    """Whatever the bytes: a FormatError, and nothing else."""
    whole = '{"output_layer.bias":{"dtype":%s,"shape":%s,"data_offsets":%s}}'
    said = {
        "{}": "it holds 0 other",
        '{"a":1}': "has none of the model's tensors ('prescalers.height.weight', ...); it holds 1 other",
        "[]": "its header is not",
        '{"__metadata__":{"format":"pt"}}': "has none of",
        whole % ('"F16"', "[3]", "[0,6]"): "tensor 'output_layer.bias' is of type F16, F32 is taken",
        whole % ('"F32"', "[-3,9223372036854775807]", "[0,12]"): "is [-3, 9223372036854775807], the model's is [3]",
        '{"output_layer.bias":[[[]]]}': "is of type",
        whole % ("7", "{}", '"x"'): "is of type 7",
    }

    def read(content):
        with open(path("h.safetensors"), "wb") as file:
            file.write(content)
        return case.read(path("h.safetensors"))

    for header, text in said.items():
        content = len(header).to_bytes(8, "little") + header.encode() + bytes(12)
        refused(FormatError, text, call=lambda content=content: read(content))
    with open(case.written(case.theirs), "rb") as file:
        good = file.read()
    assert read(good).tobytes() == case.block.tobytes()
    for cut in range(0, len(good), len(good) // 97):
        refused(FormatError, "", call=lambda cut=cut: read(good[:cut]))
    refused(FormatError, "cover", call=lambda: read(good + bytes(4)))
    length = int.from_bytes(good[:8], "little")
    header = json.loads(good[8 : 8 + length])
    names = [name for name in header if name != "__metadata__"]
    for change in ([0, 4], [4, 0], [-4, 0], [0, 1 << 62]):
        header[names[5]]["data_offsets"] = change
        text = json.dumps(header).encode()
        content = len(text).to_bytes(8, "little") + text + good[8 + length :]
        refused(FormatError, "cannot read", call=lambda content=content: read(content))


def check_mask(case):
    assert case.read(case.written(case.theirs)).tobytes() == case.block.tobytes()
    tensors = {**case.theirs, "TFTpart2.attention._mask": case.theirs["TFTpart2.attention._mask"].copy()}
    tensors["TFTpart2.attention._mask"][0, 0, 2] = 0
    refused(FormatError, "'TFTpart2.attention._mask' is not the mask", call=lambda: case.read(case.written(tensors)))


def check_torch(case):
    """What torch.save wrote: a state_dict(), a checkpoint of Lightning; not objects."""
    try:
        import torch
    except ImportError:
        print("without torch: no .pt files")
        return
    state = {name: torch.from_numpy(one.copy()) for name, one in case.theirs.items()}
    torch.save(state, path("f.pt"))
    assert case.read(path("f.pt")).tobytes() == case.block.tobytes()
    torch.save({"state_dict": state, "epoch": 3}, path("f.ckpt"))
    assert case.read(path("f.ckpt")).tobytes() == case.block.tobytes()
    torch.save({**state, "output_layer.bias": state["output_layer.bias"].double()}, path("f.pt"))
    refused(FormatError, "is of type torch.float64, F32 is taken", call=lambda: case.read(path("f.pt")))
    torch.save({"state_dict": state, "loss": argparse.Namespace()}, path("f.ckpt"))
    refused(FormatError, "save the model's state_dict() alone", call=lambda: case.read(path("f.ckpt")))
    with open(path("f.pt"), "wb") as file:
        file.write(b"no archive")
    refused(FormatError, "cannot read", call=lambda: case.read(path("f.pt")))


# ---- what is refused ----


def check_refusals(small, forecasting):
    def no(format, model, *texts, kind=ArgumentError, **changes):
        refused(kind, *texts, call=lambda: _torch_maps.check(format, model._replace(**changes)))

    def config(model, **keys):
        return {**model.config, **keys}

    def inputs(*those):
        kinds = ("name", "role", "type", "categories")
        return [dict(zip(kinds, (name, role, "category" if size else "real", size))) for name, role, size in those]

    no(FORECASTING, small, "train with 'conformance: pytorch-forecasting'", min_encoder=5)
    no(NVIDIA, small, "'min_encoder: 5'", min_encoder=5)
    no(NVIDIA, small, "train with 'crossing: allow'", config=config(small, crossing="forbid"))
    _torch_maps.check(FORECASTING, forecasting._replace(min_encoder=5))
    no(NVIDIA, forecasting, "train with 'conformance: nvidia'")
    no(FORECASTING, forecasting, "quantiles may cross", config=config(forecasting, crossing="forbid"))
    no(FORECASTING, forecasting, "this one has 'loss: gaussian'", config=config(forecasting, loss="gaussian"))
    published = config(small, conformance="published")
    no(FORECASTING, small, "was trained with 'conformance: published'", config=published)
    _torch_maps.check(NVIDIA, small._replace(config=published))
    no(NVIDIA, small, "forecasts one target, this one has 2", inputs=inputs(*SMALL, ("gas", "target", 0)))
    no(NVIDIA, small, "needs a static input", inputs=inputs(*SMALL[1:]))
    named = inputs(("a.b", "target", 0), ("a_b", "target", 0))
    no(FORECASTING, forecasting, "'a.b' and 'a_b' would both be named 'a_b'", inputs=named)
    no(NVIDIA, small, "a run of 3 members cannot be exported", kind=UnsupportedError, members=3)
    refused(ArgumentError, "unknown format 'keras'", call=lambda: _torch_maps.check_format("keras"))


# ---- runs ----


def check_runs():
    """Export, import by a table, by prepared data and by a run: the forecasts are the same."""
    rows, schema = table(SMALL)
    keys = {**KEYS, "verbose": False}
    trained = Forecaster(schema=schema, conformance=NVIDIA, max_steps=3, **keys).fit(rows)
    trained.save(path("run"))
    wanted = trained.predict(rows, split="test", calibrate="none")
    about = trained.export(path("e.safetensors"), format=NVIDIA)
    assert about == export_torch(Forecaster.load(path("run")), path("e2.safetensors"), NVIDIA)
    with open(path("e.safetensors"), "rb") as one, open(path("e2.safetensors"), "rb") as other:
        assert one.read() == other.read()
    assert about["class"] == "modeling.TemporalFusionTransformer" and about["inputs"]["s_cat"] == ["area"], about
    assert about["arguments"]["static_categorical_inp_lens"] == [5] and about["arguments"]["n_head"] == 2, about
    refused(ValueError, "go with the format onnx", call=lambda: trained.export("x", format=NVIDIA, explain=True))
    refused(FileNotFoundError, "nonexistent", call=lambda: trained.export("/nonexistent/x", format=NVIDIA))

    with open(path("schema.json"), "w", encoding="utf-8") as file:
        json.dump(schema, file)
    with open(path("rows.csv"), "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(rows), *zip(*rows.values())])
    subprocess.run(["halay-tft", "prepare", "--schema", path("schema.json"), path("rows.csv"), "-o", path("d.htd")],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    file = path("e.safetensors")
    for name, made in {
        "x": import_torch(file, NVIDIA, X=rows, schema=schema, **keys),
        "data": import_torch(file, NVIDIA, data=path("d.htd"), **KEYS),
        "like": import_torch(file, NVIDIA, like=path("run")),
        "fitted": import_torch(file, NVIDIA, like=trained),
    }.items():
        assert made.predict(rows, split="test").equals(wanted), name
        made.save(path(name))
        assert Forecaster.load(path(name)).predict(rows, split="test").equals(wanted), name
        made.export(path("again.safetensors"), format=NVIDIA)
        with open(file, "rb") as one, open(path("again.safetensors"), "rb") as other:
            assert one.read() == other.read(), name

    onwards = Forecaster(schema=schema, conformance=NVIDIA, init_from=path("x"), **{**keys, "max_steps": 1}).fit(rows)
    assert not onwards.predict(rows, split="test", calibrate="none").equals(wanted)

    how = {"data": path("d.htd")}
    refused(ConfigError, "leave 'conformance' out",
            call=lambda: import_torch(file, NVIDIA, conformance=FORECASTING, **how))  # fmt: skip
    refused(HalayError, "'heads'", call=lambda: import_torch(file, NVIDIA, hidden_size=7, heads=2, **how))
    refused(FormatError, "quantile_proj.weight' is [3, 8], the model's is [3, 16]",
            call=lambda: import_torch(file, NVIDIA, hidden_size=16, heads=2, **how))  # fmt: skip
    refused(ValueError, "give one of them", call=lambda: import_torch(file, NVIDIA, **KEYS))
    refused(ValueError, "give one of them", call=lambda: import_torch(file, NVIDIA, like=path("run"), **how))
    refused(ValueError, "parameters go with X and data",
            call=lambda: import_torch(file, NVIDIA, like=path("run"), heads=2))  # fmt: skip
    refused(ArgumentError, "of another conformance than pytorch-forecasting",
            call=lambda: import_torch(file, FORECASTING, like=path("run")))  # fmt: skip
    refused(HalayError, "d2", call=lambda: import_torch(file, NVIDIA, data=path("d2")))
    refused(FileNotFoundError, "x2", call=lambda: import_torch(path("x2"), NVIDIA, **how))
    blended = {**schema, "inputs": {k: {**v} for k, v in schema["inputs"].items()}}
    blended["inputs"]["load"]["blend"] = "season"
    refused(FormatError, "target 'load' has a 'blend'",
            call=lambda: import_torch(file, NVIDIA, X=rows, schema=blended, **keys))  # fmt: skip


def main():
    warnings.simplefilter("ignore")
    cases = {format: Case(format, RICH) for format in (NVIDIA, FORECASTING)}
    for case in cases.values():
        check_listed(case)
        check_whole(case, 0)
    check_whole(Case(NVIDIA, RICH, "published"), 0)
    small = Case(NVIDIA, SMALL)
    check_whole(small, 0)
    check_whole(Case(NVIDIA, SMALL, "published"), 4)  # gamma and beta of two layer norms of one value
    small_forecasting = Case(FORECASTING, SMALL)
    check_whole(small_forecasting, 0)
    check_places(*cases.values(), Case(FORECASTING, [*RICH, ("gas", "target", 0)]))
    check_differences(cases[FORECASTING])
    check_sameness(cases[FORECASTING])
    check_hostile(cases[FORECASTING])
    check_mask(cases[NVIDIA])
    check_torch(cases[FORECASTING])
    check_refusals(small.model, small_forecasting.model)
    check_runs()
    print("maps, files, refusals and runs of PyTorch's models")


main()
