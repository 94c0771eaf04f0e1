# SPDX-License-Identifier: Apache-2.0
#
# The forecaster, in parts named as arguments: what types of columns give, what is refused, files and pickles, Ctrl-C,
# memory.
import contextlib
import copy
import ctypes
import datetime
import fcntl
import gc
import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings

import numpy as np
import pandas as pd

import halay
from halay.tft import Forecaster, ForecastWarning, _names, _progress, _times, _tune
from halay.tft._results import Restorer

TINY = {
    "encoder": 12, "horizon": 4, "target": {"y": {"per": "entity"}}, "hidden_size": 4, "heads": 1, "max_steps": 2,
    "eval_every": 2, "verbose": False,
}  # fmt: skip
HOUR = "h" if int(pd.__version__.split(".")[0]) >= 2 else "H"
MONTH_END = "ME" if int(pd.__version__.split(".")[0]) >= 3 else "M"


class Caught:
    value = None


@contextlib.contextmanager
def refuses(kind, text):
    """What is inside raises that, with that text."""
    caught = Caught()
    try:
        yield caught
    except kind as failure:
        assert text in str(failure), f"{failure!r} does not say: {text}"
        caught.value = failure
    else:
        raise AssertionError(f"no {kind.__name__}: {text}")


def make(freq=HOUR, tz=None, start="2024-01-01", rows=200):
    """Two series."""
    random = np.random.default_rng(0)
    parts = []
    for k, name in enumerate(("east", "west")):
        y = 100 + 10 * k + 10 * np.sin(np.arange(rows) * np.pi / 12) + random.normal(size=rows)
        ds = pd.date_range(start, periods=rows, freq=freq, tz=tz)
        parts.append(pd.DataFrame({"unique_id": name, "ds": ds, "y": y}))
    return pd.concat(parts, ignore_index=True)


def predicted(table, **params):
    return Forecaster(**{**TINY, **params}).fit(table).predict(table)


def check_same(p, table, column, dtype=None):
    """A column came back as it went in."""
    have = p[column].dtype
    want = dtype or table[column].dtype
    assert have == want, (column, have, want)


# ---- types ----


def types_of_ids():
    table = make()
    plain = predicted(table)
    assert list(plain.columns) == ["unique_id", "ds", "y_0.1", "y_0.5", "y_0.9"] and len(plain) == 8, plain
    assert list(plain["unique_id"]) == ["east"] * 4 + ["west"] * 4
    assert plain["ds"][0] == table["ds"].max() + pd.Timedelta("1h")
    for ids in (
        table["unique_id"].astype("category"),
        table["unique_id"].astype("string"),
        table["unique_id"].map({"east": 7, "west": 11}),
        table["unique_id"].map({"east": 7, "west": 11}).astype("Int16"),
    ):
        p = predicted(table.assign(unique_id=ids))
        check_same(p, table.assign(unique_id=ids), "unique_id")
        assert set(p["unique_id"]) == set(ids), p
    p = predicted(table.rename(columns={"unique_id": "series", "ds": "when", "y": "load"}), id="series", time="when",
                  target="load")  # fmt: skip
    assert list(p.columns) == ["series", "when", "load_0.1", "load_0.5", "load_0.9"], p.columns
    assert np.allclose(p["load_0.5"], plain["y_0.5"], rtol=0.2)
    indexed = table.set_index(["unique_id", "ds"])
    assert predicted(indexed).equals(plain)
    one = table[table["unique_id"] == "east"].drop(columns="unique_id")
    p = predicted(one, id=None)
    assert list(p.columns) == ["ds", "y_0.1", "y_0.5", "y_0.9"] and len(p) == 4, p
    assert predicted(one.set_index("ds").rename_axis(None), id=None).equals(p), "an index without a name"
    assert predicted({name: table[name].to_numpy() for name in table}).equals(plain), "a dict of arrays"
    hashes = table["unique_id"].map({"east": 2**63 + 1, "west": 2**63 + 2})
    for ids in (hashes.astype("uint64"), hashes.astype("UInt64"), hashes.astype(object)):
        p = predicted(table.assign(unique_id=ids))
        check_same(p, table.assign(unique_id=ids), "unique_id")
        assert list(p["unique_id"].unique()) == [2**63 + 1, 2**63 + 2], p
    named = table.assign(unique_id=table["unique_id"].map({"east": "NA", "west": "null"}))
    assert set(Forecaster(**TINY).fit(named).explain().windows["unique_id"]) == {"NA", "null"}
    is_east = table["unique_id"] == "east"
    for ids in (is_east, is_east.astype("boolean"), is_east.astype(object)):
        with refuses(TypeError, "'unique_id' has booleans: an id is a whole number or a text, convert it"):
            predicted(table.assign(unique_id=ids))
    for ids in (1.5, pd.Series(1.5, table.index, object)):
        with refuses(TypeError, "'unique_id' has floating point"):
            predicted(table.assign(unique_id=ids))


def types_of_values():
    table = make()
    plain = predicted(table)
    for kind in ("float32", "Float64", object):
        p = predicted(table.assign(y=table["y"].astype(kind)))
        assert np.allclose(p["y_0.5"], plain["y_0.5"], rtol=1e-4), kind
    whole = table.assign(y=table["y"].round())
    want = predicted(whole.assign(y=whole["y"].mask(whole.index == 5)))
    for kind in ("Int64", "Float64", "Int32"):
        p = predicted(whole.assign(y=whole["y"].astype(kind).mask(whole.index == 5)))
        assert p.equals(want), f"a missing value in {kind}"
    gap = predicted(table.assign(y=table["y"].mask(table.index == 5)))
    for word in ("NA", "null", ""):
        p = predicted(table.assign(y=table["y"].map(repr).mask(table.index == 5, word)))
        assert p.equals(gap), f"numbers as texts, and '{word}' among them"
    roles = table.assign(
        price=np.arange(len(table)) % 5 * 1.0, is_open=np.arange(len(table)) % 3 == 0,
        kind=np.where(table["unique_id"] == "east", "a", "b"), temperature=table["y"] / 7)  # fmt: skip
    observed = {"temperature": {"scale": "robust"}}
    forecaster = Forecaster(**TINY, known=["price", "is_open"], static="kind", observed=observed)
    forecaster.fit(roles.assign(unused=[object()] * len(roles)))
    inputs = forecaster.schema_["inputs"]
    assert inputs["kind"]["type"] == "category" and "type" not in inputs["is_open"], inputs
    assert inputs["temperature"]["scale"] == "robust" and inputs["price"]["fill"] == "forward", inputs
    with refuses(halay.ArgumentError, "give its future"):
        forecaster.predict(roles)
    ahead = pd.concat([
        pd.DataFrame({"unique_id": name, "ds": pd.date_range(table["ds"].max(), periods=5, freq=HOUR)[1:], "price": 1.0,
                      "is_open": True})
        for name in ("east", "west")
    ])  # fmt: skip
    p, why = forecaster.predict(roles, future=ahead, explain=True)
    assert len(p) == 8 and len(why) == 2 and {"unique_id", "origin", "past price", "static kind", "lag 1"} <= set(why)
    p = predicted(roles, target=["y", "temperature"])
    assert list(p.columns)[2:] == [f"{name}_{q}" for name in ("y", "temperature") for q in (0.1, 0.5, 0.9)], p.columns


def types_of_times():
    steps = {"D": "1d", "B": "1B", "W-SUN": "1w", "MS": "1M", MONTH_END: "1M", "QS": "3M", "15min": "15min"}
    for freq, every in steps.items():
        table = make(freq)
        forecaster = Forecaster(**TINY).fit(table)
        assert forecaster.schema_["every"] == every, (freq, forecaster.schema_["every"])
        p = forecaster.predict(table)
        want = pd.date_range(table["ds"].max(), periods=5, freq=freq)[1:]
        assert list(p["ds"][:4]) == list(want), (freq, p)
        check_same(p, table, "ds")
    for tz in ("Europe/Berlin", "UTC", datetime.timezone(datetime.timedelta(hours=-3)), "Asia/Kolkata"):
        for freq in (HOUR, "D"):
            table = make(freq, tz, "2024-03-25")
            p = predicted(table)
            check_same(p, table, "ds")
            want = pd.date_range(table["ds"].max(), periods=5, freq=freq)[1:]
            assert list(p["ds"][:4]) == list(want), (tz, freq, p["ds"][:4], want)
    for freq in ("D", "24" + HOUR):
        berlin = make("D", "Europe/Berlin")
        have, want = predicted(berlin, freq=freq), predicted(berlin)
        assert have["ds"].equals(want["ds"]), f"{freq}: {have}"
    for schema, is_utc in (({"every": "24h"}, False), ({"every": "1440min"}, False), ({"every": "90min"}, True),
                           ({"every": "1h", "resample": {"every": "1d"}}, False)):  # fmt: skip
        clock = _times.Clock({"time": {"column": "ds"}, "zone": "Europe/Berlin", **schema}, None)
        assert clock._is_utc == is_utc, schema
    berlin = make(tz="Europe/Berlin")
    naive = berlin.assign(ds=berlin["ds"].dt.tz_localize(None))
    forecaster = Forecaster(**TINY).fit(berlin)
    of_utc = berlin.assign(ds=berlin["ds"].dt.tz_convert("UTC"))
    shifted = forecaster.predict(of_utc)
    check_same(shifted, of_utc, "ds")
    assert list(shifted["ds"]) == list(forecaster.predict(berlin)["ds"]), "another zone, the same moments"
    of_zone = forecaster.predict(berlin)["ds"].dt.tz_localize(None).astype(naive["ds"].dtype)
    assert forecaster.predict(naive)["ds"].equals(of_zone), "the zone's clock"
    objects = berlin.assign(ds=berlin["ds"].astype(object))
    assert forecaster.predict(objects)["ds"].equals(pd.to_datetime(forecaster.predict(berlin)["ds"])), "of objects"
    assert list(predicted(objects)["ds"]) == list(forecaster.predict(berlin)["ds"])
    mixed = naive["ds"].astype(object).where(berlin.index % 2 == 0, objects["ds"])
    with refuses(ValueError, "ds"):
        predicted(berlin.assign(ds=mixed))
    schema = {"id": {"column": "unique_id"}, "every": "1h", "time": {"column": "ds"}, "zone": "Europe/Berlin",
              "inputs": {"y": {"column": "y", "role": "target"}, "hour": {"calendar": "hour", "role": "known"}},
              "window": {"encoder": 12, "horizon": 4}, "split": forecaster.schema_["split"]}  # fmt: skip
    keys = {"hidden_size": 4, "heads": 1, "max_steps": 2, "verbose": False}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(schema, file)
        file.flush()
        for given in (berlin, objects, naive):
            of_file = Forecaster(schema=file.name, **keys).fit(given)
            assert of_file.data_["begin"] == forecaster.data_["begin"], "a schema in a file"
        with refuses(ValueError, "'ds' has a time zone and column 'other' has none"):
            Forecaster(schema=file.name, **keys).fit(berlin.assign(other=naive["ds"]))
    del schema["zone"]
    with refuses(ValueError, "or give the schema a zone"):
        Forecaster(schema=schema, **keys).fit(berlin)
    of_naive = Forecaster(**TINY).fit(naive)
    for given in (berlin, objects):
        with refuses(ValueError, "has the time zone Europe/Berlin"):
            of_naive.predict(given)
    table = make()
    for ds in (
        table["ds"].dt.strftime("%Y-%m-%dT%H:%M:%S"),
        table["ds"].astype(str),
        table["ds"].dt.to_period(HOUR),
        table.groupby("unique_id").cumcount().astype("int32"),
    ):
        p = predicted(table.assign(ds=ds))
        assert type(p["ds"][0]) is type(ds[0]), (p["ds"][0], ds[0])
        if isinstance(ds[0], str):
            assert len(p["ds"][0]) == len(ds[0]) and p["ds"][0][10] == ds[0][10], p["ds"][0]
    days = make("D")
    assert predicted(days.assign(ds=days["ds"].dt.date))["ds"][0] == days["ds"].max().date() + datetime.timedelta(1)
    if HOUR == "h":
        for unit in ("s", "ms", "us"):
            of_unit = table.astype({"ds": f"datetime64[{unit}]"})
            check_same(predicted(of_unit), of_unit, "ds")


# ---- what is refused ----


def errors():
    table = make()
    for column, row, text in (("y", 7, "row 8, column 'y'"), ("unique_id", 7, "row 8, column 'unique_id'"),
                              ("ds", 7, "row 8, column 'ds'")):  # fmt: skip
        broken = table.copy()
        broken[column] = broken[column].mask(broken.index == row, np.inf if column == "y" else None)
        with refuses(halay.FormatError, text) as caught:
            predicted(broken)
        assert f".iloc[{row}]" in str(caught.value), caught.value
    with refuses(ValueError, "row 1, column 'ds'"):
        predicted(table.assign(ds=table["ds"] + pd.Timedelta("0.5s")))
    with refuses(TypeError, "column 'y' has a tuple in row 4"):
        predicted(table.assign(y=[(1, 2) if i == 3 else v for i, v in enumerate(table["y"])]))
    with refuses(halay.FormatError, "no column 'y'"):
        predicted(table.drop(columns="y"))
    with refuses(halay.ConfigError, "did you mean 'hidden_size'"):
        predicted(table, hidden_sise=3)
    with refuses(halay.ConfigError, "'every' must be a step like 1h"):
        predicted(table, freq="7x")
    with refuses(halay.FormatError, "no series has two rows"):
        predicted(table.groupby("unique_id").head(1))
    with refuses(ValueError, "as known and as observed"):
        predicted(table.assign(a=1.0), known="a", observed="a")
    with refuses(ValueError, "schema and horizon"):
        predicted(table, schema={"preset": "long"})
    with refuses(TypeError, "a table is a pandas.DataFrame"):
        predicted(3)
    with refuses(halay.ArgumentError, "not fitted yet"):
        Forecaster(**TINY).predict(table)
    forecaster = Forecaster(**TINY).fit(table)
    days = {"preset": "long", "window": {"encoder": 24, "horizon": 4},
            "inputs": {"holiday": {"holiday": {"2024-01-06": "Epiphany"}, "role": "known"}}}
    assert len(Forecaster(schema=days, hidden_size=4, heads=1, max_steps=2, verbose=False).fit(table).predict()) == 8
    by_country()
    with refuses(halay.HalayError, "'north' was not seen in training"):
        forecaster.predict(table.assign(unique_id="north"))
    for long in "測" * 300, "x" + "測" * 300, "xx" + "測" * 300, "x" + "é" * 300, "x😀" * 200:
        for wrong in {"unique_id": long}, {"y": long}:  # cut between two characters, not inside one
            try:
                forecaster.predict(table.assign(**wrong))
                raise AssertionError(f"no error for {wrong}")
            except halay.HalayError as caught:
                assert f"'{long[:9]}" in str(caught) and "\ufffd" not in str(caught), str(caught)
    with refuses(halay.ArgumentError, "split is 'tests', not one of train, valid, test"):
        forecaster.evaluate(split="tests")
    assert len(forecaster.predict(table)) == 8, "it goes on after errors"


def by_country():
    """Holidays, from a package that is played: those of each country become an input."""
    table, keys = make(), {**TINY, "max_steps": 1}

    def country_holidays(country, subdiv, years):
        if country == "XX":
            raise NotImplementedError("there is no XX")
        said.append((country, subdiv, years[0], years[-1]))
        return {datetime.date(2024, 1, 6): "Epiphany"}

    said, kept = [], sys.modules.get("holidays")
    try:
        sys.modules["holidays"] = None
        with refuses(ImportError, "pip install holidays"):
            Forecaster(**keys, country="DE").fit(table)
        sys.modules["holidays"] = types.SimpleNamespace(country_holidays=country_holidays)
        of_one = Forecaster(**keys, country="DE-BY").fit(table)
        assert of_one.schema_["inputs"]["holiday"]["holiday"] == {"2024-01-06": "Epiphany"}, of_one.schema_
        inputs = Forecaster(**keys, country=["DE", "FR"]).fit(table).schema_["inputs"]
        assert {"holiday_DE", "holiday_FR"} <= set(inputs), inputs
        assert said == [("DE", "BY", 2024, 2034), ("DE", None, 2024, 2034), ("FR", None, 2024, 2034)], said
        with refuses(ValueError, "there is no XX"):
            Forecaster(**keys, country="XX").fit(table)
        with refuses(ValueError, "schema and country"):
            Forecaster(country="DE", schema={"preset": "long"}).fit(table)
        with refuses(ValueError, "country makes"):
            Forecaster(**keys, country="DE", known="holiday").fit(table.assign(holiday=0.0))
        with refuses(ValueError, "needs dates in column 'ds'"):
            Forecaster(**keys, country="DE").fit(table.assign(ds=np.arange(len(table))))
    finally:
        sys.modules.pop("holidays")
        if kept:
            sys.modules["holidays"] = kept
    assert len(of_one.predict(table)) == 8, "the model has its holidays"


def warns():
    """Of forecasts that are no better than naive, of series with few rows, where the program is."""
    table = make()
    forecaster = Forecaster(**TINY).fit(table)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluation = forecaster.evaluate()
        short = pd.concat([table[table["unique_id"] == "east"], table[table["unique_id"] == "west"].iloc[:2]])
        assert set(forecaster.predict(short)["unique_id"]) == {"east", "west"}
    assert not evaluation.better_than_naive and "no better than naive" in repr(evaluation)
    texts = [str(one.message) for one in caught if one.category is ForecastWarning]
    for said in ("no better than naive", "1 of 2 forecasts look back over fewer rows"):
        assert any(said in text for text in texts), (said, texts)
    assert all(one.filename == __file__ for one in caught), [one.filename for one in caught]
    assert "no better than naive" in repr(forecaster) and "<pre>" in forecaster._repr_html_()


class Screen(io.StringIO):
    """A terminal, as far as a program asks."""

    def isatty(self):
        return True


def shows():
    """Progress on a terminal, in a notebook, and nowhere."""
    table, keys = make(), {**TINY, "max_steps": 6, "eval_every": 3}
    _progress._PACE = 0
    screen, stderr = Screen(), sys.stderr
    try:
        sys.stderr = screen
        Forecaster(**keys).fit(table)
        assert screen.getvalue() == "", "verbose=False"
        Forecaster(**{**keys, "verbose": True}).fit(table)
        said = screen.getvalue()
        written = []
        for stream in (None, types.SimpleNamespace(write=written.append)):  # a service's, some notebooks'
            sys.stderr = stream
            Forecaster(**{**keys, "verbose": True}).fit(table)
        assert any("done after 6 steps" in text for text in written), written
        sys.stderr = screen
        pages = []
        handle = types.SimpleNamespace(update=lambda page, raw: pages.append(page["text/plain"]))
        shell = types.SimpleNamespace(kernel=object())
        display = types.SimpleNamespace(display=lambda page, display_id, raw: handle)
        sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
        sys.modules["IPython.display"] = display
        Forecaster(**{**keys, "verbose": True}).fit(table)
        assert screen.getvalue() == said, "a notebook has a display of its own"
    finally:
        sys.stderr = stderr
        for name in ("IPython", "IPython.display"):
            sys.modules.pop(name, None)
    lines = said.split("\r\033[K")
    assert any(line.startswith("step 2/6  epoch ") and not line.endswith("\n") for line in lines), lines
    assert sum(line.startswith("eval step=") for line in lines) == 2, lines
    assert lines[-1].startswith("done after 6 steps"), lines
    assert any(page.splitlines()[-1].startswith("step 2/6") for page in pages) and "eval step=6" in pages[-1], pages
    assert pages[-1].splitlines()[-1].startswith("done after 6 steps"), pages[-1]


# ---- scores, explanations, files ----


def results():
    table = make(rows=300)
    forecaster = Forecaster(**TINY).fit(table)
    windows = forecaster.predict(split="valid")
    assert list(windows.columns) == ["unique_id", "origin", "ds", "y", "y_0.1", "y_0.5", "y_0.9"]
    merged = windows.merge(table, on=["unique_id", "ds"], suffixes=("", "_measured"))
    assert len(merged) == len(windows) and (merged["y"] == merged["y_measured"]).all(), "what was measured"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = forecaster.evaluate()
        again = forecaster.evaluate(table)
    assert evaluation.document == again.document and evaluation["windows"] == len(windows) // 4
    error = (windows["y"] - windows["y_0.5"]).abs()
    assert abs(evaluation.frame.loc["forecast", "p50"] - error.sum() / windows["y"].abs().sum()) < 1e-6, "q-risk"
    assert list(evaluation.by_horizon["horizon"]) == [1, 2, 3, 4]
    assert list(evaluation.by_entity["entity"]) == ["east", "west"]
    assert forecaster.score() == forecaster.score(table) < 0
    explanation = forecaster.explain(stride=2)
    assert abs(explanation.importance.groupby("part")["mean"].sum() - 1).max() < 1e-6
    assert list(explanation.attention["lag"]) == list(range(16)) and {"change"} <= set(explanation.importance)
    check_same(explanation.windows, table, "origin", table["ds"].dtype)
    assert explanation["windows"] == len(explanation.windows) and repr(explanation).startswith("valid: ")
    assert forecaster.history_[-1]["step"] == 2 and forecaster.data_["entities"] == 2
    names()
    own_names()


def passes():
    """Windows as predict has them, with what they weighed as explain has it; rows as the table has them."""
    table = make(rows=300)
    forecaster = Forecaster(**TINY).fit(table)
    windows = forecaster.predict(split="valid", stride=3)
    batches = list(forecaster.windows(split="valid", stride=3, weights=True))
    assert sum(len(b.past) for b in batches) == len(windows) // 4
    values = np.concatenate([b.forecasts for b in batches])
    assert (values.reshape(-1, 3) == windows[["y_0.1", "y_0.5", "y_0.9"]].to_numpy()).all()
    assert (pd.concat([b.origins for b in batches]).to_numpy() == windows["origin"][::4].to_numpy()).all()
    for b in batches:
        assert (b.past == 12).all() and b.attention.shape[2:] == (4, 16)
        assert abs(b.attention.sum(3) - 1).max() < 1e-5
        assert all(abs(of.sum(-1) - 1).max() < 1e-5 for of in b.weights.values())
        assert b.weights["past"].shape[1:] == (12, len(b.inputs["past"])) and "y" in b.inputs["past"]
    again = forecaster.windows(table, split="valid", stride=3, without="y")
    first = next(again)
    assert first.weights is None and (first.forecasts != values[: len(first.past)]).any()
    with refuses(halay.ArgumentError, "a pass over windows"):
        forecaster.predict(split="valid")
    again.close()
    forecaster.predict(split="valid")
    with refuses(halay.ArgumentError, "'z', not an input"):
        next(forecaster.windows(without="z"))
    for rows in (forecaster.rows(), forecaster.rows(table)):
        check_same(rows, table, "ds", table["ds"].dtype)
        merged = rows.merge(table, on=["unique_id", "ds"])
        assert len(merged) == len(table) and abs(merged["y_x"] - merged["y_y"]).max() < 1e-3


def names():
    """Columns of the table may have any name, also those of the results' own columns."""
    for id, time, targets in (
        ("origin", "ds", ["y"]), ("unique_id", "origin", ["y"]), ("unique_id", "ds", ["origin"]),
        ("entity", "time", ["target"]), ("id", "moment", ["p50"]), ("distance", "regime", ["lag 1"]),
        ("horizon", "steps", ["entity"]), ("steps", "hour", ["month"]), ("y_0.5", "ds", ["y"]),
        ("unique_id", "ds", ["y", "y_0.5"]),
    ):  # fmt: skip
        table = make(rows=300).rename(columns={"unique_id": id, "ds": time, "y": targets[0]})
        for more in targets[1:]:
            table[more] = table[targets[0]] + 1000
        forecaster = Forecaster(**{**TINY, "id": id, "time": time, "target": targets}).fit(table)
        explanation = forecaster.explain(stride=12, occlusion=False)
        windows, reasons = forecaster.predict(split="valid", explain=True)
        for made in (windows, reasons, explanation.windows, forecaster.predict(table)):
            assert len(set(made.columns)) == len(made.columns), (id, list(made.columns))
            assert set(made[id]) == {"east", "west"}, (id, list(made.columns))
        merged = windows.merge(table, on=[id, time], suffixes=("", "_measured"))
        assert len(merged) == len(windows), (id, time, "the moments are gone")
        for target in targets:
            assert (merged[target] == merged[f"{target}_measured"]).all(), (target, "what was measured is gone")
        assert len(windows.columns) == 3 + 4 * len(targets), list(windows.columns)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert set(forecaster.evaluate().by_entity["entity"]) == {"east", "west"}


def own_names():
    """A table without a column of ids, or with times in several, may have columns of the names that results use."""
    for time, targets, want in (
        ({"column": "entity"}, ["y"], ("entity_", "entity")), ({"column": "ds"}, ["entity"], ("entity_", "ds")),
        ({"column": "ds"}, ["entity", "entity_"], ("entity__", "ds")), ({}, ["time"], ("entity", "time_")),
        ({"columns": ["year", "month"]}, ["y"], ("entity", "time")),
    ):  # fmt: skip
        schema = {"time": time, "inputs": {name: {"column": name, "role": "target"} for name in targets}}
        restorer = Restorer(schema, None, True)
        made = pd.DataFrame(restorer.frame(["a"], 1, time=np.array([0])))
        assert tuple(made.columns) == want, (time, targets, list(made.columns))


def chosen():
    """Quantiles and levels are of those that were trained."""
    table = make()
    forecaster = Forecaster(**TINY, quantiles=[0.05, 0.1, 0.3, 0.5, 0.9, 0.95]).fit(table)
    every = forecaster.predict(table)
    for how, want in (
        ({"levels": [80]}, [0.1, 0.5, 0.9]), ({"levels": [90, 80.0]}, [0.05, 0.1, 0.5, 0.9, 0.95]),
        ({"quantiles": [0.95, 0.3]}, [0.3, 0.95]), ({"quantiles": np.array([0.3, 0.5])}, [0.3, 0.5]),
        ({"levels": pd.Series([80, 90])}, [0.05, 0.1, 0.5, 0.9, 0.95]),
    ):  # fmt: skip
        p = forecaster.predict(table, **how)
        assert p.equals(every[["unique_id", "ds", *(f"y_{q}" for q in want)]]), (how, p.columns)
    p = forecaster.predict(split="valid", levels=[80])
    assert list(p.columns) == ["unique_id", "origin", "ds", "y", "y_0.1", "y_0.5", "y_0.9"], p.columns
    with refuses(ValueError, "for the quantiles 0.05, 0.1, 0.3, 0.5, 0.9, 0.95, not for 0.2, 0.8: train with "
                 "quantiles=[0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 0.9, 0.95]"):  # fmt: skip
        forecaster.predict(table, levels=[60])
    for how, text in (({"levels": [0.8]}, "not for 0.496, 0.504"), ({"levels": [100]}, "100 is not"),
                      ({"levels": [80], "quantiles": [0.5]}, "give one of them"), ({"levels": []}, "no quantile"),
                      ({"quantiles": []}, "no quantile")):  # fmt: skip
        with refuses(ValueError, text):
            forecaster.predict(table, **how)


def refits():
    """What is forecast behind the rows is of the refitted weights, what is scored of the first."""
    table = make()
    first = Forecaster(**TINY, refit=False).fit(table)
    second = Forecaster(**TINY, refit=True).fit(table)
    assert first.config_["refit"] == "off" and second.config_["refit"] == "on"
    assert first.score() == second.score() and not first.predict().equals(second.predict())
    assert pickle.loads(pickle.dumps(second)).predict(table).equals(second.predict())
    calls = [forecaster.cross_validation(table) for forecaster in (first, second)]
    assert calls[0].equals(calls[1]), "a cross-validation is of the first weights"


def names_elsewhere():
    """What other packages call a parameter is an error that names ours; none of ours is taken for one of those."""
    for theirs, ours in (("time_limit", "max_time"), ("prediction_length", "horizon"), ("h", "horizon"),
                         ("input_size", "encoder"), ("futr_exog_list", "known"), ("level", "quantiles")):  # fmt: skip
        with refuses(TypeError, f"'{theirs}' is not a parameter of a Forecaster: it is '{ours}' here"):
            Forecaster(**{theirs: 60})
        with refuses(ValueError, f"it is '{ours}' here"):
            Forecaster().set_params(**{theirs: 60})
    with refuses(TypeError, "'fit' is not a parameter of a Forecaster: it is a method"):
        Forecaster(fit=1)
    keys = {*Forecaster(**TINY).fit(make()).config_, *Forecaster._defaults()}
    assert set(_names._OURS) <= {*keys, "max_time", "epochs"} and not set(_names._RIGHT) & keys
    assert not {key for key in keys - set(Forecaster._defaults()) if hasattr(Forecaster, key)}, "a method hides a key"


def statics():
    """A table of what is constant for series, apart from that of their values."""
    table = make()
    apart = pd.DataFrame({"unique_id": ["west", "east", "north"], "kind": ["b", "a", "a"], "size": [1.0, 2.0, 3.0]})
    whole = table.merge(apart, on="unique_id")
    want = predicted(whole, static=["kind", "size"])
    forecaster = Forecaster(**TINY).fit(table, static_df=apart)
    inputs = forecaster.schema_["inputs"]
    assert inputs["kind"]["role"] == inputs["size"]["role"] == "static" and inputs["kind"]["type"] == "category", inputs
    for p in (forecaster.predict(), forecaster.predict(table), forecaster.predict(table, static_df=apart),
              forecaster.predict(whole), forecaster.predict(table.set_index(["unique_id", "ds"]))):  # fmt: skip
        assert p.equals(want), p
    assert forecaster.score(table) == forecaster.score()
    moved = apart.assign(size=[9.0, 9.0, 9.0])
    assert not forecaster.predict(table, static_df=moved).equals(want), "another static_df"
    loaded = pickle.loads(pickle.dumps(forecaster))
    assert loaded.predict(table, static_df=apart).equals(want)
    numbers = table.assign(unique_id=table["unique_id"].map({"east": 7, "west": 11}))
    texts = apart.assign(unique_id=["11", "7", "3"]).set_index("unique_id")
    p = Forecaster(**TINY, static={"size": {"scale": "none"}}).fit(numbers, static_df=texts)
    assert p.schema_["inputs"]["size"]["scale"] == "none" and set(p.predict()["unique_id"]) == {7, 11}
    schema = {"preset": "long", "window": {"encoder": 12, "horizon": 4},
              "inputs": {"kind": {"column": "kind", "role": "static", "type": "category"}}}  # fmt: skip
    keys = {"hidden_size": 4, "heads": 1, "max_steps": 2, "verbose": False}
    assert len(Forecaster(schema=schema, **keys).fit(table, static_df=apart).predict()) == 8
    for static, text in ((apart.iloc[:1], "no row for 'east' (1 of 2 series)"),
                         (pd.concat([apart] * 2), "two rows for 'west'"),
                         (apart.rename(columns={"unique_id": "id"}), "no column 'unique_id'"),
                         (apart.assign(y=1.0), "column 'y' is in the table and in static_df")):  # fmt: skip
        with refuses(ValueError, text):
            Forecaster(**TINY).fit(table, static_df=static)
    for call in (Forecaster(**TINY).fit, forecaster.predict, forecaster.recalibrate):
        with refuses(ValueError, "CSV files have all columns"):
            call("rows.csv", static_df=apart)
    for split in (None, "valid"):
        with refuses(ValueError, "static_df goes with X"):
            forecaster.predict(split=split, static_df=apart)


def crosses():
    """Windows that roll to the end of each series, whose rows no training sees."""
    table = make(rows=160)
    table = table[~((table["unique_id"] == "west") & (table["ds"] > table["ds"].max() - pd.Timedelta("9h")))]
    forecaster = Forecaster(**TINY)
    last = table.groupby("unique_id")["ds"].max()
    frames = {}
    for refit, stride, trainings in ((False, None, 1), (False, 3, 1), (True, 3, 3), (2, 3, 2)):
        calls = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Forecaster._learn, learn = lambda self, *a: (calls.append(self), learn(self, *a))[1], Forecaster._learn
            try:
                p = forecaster.cross_validation(table, n_windows=3, stride=stride, refit=refit)
            finally:
                Forecaster._learn = learn
        assert len(calls) == trainings and not vars(forecaster).get("_model"), (refit, len(calls))
        frames[refit, stride] = p
        assert list(p.columns) == ["unique_id", "ds", "cutoff", "y", "y_0.1", "y_0.5", "y_0.9"] and len(p) == 24
        check_same(p, table, "ds")
        check_same(p, table, "cutoff", table["ds"].dtype)
        for name, part in p.groupby("unique_id"):
            hours = [last[name] - pd.Timedelta(hours=4 + (stride or 4) * k) for k in (2, 1, 0)]
            assert list(part["cutoff"]) == [one for one in hours for _ in range(4)], (refit, stride, part)
            assert list(part["ds"] - part["cutoff"]) == [pd.Timedelta(hours=h) for h in (1, 2, 3, 4)] * 3
        both = p.merge(table, on=["unique_id", "ds"], suffixes=("", "_measured"))
        assert len(both) == 24 and (both["y"] == both["y_measured"]).all(), "what was measured"
    first = [frames[refit, 3].groupby("unique_id").head(4) for refit in (False, True, 2)]
    assert first[0].equals(first[1]) and first[0].equals(first[2]), "the first training is that of all"
    assert not frames[False, 3].equals(frames[True, 3])
    # What is forecast is unknown to the model, and to its scalers.
    cut = table["ds"] > table["unique_id"].map(last) - pd.Timedelta("4h")
    changed = table.assign(y=table["y"].where(~cut, table["y"] * 3))
    have, want = forecaster.cross_validation(changed), forecaster.cross_validation(table)
    assert have.filter(like="y_").equals(want.filter(like="y_")) and not have["y"].equals(want["y"])
    one = table[table["unique_id"] == "east"].drop(columns="unique_id").rename(columns={"y": "cutoff"})
    p = forecaster.set_params(id=None, target="cutoff").cross_validation(one, n_windows=2, levels=[80])
    assert list(p.columns)[:3] == ["ds", "cutoff_", "cutoff"] and len(p) == 8, p
    assert set(p["cutoff"]) < set(one["cutoff"]), "the target's own name"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(Forecaster(**TINY).fit(table).schema_, file)
        file.flush()
        of_file = Forecaster(schema=file.name, hidden_size=4, heads=1, max_steps=2, verbose=False)
        assert len(of_file.cross_validation(table, n_windows=2)) == 16
    # A series that is shorter than the windows' steps has those that it has room for, up to its last row.
    east, west = (table[table["unique_id"] == name] for name in ("east", "west"))
    short = pd.concat([east, west.iloc[:14]])
    for stride, count in ((4, 2), (3, 3), (5, 2)):
        for refit in (False, True):
            p = Forecaster(**{**TINY, "target": "y"}).cross_validation(short, n_windows=3, stride=stride, refit=refit)
            for rows, windows in ((east, 3), (west.iloc[:14], count)):
                part = p[p["unique_id"] == rows["unique_id"].iloc[0]]
                want = rows["ds"].iloc[[-5 - stride * k for k in range(windows - 1, -1, -1)]]
                assert list(part["cutoff"]) == list(want.repeat(4)), (stride, refit, part)
    for how, text in (({"n_windows": 0}, "n_windows is a whole number, 1 at least: 0 is not"),
                      ({"n_windows": 2.0}, "n_windows is"), ({"n_windows": None}, "n_windows is"),
                      ({"stride": 0}, "stride is"), ({"stride": 2.5}, "stride is"), ({"refit": 2.5}, "2.5 is not"),
                      ({"refit": -1}, "refit is a whole number, 0 at least: -1 is not")):  # fmt: skip
        with refuses(ValueError, text):
            forecaster.cross_validation(table, **how)
    with refuses(halay.FormatError, "60 windows are too many for the table: no entity"):
        Forecaster(**TINY).cross_validation(table, n_windows=60)


def tunes():
    """A search's best trial is a forecaster like one that was trained with its keys."""
    table = make()
    space = {"hidden_size": (4, 8), "learning_rate": {"from": 0.001, "to": 0.1, "scale": "log"}}
    keys = {**TINY, "max_steps": 6, "eval_every": 2}
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.join(folder, "found")
        tuning = Forecaster(**keys).tune(table, space, trials=2, folder=folder, eta=2)
        frame, best = tuning.frame, tuning.forecaster
        assert list(frame.columns) == ["trial", "state", "valid_loss", "share", "steps", "seconds", *space], frame
        assert len(frame) == 2 and frame["trial"][0] == tuning["best"] and frame["state"][0] == "done", frame
        assert frame["valid_loss"][0] == frame["valid_loss"].min() and f"{frame['valid_loss'][0]:.6g}" in repr(tuning)
        assert {"hidden_size": best.hidden_size, "learning_rate": best.learning_rate} == tuning.best, tuning.best
        same = Forecaster(**{**keys, **tuning.best, "threads": best.config_["threads"], "keep": 1}).fit(table)
        assert best.predict().equals(same.predict(table)) and best.score() == same.score()
        losses = [[(one["step"], one["valid_loss"]) for one in of.history_] for of in (best, same)]
        assert losses[0] == losses[1], losses
        with refuses(halay.ConfigError, "'hidden_sise'"):
            Forecaster(**keys).tune(table, {"hidden_sise": [1, 2]}, trials=1)
        with open(os.path.join(folder, "lock"), "rb") as lock, open(os.path.join(folder, "data.htd"), "rb") as file:
            data = file.read()
            for resume, text in ((False, "has a search already: use resume=True"), (True, "cannot lock")):
                seconds, _tune._LOCK_SECONDS = _tune._LOCK_SECONDS, 0
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    with refuses(halay.HalayError, text):
                        Forecaster(**keys).tune(table.iloc[:150], space, folder=folder, eta=2, resume=resume)
                finally:
                    _tune._LOCK_SECONDS = seconds
            with open(file.name, "rb") as again:
                assert again.read() == data, "a call that is refused leaves the data of the search as they are"
        more = Forecaster(**keys).tune(table, space, trials=3, folder=folder, eta=2, resume=True)
        assert len(more.frame) == 3 and more["rows"][:2] == tuning["rows"]
        endless = Forecaster(**{**keys, "max_steps": 1000000, "patience": 1000000})
        stopped = os.path.join(os.path.dirname(folder), "stopped")
        thread = interrupt_when(lambda: os.path.exists(os.path.join(stopped, "trial-0000", "metrics.jsonl")))
        with refuses(KeyboardInterrupt, ""):
            endless.tune(table, space, folder=stopped)
        thread.join()
        with open(os.path.join(stopped, "lock")) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # waits forever if the search, or a trial of it, is still at work
    for name in ("triels", "batch_size", "refit"):
        with refuses(TypeError, f"no option '{name}': a key of all trainings is set in the Forecaster"):
            Forecaster(**keys).tune(table, space, **{name: 3})
    with refuses(halay.ConfigError, "--eta"):
        Forecaster(**keys).tune(table, space, eta=17)
    command = [_tune._find_program(), "tune", "--help"]
    said = subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    have = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", said.split("Keys of the configuration:")[0], re.M))
    assert have == {name.replace("_", "-") for name in (*_tune._OPTIONS, *_tune._OWN)}, "the options of halay-tft tune"
    with refuses(TypeError, "no argument 'json'"):
        Forecaster(**keys).tune(table, space, json="-")
    with refuses(ValueError, "resume continues in a folder"):
        Forecaster(**keys).tune(table, space, resume=True)
    path, os.environ["PATH"] = os.environ["PATH"], ""
    try:
        with refuses(FileNotFoundError, "cannot find halay-tft"):
            Forecaster(**keys).tune(table, space)
    finally:
        os.environ["PATH"] = path


def tunes_as_built():
    """With the program in PATH, not one that is installed beside this Python."""
    python = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        sys.executable = os.path.join(folder, "python")
        try:
            tunes()
        finally:
            sys.executable = python


def recalibrates():
    """Intervals hold new rows that move more than those of the training."""
    table = make(rows=400)
    random = np.random.default_rng(1)
    more = make(rows=700)
    is_new = more["ds"] > table["ds"].max()
    more["y"] = more["y"] + np.where(is_new, 30 * random.normal(size=len(more)), 0.0)
    ends = {"train": f"< {table['ds'].iloc[320]}", "valid": f"<= {table['ds'].max()}"}
    for split in (ends, {"valid": "last 300 steps"}):
        forecaster = Forecaster(**TINY, split=split).fit(table)
        before = forecaster.predict(more)
        assert forecaster.recalibrate(more) is forecaster
        after = forecaster.predict(more)
        width = (after["y_0.9"] - after["y_0.1"]) / (before["y_0.9"] - before["y_0.1"])
        assert width.min() > 1.5 and after["y_0.5"].equals(before["y_0.5"]), (split, width)
        assert pickle.loads(pickle.dumps(forecaster)).predict(more).equals(after), "a pickle keeps it"
        assert not forecaster.predict(more, calibrate="none").equals(after)
    forecaster = Forecaster(**TINY, split=ends).fit(table)
    want = forecaster.predict(more)
    assert not forecaster.predict(more, calibrate="none").equals(want)
    for rows, count in ((310, 0), (350, 14)):
        with refuses(ValueError, f"{count} windows after the training span, a horizon apart, are too few") as caught:
            forecaster.recalibrate(table[table["ds"] < table["ds"].iloc[rows]])
        assert "(at least 30)" in str(caught.value), caught.value
        assert forecaster.predict(more).equals(want), "the old calibration stays"
    verbose, stderr = Forecaster(**TINY, split=ends).set_params(verbose=True), sys.stderr
    try:
        sys.stderr = io.StringIO()
        said = verbose.fit(table).recalibrate(more) and sys.stderr.getvalue()
    finally:
        sys.stderr = stderr
    assert re.search(r"on \d+ validation windows.*\n.*on \d+ windows after the training span", said), said


def parquet():
    """Without pyarrow, which test_tft_others.sh has."""
    hidden, sys.modules["pyarrow"] = sys.modules.get("pyarrow"), None
    try:
        with refuses(ImportError, "to read 'rows.parquet' needs pyarrow, which is not installed: pip install pyarrow"):
            Forecaster(**TINY).fit("rows.parquet")
    finally:
        sys.modules.pop("pyarrow")
        if hidden:
            sys.modules["pyarrow"] = hidden
    with refuses(ValueError, "all of Parquet or all of CSV"):
        Forecaster(**TINY).fit(["rows.parquet", "rows.csv"])


def drifts():
    """Rows as before are no drift; those of one series that grow are, and it alone is named."""
    table = make(rows=1500)
    forecaster = Forecaster(**TINY).fit(table)
    assert not forecaster.drift(last=24, rate=0.01).drifted
    late = (table["unique_id"] == "west") & (table["ds"] >= table["ds"].max() - pd.Timedelta(hours=23))
    moved = table.assign(y=table["y"].where(~late, table["y"] + 60))
    drift = forecaster.drift(moved, since=table["ds"].max() - pd.Timedelta(hours=23))
    inputs = drift.frame[drift.frame["input"] == "y"]
    assert drift.drifted and set(inputs["entity"][inputs["drifted"]]) == {"west"}, drift
    assert inputs.iloc[0]["drifted"] and not inputs.iloc[-1]["drifted"] and drift["drifted"]
    assert "have drifted" in repr(drift) and "y of west, " in repr(drift) and "<pre>" in drift._repr_html_()
    assert len(drift.frame.drop_duplicates()) == len(drift.rows()), "statistics without a threshold, too"
    until = forecaster.drift(moved, since="2024-02-28", until="2024-02-29", rate=0.001)
    assert until["until"].startswith("2024-02-29 00:00:00") and "no drift in" in repr(until)
    with refuses(ValueError, "last is up to the last row"):
        forecaster.drift(last=3, since="2024-02-28")
    with refuses(halay.ArgumentError, "the training span goes up to"):
        forecaster.drift(since="2024-01-02")


def files():
    table = make()
    forecaster = Forecaster(**TINY, observed=None, quantiles=[0.2, 0.5, 0.8]).fit(table)
    want = forecaster.predict(table)
    assert "y_0.2" in want
    copied = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(forecaster))))
    assert copied.predict(table).equals(want) and copy.deepcopy(forecaster).predict(table).equals(want)
    with refuses(halay.ArgumentError, "give the table"):
        copied.evaluate()
    assert copied.score(table) == forecaster.score()
    copied = pickle.loads(pickle.dumps(forecaster))
    folder, tempfile.tempdir = tempfile.gettempdir(), "/nonexistent"
    with refuses(FileNotFoundError, "/nonexistent"):
        copied.predict(table)
    tempfile.tempdir = folder
    assert copied.predict(table).equals(want), "the model outlives a failure of its first use"
    unused = pickle.loads(pickle.dumps(forecaster)).set_params(horizon=3).fit(table)
    assert len(unused.predict(table)) == 6, "fit after a pickle"
    for loss in ("gaussian", "mse"):
        p = Forecaster(**TINY, loss=loss).fit(table).predict(table)
        assert list(p.columns)[2:] == (["y_0.5"] if loss == "mse" else ["y_0.1", "y_0.5", "y_0.9"]), (loss, p.columns)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run")
        forecaster.save(path)
        with refuses(halay.ArgumentError, "holds a run already"):
            forecaster.save(path)
        loaded = Forecaster.load(path)
        assert loaded.predict(table).equals(want) and loaded.get_params() == forecaster.get_params()
        os.remove(os.path.join(path, "forecaster.json"))  # as halay-tft train leaves it
        loaded = Forecaster.load(path).set_params(verbose=False)
        assert loaded.predict(table).equals(want) and loaded.fit(table).predict(table).equals(want)
        about = loaded.export(os.path.join(folder, "model.onnx"), explain=True)
        with open(os.path.join(folder, "model.onnx"), "rb") as file:
            assert about["horizon"] == loaded.horizon_ and len(file.read()) > 4 * loaded.parameter_count_, about
        encoding = loaded.encoding()
        assert encoding["entities"] == sorted(table["unique_id"].unique()), encoding["entities"]
        assert encoding["inputs"][0]["role"] == "target" and encoding["inputs"][0]["scales"][0] > 0, encoding["inputs"]
        assert loaded.calibration("none")["method"] == "none"
        with refuses(halay.ArgumentError, "has no calibration"):
            loaded.calibration("conformal")
        with refuses(halay.ArgumentError, "has no calibration"):
            loaded.export(os.path.join(folder, "more.onnx"), calibrate="conformal")
        with refuses(halay.HalayError, "/nonexistent"):
            loaded.export("/nonexistent/model.onnx")
        assert sorted(os.listdir(folder)) == ["model.onnx", "run"], os.listdir(folder)
        kept = Forecaster(**TINY).fit(table, folder=os.path.join(folder, "kept"))
        assert Forecaster.load(os.path.join(folder, "kept")).predict(table).equals(kept.predict())
    arrays = {"horizon": np.int64(4), "known": np.array(["price"]), "quantiles": np.array([0.2, 0.5])}
    of_arrays = Forecaster(**{**TINY, **arrays})
    of_arrays.fit(table.assign(price=1.0 * (table.index % 5)))
    assert "known=['price']" in repr(of_arrays) and "quantiles=[0.2, 0.5]" in repr(of_arrays), repr(of_arrays)
    assert pickle.loads(pickle.dumps(of_arrays)).quantiles_ == [0.2, 0.5]
    with tempfile.TemporaryDirectory() as folder:
        of_arrays.save(os.path.join(folder, "run"))
        assert Forecaster.load(os.path.join(folder, "run")).quantiles == [0.2, 0.5]
    with refuses(ValueError, "schema and known"):
        Forecaster(known=np.array(["price", "other"]), schema={"preset": "long"}).fit(table)
    params = forecaster.get_params()
    params["hidden_size"] = 8
    assert forecaster.set_params(**params).hidden_size == 8
    with refuses(ValueError, "'predict' is not a parameter"):
        forecaster.set_params(predict=1)
    y = forecaster.fit(table.drop(columns="y"), table["y"])
    assert y is forecaster


# ---- Ctrl-C, processes, threads, memory ----


def interrupt_when(is_time):
    def wait():
        while not is_time():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


class Late:
    """A session's lock that one gets after another thread's turn."""

    def __init__(self, session, turn):
        self.session, self.turn, self.lock = session, turn, session._lock

    def __enter__(self):
        self.session._lock = self.lock
        self.turn()
        return self.lock.__enter__()

    def __exit__(self, *why):
        self.lock.__exit__(*why)


def ends():
    table = make()
    endless = {**TINY, "max_steps": 1000000, "epochs": 1000000, "patience": 1000000}
    forecaster = Forecaster(**endless)
    thread = interrupt_when(lambda: vars(forecaster).get("history_"))
    assert forecaster.fit(table).stopped_, "Ctrl-C keeps the best weights so far"
    thread.join()
    want = forecaster.predict(table)
    began = []
    thread = interrupt_when(lambda: began)
    session = forecaster._model.session
    with refuses(KeyboardInterrupt, ""):
        session.post(lambda: began.append(1))  # when the program waits for the call
        Forecaster(**{**endless, "eval_every": 1000000}).fit(table)
    thread.join()
    for delay in (0, 0.002, 0.01, 0.05):
        with refuses(KeyboardInterrupt, ""):
            thread = interrupt_when(lambda: time.sleep(delay) or True)
            forecaster.predict(split="train")
            time.sleep(10)
        assert forecaster.predict(table).equals(want), "the next call is not stopped"
    session.post(session._stop)  # as Ctrl-C does, of a call that does not hear of it any more
    session.call(lambda: 0)
    assert forecaster.predict(table).equals(want), "what no call heard is taken back"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    child = os.fork()
    if not child:
        try:
            with refuses(halay.UnsupportedError, "a child of fork"):
                forecaster.predict(table)
            os._exit(0 if len(predicted(table)) == 8 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0, "in a child of fork"
    with halay.Context() as ctx:
        of_context = Forecaster(**TINY).fit(table, context=ctx)
        of_context.predict(table)
    with refuses(halay.ClosedError, "the context was closed"):
        of_context.predict(table)
    for call in (lambda forecaster, context: forecaster.predict(split="valid"),
                 lambda forecaster, context: Forecaster(**TINY).fit(table, context=context)):  # fmt: skip
        context = halay.Context()
        of_context = Forecaster(**TINY).fit(table, context=context)
        of_context._model.session._lock = Late(of_context._model.session, context.close)
        with refuses(halay.ClosedError, "the context was closed"):
            call(of_context, context)
    said = []
    threads = [threading.Thread(target=lambda: said.append(len(predicted(table)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [8] * 3, said


def memory():
    """Models and data go with their forecaster."""
    table = make()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)  # glibc's

    def resident():
        gc.collect()
        trim(0)  # else what the threads' arenas keep varies by tens of MiB
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    # One that is kept takes some 5 MiB, so 40 more each round; what the allocator keeps levels off.
    sizes = []
    while len(sizes) < 2 or (sizes[-1] - sizes[-2] > 12 and len(sizes) < 8):
        for _ in range(8):
            forecaster = Forecaster(**{**TINY, "hidden_size": 64, "batch_size": 8}).fit(table)
            forecaster.predict(table)
        sizes.append(resident())
    assert sizes[-1] - sizes[-2] <= 12, f"MiB after each 8 forecasters: {sizes}"



PARTS = {
    "types": (types_of_ids, types_of_values, types_of_times), "errors": (errors, warns, shows),
    "results": (results, passes, files), "drifts": (drifts,),
    "asks": (chosen, refits, names_elsewhere, statics, crosses, tunes_as_built, recalibrates, parquet),
    "ends": (ends,), "memory": (memory,),
}  # fmt: skip
warnings.simplefilter("ignore", ForecastWarning)
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the test's parent ignores it, Python does
for name in sys.argv[1:]:
    for part in PARTS[name]:
        part()
    print(f"{name}: as tft.py has it", flush=True)
