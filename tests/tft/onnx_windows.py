#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What tests/tft/onnx.sh needs of Python:
#
#   onnx_windows.py table FOLDER OUT.csv         some weeks of data/pjm's zones as one table, with more columns made of
#                                                them, and holes
#   onnx_windows.py compare TABLE MODEL DESCRIPTION FORECASTS [EXPLANATION]
#                                                feeds windows of the table to the graph, as its description says, and
#                                                compares with what predict wrote; by NumPy, and by onnxruntime if it is
#                                                there
#   onnx_windows.py refuse MODEL DESCRIPTION     what a graph cannot forecast
import csv
import datetime
import gzip
import json
import math
import os
import sys

try:
    import numpy
    import onnx_numpy
except ImportError:
    numpy = None  # a table needs none
try:
    import onnx
except ImportError:
    onnx = None
try:
    import onnxruntime
except ImportError:
    onnxruntime = None

ZONES = ["COMED", "DAYTON", "DEOK", "PJME"]
BEGIN, HOURS = datetime.datetime(2016, 3, 20), 24 * 60
HOLIDAYS = {"2016-03-27": "Easter", "2016-05-01": "May Day"}


def random(seed):
    """The same numbers everywhere."""
    state = seed
    while True:
        state = state * 16807 % 2147483647
        yield state / 2147483647


def write_table(folder, path):
    draw = random(11)
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["zone", "time", "load", "flow", "temp", "wind", "event", "sky", "size", "region"])
        for z, zone in enumerate(ZONES):
            loads = {}
            with gzip.open(os.path.join(folder, zone + "_hourly.csv.gz"), "rt", encoding="utf-8") as rows:
                next(rows)
                for row in rows:
                    moment, load = row.strip().split(",")
                    loads[moment] = float(load)
            hole = 0
            for h in range(0 if z else 400, HOURS):  # one zone begins later
                time = BEGIN + datetime.timedelta(hours=h)
                load = loads.get(str(time), math.nan)
                hole = hole - 1 if hole else int(next(draw) < 0.02) * (1 + int(5 * next(draw)))
                gone = hole > 0 and h % HOURS > 420
                value = "" if gone or math.isnan(load) else load
                flow = "" if next(draw) < 0.01 and h > 420 else round(0.3 * load + 50 * math.sin(h / 9), 2)
                temp = -99 if next(draw) < 0.05 and h > 420 else round(12 + 8 * math.sin(h / 3.82) + 3 * next(draw), 2)
                wind = "" if next(draw) < 0.2 else round(20 * next(draw), 2)
                event = ["", "sale", "strike", "other"][int(4 * next(draw))] if h < HOURS - 300 else "new"
                sky = "" if next(draw) < 0.2 and h > 420 else ["clear", "cloudy", "rain"][int(3 * next(draw))]
                region = ["west", "mid", "mid", "east"][z]
                out.writerow([zone, time, value, flow, temp, wind, event, sky, 1 + z, region])


def read_table(path):
    """Entity -> {moment: row}, rows in order."""
    table = {}
    with open(path, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            table.setdefault(row["zone"], []).append(row)
    return table


def number(text):
    return float(text) if text != "" else math.nan


def day_of(time):
    return HOLIDAYS.get(time.strftime("%Y-%m-%d"), "")


def days_until(time):
    days = [(datetime.datetime.fromisoformat(d) - datetime.datetime(time.year, time.month, time.day)).days
            for d in HOLIDAYS]
    return min([d for d in days if d >= 0] + [30])


# The inputs that no column has: from the time of a step.
MADE = {
    "hour": lambda t: t.hour,
    "day_of_week": lambda t: t.weekday(),
    "hours": lambda t: (t - BEGIN).total_seconds() / 3600,
    "month": lambda t: t.month,
    "holiday": day_of,
    "until": days_until,
    "day_off": lambda t: float(day_of(t) != ""),
    "turn_sin": lambda t: math.sin(2 * math.pi * t.hour / 24),
    "turn_cos": lambda t: math.cos(2 * math.pi * t.hour / 24),
}
for k in (1, 2):
    MADE[f"wave_sin{k}"] = lambda t, k=k: math.sin(2 * math.pi * k * (t - datetime.datetime(1970, 1, 1)).total_seconds()
                                                   / (7 * 86400))
    MADE[f"wave_cos{k}"] = lambda t, k=k: math.cos(2 * math.pi * k * (t - datetime.datetime(1970, 1, 1)).total_seconds()
                                                   / (7 * 86400))


def value_at(rows, name, i, is_text):
    """Input `name` at row i; none of a row that the table has not."""
    column, _, lag = name.partition("_lag")
    i -= int(lag or 0)
    if column in MADE and not lag:
        return MADE[column](datetime.datetime.fromisoformat(rows[0]["time"]) + datetime.timedelta(hours=i))
    column = {"gust": "wind", "second": "flow"}.get(column, column)
    text = rows[i][column] if 0 <= i < len(rows) else ""
    return text if is_text else number(text)


def window(inputs, rows, origin, length, encoder):
    """What to feed for the window whose past ends before row `origin`; None if it begins with a hole."""
    feed = {}
    for entry in inputs:
        role, _, name = entry["name"].partition(".")
        is_text = entry["type"] == "string"
        if role == "entity":
            feed["entity"] = rows[0]["zone"]
        elif role == "length":
            feed["length"] = length
        elif role == "static":
            feed[entry["name"]] = value_at(rows, name, 0, is_text)
        else:
            first = origin - encoder
            values = [value_at(rows, name, i, is_text) for i in range(first, first + entry["shape"][1])]
            lacks = [v == "" if is_text else v != v or v == -99 for v in values]
            begins = encoder - length
            if name.partition("_lag")[0] in ("load", "flow", "temp", "sky", "second") and lacks[begins]:
                return None
            if "_lag" in name and any(lacks[begins:begins + 8] + lacks[-8:]):
                return None
            feed[entry["name"]] = values
    return feed


def arrays(inputs, feeds):
    kinds = {"float32": numpy.float32, "int64": numpy.int64, "string": object}
    return {e["name"]: numpy.array([f[e["name"]] for f in feeds], dtype=kinds[e["type"]]) for e in inputs}


def read_forecasts(path):
    """(entity, origin) -> {(horizon, target): quantiles}."""
    found = {}
    with open(path, encoding="utf-8") as file:
        reader = csv.DictReader(file)
        for row in reader:
            window = found.setdefault((row[reader.fieldnames[0]], row["origin"]), {})
            for name in reader.fieldnames[4:]:  # load_0.5
                window.setdefault((int(row["horizon"]), name.rpartition("_")[0]), []).append(float(row[name]))
    return found


class Runtime:
    """onnxruntime's session with the members of onnx_numpy.Session."""

    def __init__(self, path):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.metadata = self.session.get_modelmeta().custom_metadata_map
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in self.session.get_outputs()]
        self.run = self.session.run


def weights_of(got, lengths, said, path):
    """Compare with what predict --explain wrote: means over the steps that there are."""
    last = {o["name"]: o.get("last") for o in said["outputs"]}
    with open(path, encoding="utf-8") as file:
        wanted = {(r["entity"], r["origin"]): r for r in csv.DictReader(file)}
    off = 0
    encoder, horizon = said["encoder"], said["horizon"]
    for w, key in enumerate(got["keys"]):
        got["past_weights"][w, :encoder - lengths[w]] = numpy.nan
        for part in ("static", "past", "future"):
            for v, name in enumerate(last.get(part + "_weights") or []):
                mean = numpy.nanmean(got[part + "_weights"][w, ..., v])
                off = max(off, abs(mean - float(wanted[key][f"{part} {name}"])))
        assert not got["attention"][w, ..., :encoder - lengths[w]].any(), "attention to what does not exist"
        for lag in (1, encoder // 2):
            seen = [got["attention"][w, :, h, encoder + h - lag].mean() for h in range(horizon)]
            off = max(off, abs(numpy.mean(seen) - float(wanted[key][f"lag {lag}"])))
    assert off < 1e-4, f"weights are off by {off:g}"


def windows_of(table, forecasts, said, least_length):
    """What to feed, what predict said, and of which windows."""
    inputs, encoder = said["inputs"], said["encoder"]
    lead = max([0] + [int(i["name"].partition("_lag")[2]) for i in inputs if "_lag" in i["name"]])
    feeds, wanted, keys, shorter = [], [], [], 0
    for key, forecast in forecasts.items():
        rows = table[key[0]]
        at = [r["time"] for r in rows].index(key[1]) + 1
        length = min(encoder, at - lead)
        assert length >= least_length, "a window that is too short"
        feed = window(inputs, rows, at, length, encoder)
        if feed is not None:
            shorter += length < encoder
            feeds.append(feed)
            keys.append(key)
            wanted.append([[forecast[h + 1, o] for o in said["targets"]] for h in range(said["horizon"])])
    assert len(feeds) >= 20, f"only {len(feeds)} of {len(forecasts)} windows could be fed"
    return arrays(inputs, feeds), numpy.array(wanted), keys, shorter


def compare_one(session, table, forecasts, said, weights):
    assert session.inputs == [i["name"] for i in said["inputs"]], "other inputs than described"
    assert session.outputs == [o["name"] for o in said["outputs"]], "other outputs than described"
    assert session.metadata["version"] == said["version"] and json.loads(session.metadata["inputs"]) == said["inputs"]
    least = json.loads(session.metadata["schema"])["window"].get("min_encoder", said["encoder"])
    fed, wanted, keys, shorter = windows_of(table, forecasts, said, least)
    got = dict(zip(session.outputs, session.run(None, fed)), keys=keys)
    assert got["quantiles"].dtype == numpy.float32 and numpy.isfinite(got["quantiles"]).all(), "a forecast is no number"
    size = numpy.maximum(numpy.abs(wanted), numpy.abs(wanted).mean(axis=(0, 1, 3))[:, None])
    off = numpy.abs(got["quantiles"] - wanted) / size
    assert off.max() < 1e-5, f"off by {off.max():g} of the value: window {off.max(axis=(1, 2, 3)).argmax()}"
    alone = session.run(["quantiles"], {k: v[:1] for k, v in fed.items()})[0]
    assert numpy.allclose(alone, got["quantiles"][:1], rtol=1e-4), "a batch of one differs"
    if weights:
        weights_of(got, fed.get("length", [said["encoder"]] * len(keys)), said, weights)
    return f"{len(keys)} windows, {shorter} of them short, off by {off.max():.1e} at most"


def compare(table_path, model, description, forecasts_path, weights=None):
    with open(description, encoding="utf-8") as file:
        said = json.load(file)
    table, forecasts = read_table(table_path), read_forecasts(forecasts_path)
    print("numpy:", compare_one(onnx_numpy.Session(model), table, forecasts, said, weights))
    if onnxruntime:
        print("onnxruntime:", compare_one(Runtime(model), table, forecasts, said, weights))
    if onnx:
        onnx.checker.check_model(model, full_check=True)


def refuse(model, description):
    """What the graph does with what it cannot forecast: zeros, but for a load, of entities that it may not know."""
    with open(description, encoding="utf-8") as file:
        said = json.load(file)
    feed = {e["name"]: [0.0] * e["shape"][1] for e in said["inputs"] if e["name"] != "entity"}
    fed = arrays(said["inputs"], [{**feed, "entity": "COMED"}] * 2)
    for session in [onnx_numpy.Session(model)] + ([Runtime(model)] if onnxruntime else []):
        fed["target.load"][1, 0] = numpy.nan
        got = session.run(["quantiles"], fed)[0]
        assert numpy.isfinite(got[0]).all() and numpy.isnan(got[1]).all(), "a hole at the beginning gives numbers"
        fed["entity"][1] = "nobody"
        try:
            session.run(["quantiles"], fed)
        except Exception as error:
            assert "out of" in str(error), error
        else:
            raise AssertionError("an unknown entity is forecast")
        fed["entity"][1] = "COMED"


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "table":
        write_table(*arguments)
    elif command == "compare":
        compare(*arguments)
    elif command == "refuse":
        refuse(*arguments)
    else:
        sys.exit("table, compare or refuse")


main()
