# SPDX-License-Identifier: Apache-2.0
"""
Cross-validation: forecasts from origins that roll through the end of each series, of models that have not seen what
they forecast.

    one training      train ................ | valid | 1  2  3        refit=False
    a training each   train ................ | valid | 1
                      train ................... | valid | 2           refit=True
                      train ...................... | valid | 3

Each training has the table's rows and a schema whose test is the steps of its windows, which neither weights nor
scalers see; the windows of a series end with its last row.
"""

from numbers import Integral
from typing import Any, Dict, List, Mapping, Union

from ._results import free_name
from ._tables import need_pandas


def check_windows(n_windows: int, stride: Any, refit: Union[bool, int]) -> int:
    """Return the number of windows of each training. ValueError: an argument is not a count."""
    stride = 1 if stride is None else stride
    for name, value, least in (("n_windows", n_windows, 1), ("stride", stride, 1), ("refit", refit, 0)):
        if not (isinstance(value, Integral) and int(value) >= least):
            raise ValueError(f"{name} is a whole number, {least} at least: {value!r} is not")
    return min(int(refit), n_windows) if refit else n_windows


def split_for(prepared: Mapping[str, Any], windows: int, stride: int) -> Dict[str, str]:
    """Return splits for this number of windows; validation has its usual length, before the steps of the windows."""
    horizon = int(prepared["document"]["window"]["horizon"])
    tenths = int(prepared["rows"]) // int(prepared["entities"]) // 10 // horizon
    split = {"test": f"last {horizon + (windows - 1) * stride} steps"}
    if "valid" in prepared["document"]["split"]:
        split["valid"] = f"last {max(1, tenths)} horizons"
    return split


def _series_of(frame: Any, id: Any, horizon: int) -> Any:
    """A number of the series of each window."""
    pandas = need_pandas("a cross-validation")
    return pandas.Series(pandas.factorize(frame[id])[0][::horizon] if id is not None else [0] * (len(frame) // horizon))


def has_fewer(frame: Any, id: Any, horizon: int, windows: int) -> bool:
    """Return whether a series has fewer windows in predict(split=...): its last one may not end with its last row."""
    series = _series_of(frame, id, horizon)
    return bool(series.groupby(series).size().min() < windows)


def from_ends(frame: Any, id: Any, time: str, horizon: int, stride: int) -> Any:
    """Rows of the windows that are a multiple of the stride from the last one of their series; those of frame: 1."""
    pandas = need_pandas("a cross-validation")
    series = _series_of(frame, id, horizon)
    moments = pandas.Series(pandas.factorize(frame[time], sort=True)[0][::horizon])
    steps = moments.groupby(series).transform("max") - moments
    return frame[(steps % stride == 0).to_numpy().repeat(horizon)]


def take_windows(frame: Any, id: Any, horizon: int, first: int, count: int) -> Any:
    """
    Rows of the windows that are first, first + 1, ... from each series' end (0: the last). frame: predict(split=...),
    windows in order of series and origin.
    """
    series = _series_of(frame, id, horizon)
    places = series.groupby(series).cumcount(ascending=False)
    return frame[places.between(first, first + count - 1).to_numpy().repeat(horizon)]


def join_windows(parts: List[Any], id: Any, origin: str, time: str) -> Any:
    """The parts as one table: id, time, cutoff, and what was measured and forecast; by series and cutoff."""
    pandas = need_pandas("a cross-validation")
    frame = pandas.concat(parts, ignore_index=True)
    frame = frame.sort_values([*([id] if id is not None else []), origin, time], kind="stable", ignore_index=True)
    others = [name for name in frame.columns if name not in (id, time, origin)]
    frame = frame[[*([id] if id is not None else []), time, origin, *others]]
    return frame.rename(columns={origin: free_name("cutoff", frame.columns)})
