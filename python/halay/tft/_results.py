# SPDX-License-Identifier: Apache-2.0
"""Results of calls: forecasts as a DataFrame; scores and explanations, which are documents of the library, too."""

import ctypes
import html
import io
import json
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import _library as c
from ._tables import need_pandas
from ._times import Clock

_OK, _CANCELED = 0, 12  # enum halay_status


def _doubles(place: int, count: int) -> bytes:
    return ctypes.string_at(place, 8 * count) if count else b""


class Taken:
    """The windows of a call, as the library gives them one by one."""

    def __init__(self) -> None:
        self.entities: List[bytes] = []
        self.origins: List[int] = []
        self.times: List[bytes] = []  # the arrays of a window, as they lie in memory
        self.values: List[bytes] = []
        self.actuals: List[bytes] = []
        self.weights: List[bytes] = []
        self.lags: List[bytes] = []
        self.targets: List[str] = []
        self.quantiles: List[float] = []
        self.inputs: List[str] = []
        self.horizon = 0
        self.failure: Optional[BaseException] = None
        self.callback = c.TAKE(self._take)

    def _take(self, _: Any, place: Any) -> int:
        try:
            f = place.contents
            if not self.entities:
                self.horizon = f.horizon
                self.targets = [f.targets[i].decode() for i in range(f.target_count)]
                self.quantiles = list((ctypes.c_double * f.quantile_count).from_address(f.quantiles))
                self.inputs = [f.inputs[i].decode() for i in range(f.input_count)]
            self.entities.append(f.entity)
            self.origins.append(f.origin)
            self.times.append(_doubles(f.times, f.horizon))
            self.values.append(_doubles(f.values, f.horizon * f.target_count * f.quantile_count))
            self.actuals.append(_doubles(f.actuals, f.horizon * f.target_count))
            self.weights.append(_doubles(f.weights, f.input_count))
            self.lags.append(_doubles(f.lags, f.lag_count))
            return _OK
        except BaseException as failure:  # out of memory: an exception cannot pass through the library
            self.failure = failure
            return _CANCELED


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name for a column of a result, with underscores after it if the table's columns have it already."""
    while name in taken:
        name += "_"
    return name


class Restorer:
    """Ids and times in the types in which a table had them; a column of the result's own has a name apart from them."""

    def __init__(self, schema: Dict[str, Any], frame: Any, has_id: bool) -> None:
        column, time = ((schema.get(key) or {}).get("column") for key in ("id", "time"))
        inputs = (schema.get("inputs") or {}).items()
        self.named = {column, time, *(name for name, given in inputs if given.get("role") == "target")}
        self.id: Optional[str] = (column or self.name("entity")) if has_id else None
        self.time: str = time or self.name("time")
        self.named |= {self.id, self.time}
        self.clock = Clock(schema, frame)
        self._like = frame[column] if column and frame is not None and column in frame.columns else None

    def name(self, own: str) -> str:
        """Return the name of a column of the result's own."""
        return free_name(own, self.named)

    def ids(self, texts: Any) -> Any:
        """A column of ids."""
        pandas = need_pandas("a table of results")
        like = self._like
        if like is None:
            return pandas.Series(texts, dtype=object)
        if isinstance(like.dtype, pandas.CategoricalDtype):
            values = {str(value): value for value in like.cat.categories}
        elif pandas.api.types.is_integer_dtype(like.dtype):
            return pandas.Series([int(text) for text in texts]).astype(like.dtype)
        else:
            values = {str(value): value for value in like.dropna().unique()}
        return pandas.Series([values.get(text, text) for text in texts], dtype=like.dtype)

    def frame(self, entities: List[str], repeat: int, **times: Any) -> Dict[str, Any]:
        """The first columns of a table: id, and times in seconds by name."""
        pandas = need_pandas("a table of results")
        made: Dict[str, Any] = {}
        if self.id is not None:
            ids = self.ids(entities)
            made[self.id] = ids.repeat(repeat).reset_index(drop=True) if repeat != 1 else ids
        for name, seconds in times.items():
            made[self.time if name == "time" else self.name(name)] = self.clock.restore(seconds)
        return {name: pandas.Series(column).reset_index(drop=True) for name, column in made.items()}


def wanted_quantiles(
    levels: Optional[Sequence[float]], quantiles: Optional[Sequence[float]], trained: Sequence[float]
) -> List[int]:
    """Places of the quantiles that are asked for among a model's, in its order; ValueError: it lacks one of them."""
    if levels is None and quantiles is None:
        return list(range(len(trained)))
    if levels is not None and quantiles is not None:
        raise ValueError("levels and quantiles: give one of them")
    wanted = [float(one) for one in (() if quantiles is None else quantiles)]
    for level in () if levels is None else levels:
        if not 0 < level < 100:
            raise ValueError(f"a level is a share in percent, between 0 and 100, like 80: {level!r} is not")
        wanted += [0.5 - level / 200, 0.5 + level / 200]
    wanted += [0.5] if levels is not None and wanted else []
    places = {q: [i for i, one in enumerate(trained) if abs(one - q) < 1e-6] for q in wanted}
    missing = sorted(round(q, 9) for q, found in places.items() if not found)
    if missing:
        raise ValueError(
            f"the model was trained for the quantiles {_list(trained)}, not for {_list(missing)}: train with "
            f"quantiles=[{_list(sorted({*missing, *trained}))}]"
        )
    if not wanted:
        raise ValueError(f"no quantile is asked for; the model has {_list(trained)}")
    return sorted({found[0] for found in places.values()})


def _list(numbers: Iterable[float]) -> str:
    return ", ".join(f"{one:g}" for one in numbers)


def forecasts(taken: Taken, restorer: Restorer, has_origins: bool, wanted: Sequence[int]) -> Any:
    """A row for each moment, a column for each wanted quantile; with origins also what was measured."""
    pandas = need_pandas("a table of forecasts")
    import numpy

    shape = (len(taken.entities), taken.horizon, len(taken.targets), len(taken.quantiles))
    values = numpy.frombuffer(b"".join(taken.values), "float64").reshape(shape)
    actuals = numpy.frombuffer(b"".join(taken.actuals), "float64").reshape(shape[:3])
    times: Dict[str, Any] = {"origin": numpy.repeat(numpy.array(taken.origins), taken.horizon)} if has_origins else {}
    times["time"] = numpy.frombuffer(b"".join(taken.times), "int64")
    made = restorer.frame([one.decode() for one in taken.entities], taken.horizon, **times)
    for o, target in enumerate(taken.targets):
        if has_origins:
            made[free_name(target, made)] = actuals[:, :, o].ravel()
        for q in wanted:
            quantile = taken.quantiles[q]
            made[free_name(f"{target}_{quantile:g}", {*made, *restorer.named})] = values[:, :, o, q].ravel()
    return pandas.DataFrame(made)


def relied(taken: Taken, restorer: Restorer) -> Any:
    """A row for each window: the weights of its inputs, and its attention to each lag."""
    pandas = need_pandas("a table of weights")
    import numpy

    made = restorer.frame([one.decode() for one in taken.entities], 1, origin=numpy.array(taken.origins))
    weights = numpy.frombuffer(b"".join(taken.weights), "float64").reshape(len(taken.entities), -1)
    lags = numpy.frombuffer(b"".join(taken.lags), "float64").reshape(len(taken.entities), -1)
    for i, name in enumerate(taken.inputs):
        made[free_name(name, made)] = weights[:, i]
    for i in range(lags.shape[1]):
        made[free_name(f"lag {i}", made)] = lags[:, i]
    return pandas.DataFrame(made)


class Document:
    """A document of the library's: its keys, as `halay-tft --json` writes them."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self.document = document

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def _form(self, form: str) -> str:
        place = ctypes.c_void_p()
        status = c.lib.halay_tft_format(json.dumps(self.document).encode(), form.encode(), ctypes.byref(place))
        if status:
            raise c.last_error(status)
        text = ctypes.string_at(place.value or 0).decode()
        c.lib.halay_tft_free(place)
        return text

    def _cells(self, name: str) -> Any:
        """Columns and rows of a table, as the library lists them."""
        return json.loads(self._form("tables"))[name]

    def _table(self, name: str) -> Any:
        cells = self._cells(name)
        return need_pandas("a table of results").DataFrame(cells["rows"], columns=cells["columns"])

    def __repr__(self) -> str:
        return self._form("table").rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


def _median(q_risk: Dict[str, Any]) -> Optional[str]:
    """The key of the quantile that is nearest to one half."""
    keys = [key for key in q_risk if key[:1] == "p" and isinstance(q_risk[key], (int, float))]
    return min(keys, key=lambda key: abs(float(key[1:]) - 50)) if keys else None


class Evaluation(Document):
    """
    Scores of forecasts beside those of naive ones, which repeat a season or the last value, or draw the past's line on
    (drift); lower is better.

    frame: q-risks, a row for each forecast; by_horizon, by_entity: scores as DataFrames; document, and evaluation[key]:
    what `halay-tft evaluate --json` writes.
    """

    @property
    def targets(self) -> Dict[str, Dict[str, Any]]:
        """The scores of each target; one alone has no name."""
        return self.document.get("targets") or {"": self.document}

    def medians(self) -> List[Tuple[str, Optional[float], Optional[float]]]:
        """Of each target the median's q-risk of the forecast and of the best naive one; None: nothing was measured."""
        found = []
        for target, scores in self.targets.items():
            key = _median(scores["q_risk"])
            found.append((target, scores["q_risk"].get(key), (scores.get("best_naive") or {}).get("q_risk")))
        return found

    def no_better(self) -> Dict[str, str]:
        """A sentence for each target whose median is not better, by 1 % at least, than the best naive one."""
        key = "no_better_than_naive"
        return {target: scores[key] for target, scores in self.targets.items() if scores.get(key)}

    @property
    def better_than_naive(self) -> bool:
        """Whether the median of each target is better than the best naive one."""
        return not self.no_better()

    @property
    def frame(self) -> Any:
        """q-risks: a row for the forecast and for each naive one, a column for each quantile."""
        frame = self._table("q_risk")
        if len(self.targets) > 1:
            return frame.set_index(["target", "forecast"])
        return frame.drop(columns="target").set_index("forecast")

    def _scores(self, scope: str) -> Any:
        frame = self._table("all")
        unwanted = ["scope"] if "targets" in self.document else ["scope", "target"]
        frame = frame[frame["scope"] == scope].drop(columns=unwanted).rename(columns={"name": scope})
        return frame.infer_objects().reset_index(drop=True)

    @property
    def by_horizon(self) -> Any:
        """Scores of each step of the horizon."""
        return self._scores("horizon")

    @property
    def by_entity(self) -> Any:
        """Scores of each series."""
        return self._scores("entity")


class Drift(Document):
    """
    What moved since the training: the inputs of recent rows, and the errors and coverage of their forecasts.

    drifted: whether anything did, by the stated rate of false alarms; frame: a row for each statistic; document, and
    drift[key]: what `halay-tft drift --json` writes.
    """

    @property
    def drifted(self) -> bool:
        """Whether any statistic is above its threshold."""
        return bool(self["drifted"])

    def rows(self) -> List[Dict[str, Any]]:
        """Each statistic: its entity (None: all of them) and input (None: forecasts), value, threshold, drifted."""
        cells = self._cells("statistics")
        return [dict(zip(cells["columns"], row)) for row in cells["rows"]]

    @property
    def frame(self) -> Any:
        """The statistics, that which is farthest beyond its threshold first."""
        return self._table("statistics")


class Explanation(Document):
    """
    What forecasts rely on: how variable selection weighs the inputs, where attention looks, and, as a check, how much
    worse forecasts become without an input.

    importance, attention, windows: DataFrames; document, and explanation[key]: what `halay-tft explain --json` writes.
    """

    def __init__(self, document: Dict[str, Any], windows: str, restorer: Restorer) -> None:
        super().__init__(document)
        self._windows, self._restorer = windows, restorer

    @property
    def importance(self) -> Any:
        """A row for each part (static, past, future) and input: weights, and the q-risk's change without it in %."""
        return self._table("inputs")

    @property
    def attention(self) -> Any:
        """A row for each lag: mean attention to the step this number of steps before the one that is forecast."""
        return self._table("lags")

    @property
    def windows(self) -> Any:
        """A row for each window: its distance from the usual attention, its regime, and its inputs' mean weights."""
        pandas = need_pandas("a table of windows")
        frame = pandas.read_csv(io.StringIO(self._windows), dtype=str, keep_default_na=False)  # an id may be "NA"
        clock = self._restorer.clock
        made = self._restorer.frame(list(frame["entity"]), 1, origin=clock.parse(frame["origin"]))
        numbers = frame.drop(columns=["entity", "origin"]).apply(pandas.to_numeric)
        numbers.columns = [free_name(name, made) for name in numbers.columns]
        return pandas.concat([pandas.DataFrame(made), numbers], axis=1)

    def plot(self) -> Any:
        """Weights and attention as a figure of matplotlib's."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("to plot needs matplotlib, which is not installed: pip install matplotlib") from None
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        importance = self.importance
        names = importance["part"] + " " + importance["input"]
        left.barh(names[::-1], importance["mean"][::-1])
        left.set_title("weight")
        attention = self.attention
        right.plot(attention["lag"], attention["mean"])
        right.set_title("attention")
        right.set_xlabel("steps before the one that is forecast")
        return figure
