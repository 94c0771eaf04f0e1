# SPDX-License-Identifier: Apache-2.0
"""Passes over windows, batch by batch as arrays; and the rows of prepared data."""

import ctypes
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from . import _library as c
from ._library import last_error, lib, sized
from ._results import Restorer
from ._session import Handle, describe
from ._tables import need_pandas

_BATCH = 256  # windows


class Batch(NamedTuple):
    """Windows in order of series and origin, as many as the first length of each array."""

    entities: Any  # the ids, as the table has them
    origins: Any  # the last moment that each knows
    past: Any  # steps that each looks back over
    forecasts: Any  # (windows, horizon, targets, quantiles)
    actuals: Any  # (windows, horizon, targets) NaN: not measured
    inputs: Dict[str, List[str]]  # of "static", "past" and "future", in the order of weights
    weights: Optional[Dict[str, Any]]  # of each part: (windows, inputs), (windows, encoder or horizon, inputs)
    attention: Any  # (windows, heads, horizon, encoder + horizon), or None


class _Arrays:
    """The windows of a batch, copied."""

    def __init__(self, model: Dict[str, Any]) -> None:
        encoder, horizon = model["encoder"], model["horizon"]
        self._values = (horizon, len(model["targets"]), len(model["quantiles"]))
        self.inputs: Dict[str, List[str]] = model["selected"]
        steps = {"static": (), "past": (encoder,), "future": (horizon,)}
        self._shapes = {part: (*steps[part], len(names)) for part, names in self.inputs.items()}
        self._shapes["attention"] = (model["heads"], horizon, encoder + horizon)
        self._names = {"static": "statics", "past": "history", "future": "future", "attention": "attention"}
        self._columns: Dict[str, List[Any]] = {}

    def take(self, place: Any) -> int:
        """Copy windows of a pass, on a thread of the session's; a status."""
        import numpy

        def copy(name: str, address: Any, kind: Any, shape: Any) -> None:
            count = int(numpy.prod(shape))
            array = (kind * count).from_address(address) if count else ()
            self._columns.setdefault(name, []).append(numpy.array(array).reshape(shape))

        self._columns = {}
        window = ctypes.POINTER(c.Forecast)()
        for _ in range(_BATCH):
            status = lib.halay_tft_pass_next(place, ctypes.byref(window))
            if status or not window:
                return int(status)
            f = window.contents
            for name, value in (("entities", f.entity.decode()), ("origins", f.origin), ("pasts", f.past)):
                self._columns.setdefault(name, []).append(value)
            copy("forecasts", f.values, ctypes.c_double, self._values)
            copy("actuals", f.actuals, ctypes.c_double, self._values[:2])
            for part, shape in self._shapes.items() if f.weighed else ():
                copy(part, getattr(f.weighed.contents, self._names[part]), ctypes.c_float, shape)
        return 0

    def batch(self, restorer: Restorer) -> Optional[Batch]:
        """Return the windows that were taken; None: nothing."""
        import numpy

        if not self._columns:
            return None
        made = {name: numpy.array(column) for name, column in self._columns.items() if name != "entities"}
        weights = {part: made[part] for part in self.inputs} if "attention" in made else None
        return Batch(
            restorer.ids(self._columns["entities"]), restorer.clock.restore(made["origins"]), made["pasts"],
            made["forecasts"], made["actuals"], self.inputs, weights, made.get("attention"))  # fmt: skip


def batches(model: Handle, data: Handle, restorer: Restorer, owns_data: bool, **how: Any) -> Iterator[Batch]:
    """The windows of a pass; data that were read for it are closed with it."""
    arrays = _Arrays(describe(lib.halay_tft_model_describe, model))
    options = sized(c.PassOptions, **how)
    session = model.session
    begun: List[Handle] = []
    try:
        begun.append(session.open(
            lib.halay_tft_pass_close, lib.halay_tft_pass_open, model.pointer, data.pointer, ctypes.byref(options),
            can_stop=True))  # fmt: skip
        while True:
            if session.call(arrays.take, begun[0].pointer):
                raise KeyboardInterrupt
            batch = arrays.batch(restorer)
            if batch is None:
                return
            yield batch
    finally:
        for handle in (*begun, *([data] if owns_data else [])):
            handle.close()


def _checked(status: int) -> None:
    if status:
        raise last_error(status)


def rows(data: Handle, restorer: Restorer) -> Any:
    """A row for each step of each series: id, time and a column for each input over time; rows of gaps are left out."""
    pandas = need_pandas("a table of rows")
    import numpy

    with data.session._lock:
        place, extent = data.pointer(), sized(c.Extent)
        inputs: List[Any] = []
        parts: List[Any] = []
        _checked(lib.halay_tft_data_extent(place, ctypes.byref(extent)))
        for k in range(extent.inputs):
            inputs.append(sized(c.Input))
            _checked(lib.halay_tft_data_input(place, k, ctypes.byref(inputs[k])))
        for e in range(extent.entities):
            count = ctypes.c_size_t()
            name = lib.halay_tft_data_entity(place, e, ctypes.byref(count)).decode()
            times, gaps = numpy.empty(count.value, "int64"), numpy.empty(count.value, "uint8")
            _checked(lib.halay_tft_data_times(place, e, 0, count.value, times.ctypes.data, gaps.ctypes.data))
            columns = numpy.empty((extent.inputs, count.value))
            for k in range(extent.inputs):
                _checked(lib.halay_tft_data_cells(place, e, k, 0, count.value, columns[k].ctypes.data))
            parts.append((name, times[gaps == 0], columns[:, gaps == 0]))
        texts = [
            [lib.halay_tft_data_category(place, k, code) for code in range(x.categories)] for k, x in enumerate(inputs)
        ]
    names = [name for name, times, _ in parts for _ in times]
    made = restorer.frame(names, 1, time=numpy.concatenate([times for _, times, _ in parts]))
    values = numpy.concatenate([columns for _, _, columns in parts], axis=1)
    for k, x in enumerate(inputs):
        column = values[k]
        if any(texts[k]):
            named = numpy.array([None if text is None else text.decode() for text in texts[k]], dtype=object)
            column = named[column.astype("int64")]
        elif x.is_category:
            column = column.astype("int64")
        made[x.name.decode()] = column
    return pandas.DataFrame(made)
