# SPDX-License-Identifier: Apache-2.0
"""The forecaster: parameters as scikit-learn keeps them, and calls of the library with tables of pandas."""

import ctypes
import inspect
import json
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from ..context import Context
from ..constants import Status
from ..errors import ArgumentError, FormatError, HalayError, UnsupportedError, error
from . import _library as c
from ._cross_validation import check_windows, from_ends, has_fewer, join_windows, split_for, take_windows
from ._library import lib, sized
from ._names import instead_of
from ._progress import Silent, format_step, progress
from ._results import Drift, Evaluation, Explanation, Restorer, Taken, forecasts, relied, wanted_quantiles
from ._schemas import CONSTANT_ID, Roles, Schema, columns_of, holidays_of, make_schema, names_of, read_schema
from ._session import Handle, Session, describe, session_of, warn
from ._summary import summary
from ._tune import Tuning, best_run, check_folder, metrics_of, options_of, search
from ._tables import Columns, Table, as_frame, need_pandas, table_of, with_index, with_static, zone_of
from ._windows import Batch, batches, rows

_PARAMS_FILE = "forecaster.json"
_STATIC_OF_FILES = "static_df goes with a table in memory or of Parquet: CSV files have all columns"
# What fit sets: handles of the library's, the table as a frame or paths; in a pickle the model's files.
_FITTED = ("_model", "_data", "_table", "_static", "_files")

Self = TypeVar("Self", bound="Forecaster")
T = TypeVar("T")


def _plain(value: Any) -> Any:
    """A value of a parameter as JSON has it, also where it holds NumPy's numbers and arrays, tuples or paths."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _json(value: Any, **how: Any) -> str:
    def refuse(one: Any) -> None:
        raise TypeError(f"a parameter is a {type(one).__qualname__}, which JSON has no word for: {one!r}")

    return json.dumps(_plain(value), default=refuse, **how)


def _named(call: Callable[[], T]) -> T:
    """Return the call's result. An error that names a row of a table in memory also names its place in pandas."""
    try:
        return call()
    except HalayError as failure:
        subject, row, *_ = failure.place
        if row is None or subject not in ("table", "the future's table"):
            raise
        text = f"{failure} (row {row} is .iloc[{row - 1}])"
        raise error(failure.status, text, place=failure.place) from None


def _prepare(session: Session, table: Table, how: Mapping[str, Any]) -> Handle:
    """Data of a table."""
    options = sized(c.PrepareOptions, **how)
    data = _named(lambda: session.open(
        lib.halay_tft_data_close, lib.halay_tft_prepare, session.pointer, ctypes.byref(table.struct),
        ctypes.byref(options)))  # fmt: skip
    _check_zone(table, describe(lib.halay_tft_data_describe, data)["document"])
    return data


def _check_zone(table: Table, schema: Mapping[str, Any]) -> None:
    time = (schema.get("time") or {}).get("column")
    zone = zone_of(table.frame, str(time)) if table.zone else None
    if zone and not schema.get("zone"):
        raise ValueError(
            f"column '{time}' has the time zone {zone}, and the schema or the times of the training have none: "
            "take it away (dt.tz_localize(None)), or give the schema a zone"
        )


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


class Forecaster:
    """
    A Temporal Fusion Transformer that forecasts quantiles of time series, with scikit-learn's manners: parameters are
    kept as they are given, `fit` returns the forecaster, what was learned has names that end in `_`.

    horizon, encoder: steps that are forecast, and steps of the past that are seen; by default they follow from the step
    (24 and 168 for hours).
    id, time, target: columns. id=None: the table is one series. target: one, or a list of them.
    static, known, observed: more columns, a name, a list, or a dict of names and their attributes in the schema
    ({"price": {"scale": "log1p-standard"}}). static: constant for a series; known: known ahead of time; observed: known
    up to the origin only. Texts and categoricals are categories, booleans 0 and 1.
    freq: the step from row to row, as pandas or the schema names it; by default it is found in the times.
    zone: the time zone of the clock by which times without a zone are written, like "Europe/Berlin".
    country: holidays of "DE", "DE-BY" or several of them are known inputs, by the package `holidays` (pip install
    holidays); for the years of the table and ten more.
    split: ends of the splits, {"train": "< 2017-08-01", "valid": "< 2018-02-01", "test": "< 2018-08-03"}; by default
    the last tenth of the time is for validation and nothing for a test.
        schema: in place of all of these: the path of a schema, or a dict (docs/reference/schema.md).
    verbose: show progress, on standard error or in the notebook.
    Other parameters are the keys of a training, like hidden_size, max_time, learning_rate, quantiles, calibrate, refit
    (CONFIGURATION in halay-tft(1)); True and False are on and off.

    A table is a pandas.DataFrame, a pyarrow.Table, what has Arrow's or the DataFrame interchange protocol, a dict of
    arrays, or paths of CSV or Parquet files. Results are DataFrames; ids and times have the types of the table.

    Under halayrun all ranks make the same calls with the same tables, train one model together, and get the same
    results. Errors of the library are those of halay.errors.
    """

    def __init__(
        self,
        *,
        horizon: Optional[int] = None,
        encoder: Optional[int] = None,
        id: Optional[str] = "unique_id",
        time: str = "ds",
        target: Roles = "y",
        static: Roles = None,
        known: Roles = None,
        observed: Roles = None,
        freq: Union[None, str, int] = None,
        zone: Optional[str] = None,
        country: Union[None, str, Sequence[str]] = None,
        split: Optional[Mapping[str, str]] = None,
        schema: Schema = None,
        verbose: bool = True,
        **keys: Any,
    ) -> None:
        self.horizon = horizon
        self.encoder = encoder
        self.id = id
        self.time = time
        self.target = target
        self.static = static
        self.known = known
        self.observed = observed
        self.freq = freq
        self.zone = zone
        self.country = country
        self.split = split
        self.schema = schema
        self.verbose = verbose
        self._keys = tuple(keys)
        for key, value in keys.items():
            if hasattr(type(self), key) or instead_of(key):
                why = instead_of(key) or ": it is a method"
                raise TypeError(f"'{key}' is not a parameter of a Forecaster{why}")
            setattr(self, key, value)

    # ---- parameters ----

    @classmethod
    def _defaults(cls) -> Dict[str, Any]:
        """Return the parameters that are not keys of a training."""
        members = inspect.signature(cls.__init__).parameters.values()
        return {one.name: one.default for one in members if one.kind is one.KEYWORD_ONLY}

    def get_params(self, deep: bool = True) -> Dict[str, Any]:
        """All parameters, as they were given."""
        return {name: getattr(self, name) for name in (*self._defaults(), *self._keys)}

    def _changed(self) -> Dict[str, Any]:
        """Parameters that are not as by default, in plain values."""
        params, defaults = _plain(self.get_params()), self._defaults()
        return {name: one for name, one in params.items() if name not in defaults or one != defaults[name]}

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters; any key of a training can be one."""
        for name, value in params.items():
            if name not in self._defaults() and name not in self._keys:
                if hasattr(type(self), name) or name.endswith("_") or instead_of(name):
                    raise ValueError(f"'{name}' is not a parameter of a Forecaster{instead_of(name)}")
                self._keys += (name,)
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(allow_nan=True)
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self) or "_files" in vars(self)

    # ---- tables ----

    def _check_schema(self) -> None:
        for name in self._changed():
            if name not in ("schema", "verbose", *self._keys):
                raise ValueError(f"schema and {name}: the schema defines that itself")

    def _described(self, given: Any, static: Any) -> Tuple[Table, Dict[str, Any]]:
        """The table of a training, and how it is prepared. static: static_df as a frame, or None."""
        frame = as_frame(given)
        if self.schema is not None:
            self._check_schema()
            path, document = read_schema(self.schema)
            columns = Columns(None, None, None) if document is None else columns_of(document)
            if static is not None:
                frame = with_static(frame, static, columns.id or self.id)
            table = table_of(given if frame is None else frame, columns)
            return table, {"schema": path} if document is None else {"schema_text": _json(document)}
        if frame is not None:
            frame = with_static(with_index(frame, self.id, self.time), static, self.id)
        elif static is not None:
            raise ValueError(_STATIC_OF_FILES)
        elif self.id is None:
            raise ValueError("id=None is for tables in memory: files have a column of ids")
        params = _plain(self.get_params())
        if static is not None:
            roles: Dict[str, Dict[str, Any]] = {str(name): {} for name in static.columns if name != self.id}
            params["static"] = {**roles, **names_of(params["static"])}
        params["holidays"] = holidays_of(params["country"], frame, self.time)
        columns = columns_of(make_schema(params, frame, None))
        columns = columns._replace(id=self.id)
        table = table_of(given if frame is None else frame, columns, CONSTANT_ID if self.id is None else None)
        return table, {"schema_text": _json(make_schema(params, frame, table.zone))}

    def _has_id(self) -> bool:
        """Return whether tables, and so results, have a column of ids."""
        return self.id is not None or self.schema is not None

    def _read(self, given: Any, static: Any = None, is_future: bool = False) -> Table:
        """A table like that of the training, with its static_df unless there is another one."""
        columns = columns_of(self.schema_)
        constant = None if self._has_id() else columns.id
        frame = as_frame(given)
        if static is not None and frame is None:
            raise ValueError(_STATIC_OF_FILES)
        if frame is not None and not is_future:
            frame = self._with_static(with_index(frame, columns.id, columns.time), static, columns.id)
        columns = columns if constant is None else columns._replace(id=None)
        table = table_of(given if frame is None else frame, columns, constant)
        _check_zone(table, self.schema_)
        return table

    def _with_static(self, frame: Any, static: Any, id: Optional[str]) -> Any:
        """A frame with the columns of static_df: the one that is given, or the training's where it lacks them."""
        if static is not None:
            return with_static(frame, as_frame(static), id)
        kept = vars(self).get("_static")
        if kept is None or all(name in frame.columns for name in kept.columns):
            return frame
        return with_static(frame, kept, id)

    # ---- training ----

    def fit(
        self: Self,
        X: Any,
        y: Any = None,
        *,
        static_df: Any = None,
        folder: Union[None, str, "os.PathLike[str]"] = None,
        resume: bool = False,
        context: Optional[Context] = None,
    ) -> Self:
        """
        Train on a table. y: the target, where X does not have it. static_df: a table with a row for each series, its id
        and what is constant for it: all of its columns become static inputs, also of the tables of later calls.

        Ctrl-C ends the training after its step, with the best weights so far; twice, or before there are weights, it is
        a KeyboardInterrupt. folder: keep the run there, as halay-tft train does, with checkpoints; resume: continue
        from the newest one. context: train in this job; by default the program's own, which all ranks of a job join.
        """
        for name in [name for name in vars(self) if name.endswith("_") or name in _FITTED]:
            delattr(self, name)
        if y is not None:
            X = self._with_target(X, y)
        session = self._session(context)
        static = as_frame(static_df) if static_df is not None else None
        table, how = self._described(X, static)
        data = _prepare(session, table, how)
        self._learn(session, data, folder, resume)
        self._table, self._static = X if table.frame is None else table.frame, static
        return self

    def _session(self, context: Optional[Context]) -> Session:
        return session_of(context, getattr(self, "deterministic", None), getattr(self, "device", None))

    def _learn(self, session: Session, data: Handle, folder: Any = None, resume: bool = False) -> None:
        """Train on prepared data."""
        self.data_ = describe(lib.halay_tft_data_describe, data)
        self.history_: List[Dict[str, Any]] = []
        shown = progress(bool(self.verbose))
        try:
            model = self._train(session, data, shown, folder, resume)
        finally:
            shown.close()
        self.history_ = json.loads(session.share(json.dumps(self.history_).encode()))
        if model.interrupted > 1:
            raise KeyboardInterrupt
        self._take_model(model)
        self._data = data
        self.stopped_ = bool(model.interrupted)

    def _with_target(self, X: Any, y: Any) -> Any:
        targets = list(names_of(self.target))
        frame = as_frame(X)
        if frame is None or len(targets) != 1:
            raise ValueError("y goes with a table in memory and one target")
        return frame.assign(**{targets[0]: y.to_numpy() if hasattr(y, "to_numpy") else y})

    def _config(self) -> str:
        """The keys of a training; True and False are its words on and off."""
        words = {True: "on", False: "off"}
        values = {key: getattr(self, key) for key in self._keys}
        return _json({key: words[one] if isinstance(one, bool) else one for key, one in values.items()})

    def _train(self, session: Session, data: Handle, shown: Silent, folder: Any, resume: bool) -> Handle:
        def step(_: Any, place: Any) -> None:
            if shown.is_due():
                text = format_step(place.contents)
                session.post(lambda: shown.step(text))

        def metrics(_: Any, line: bytes) -> None:
            evaluation = json.loads(line)
            session.post(lambda: self.history_.append(evaluation))

        def say(_: Any, line: bytes) -> None:
            text = line.decode(errors="replace")
            is_warning = text.startswith(("health: ", "no better than naive"))
            session.post(lambda: warn(text) if is_warning else shown.say(text))

        callbacks = c.STEP(step), c.LINE(metrics), c.LINE(say)
        options = sized(
            c.TrainOptions,
            config=self._config(),
            folder=None if folder is None else os.fspath(folder),
            resume=int(resume),
            progress=callbacks[0],
            metrics_line=callbacks[1],
            say=callbacks[2],
        )
        return session.open(
            lib.halay_tft_model_close, lib.halay_tft_train, session.pointer, data.pointer, ctypes.byref(options),
            can_stop=True)  # fmt: skip

    def _take_model(self, model: Handle) -> None:
        described = describe(lib.halay_tft_model_describe, model)
        self._model = model
        self.schema_: Dict[str, Any] = described["schema"]
        self.config_: Dict[str, Any] = described["config"]
        self.quantiles_: List[float] = described["quantiles"]
        self.targets_: List[str] = described["targets"]
        self.horizon_: int = described["horizon"]
        self.encoder_: int = described["encoder"]
        self.parameter_count_: int = described["parameters"]
        self.evaluations_: Dict[str, Evaluation] = {}

    def _fitted(self) -> Handle:
        """The model; one that was pickled is opened at its first use."""
        files = vars(self).get("_files")
        if files is not None:
            with tempfile.TemporaryDirectory() as folder:
                for name, content in files.items():
                    with open(os.path.join(folder, name), "wb") as file:
                        file.write(content)
                session = session_of(None, self.config_.get("deterministic"), getattr(self, "device", None))
                self._model = session.open(
                    lib.halay_tft_model_close, lib.halay_tft_model_open, session.pointer,
                    os.fsencode(folder))  # fmt: skip
            vars(self).pop("_files", None)
        if "_model" not in vars(self):
            raise ArgumentError("this Forecaster is not fitted yet: call fit, or Forecaster.load", Status.ARGUMENT)
        return self._model

    def tune(
        self,
        X: Any,
        space: Union[str, "os.PathLike[str]", Mapping[str, Any]],
        *,
        trials: Optional[int] = None,
        time: Optional[float] = None,
        folder: Union[None, str, "os.PathLike[str]"] = None,
        resume: bool = False,
        static_df: Any = None,
        **options: Any,
    ) -> Tuning:
        """
        Look for the keys with the lowest validation loss among those of a space, as `halay-tft tune` does; its result
        has them, a frame of the trials, and a Forecaster with the best, fitted. This one is not trained.

        X, static_df: as in fit. space: values of keys, {"hidden_size": [16, 32], "learning_rate": {"from": 0.001, "to":
        0.01, "scale": "log"}}, or a path (docs/guides/tuning.md). A trial is a training with this forecaster's keys and
        some of the space; max_steps, max_time or epochs say how long. trials: at most (30, unless time is given); time:
        seconds of the whole search. folder: where the trials are kept, which resume=True continues; otherwise they
        are removed. options: those of halay-tft tune, like parallel=4, eta=3, goal="q_risk", ranks=2. Shows how each
        trial ended. Ctrl-C is a KeyboardInterrupt, after which the folder can be resumed. TypeError: an option is not
        one of a search, as a key of a training is not; ConfigError: the space or an option's value is wrong;
        UnsupportedError: under halayrun, since trials are jobs of their own; FileNotFoundError: the program
        halay-tft is missing.
        """
        session = self._session(None)
        if session.context.size > 1:
            raise UnsupportedError("tune starts jobs of its own: call it in one process, and give it ranks=N")
        if resume and folder is None:
            raise ValueError("resume continues in a folder: give it")
        static = as_frame(static_df) if static_df is not None else None
        table, how = self._described(X, static)
        asked = options_of({"trials": trials, "time": time, "resume": resume, **options})
        config = self._config()
        values = _json(space).encode() if isinstance(space, Mapping) else space
        with tempfile.TemporaryDirectory() as made:
            place = os.fspath(made if folder is None else folder)
            check_folder(place, resume)
            os.makedirs(place, exist_ok=True)
            data = _prepare(session, table, {**how, "path": os.path.join(place, "data.htd")})
            shown = progress(bool(self.verbose))
            try:
                found = search(place, values, config, asked, shown)
            finally:
                shown.close()
            best = Tuning(found, None).best
            forecaster = type(self)(**{**self.get_params(), **best})
            run = best_run(place, found)
            if run:
                forecaster._take_run(session, run, data)
            else:
                forecaster._learn(session, data)
        forecaster._table, forecaster._static = X if table.frame is None else table.frame, static
        return Tuning(found, forecaster)

    def _take_run(self, session: Session, run: str, data: Handle) -> None:
        """A training's outcome, as fit leaves it, of the folder of its run."""
        self._take_model(session.open(
            lib.halay_tft_model_close, lib.halay_tft_model_open, session.pointer, os.fsencode(run)))  # fmt: skip
        self.data_ = describe(lib.halay_tft_data_describe, data)
        self.history_ = metrics_of(run)
        self._data, self.stopped_ = data, False

    # ---- forecasts ----

    def predict(
        self,
        X: Any = None,
        *,
        future: Any = None,
        static_df: Any = None,
        split: Optional[str] = None,
        stride: Optional[int] = None,
        levels: Optional[Sequence[float]] = None,
        quantiles: Optional[Sequence[float]] = None,
        calibrate: Optional[str] = None,
        explain: bool = False,
    ) -> Any:
        """
        Forecast the steps after the last row of each series of X, of the table of the training by default.

        A DataFrame: id, time, and a column for each quantile, y_0.1, y_0.5, y_0.9. future: a table with the known
        inputs of the horizon. static_df: as in fit, whose own is taken by default; a loaded forecaster has none.
        split: "train", "valid" or "test": forecast the windows of that split, stride steps apart, in place of
        the steps after the end; with origin, the last moment that a forecast knows, and what was measured.
        levels: the median and the ends of intervals that hold these shares, in percent: [80, 90] are the quantiles
        0.05, 0.1, 0.5, 0.9, 0.95. quantiles: these alone, between 0 and 1. Both are of those that were trained (all of
        them, by default); others are a ValueError that lists them.
        calibrate: "none", "conformal", "rolling"; by default as the model was trained. explain: return two DataFrames,
        the second with what each forecast relied on.
        """
        model = self._fitted()
        need_pandas("a table of forecasts")
        if X is None and static_df is not None:
            raise ValueError("static_df goes with X: the table of the training has its own")
        wanted = wanted_quantiles(levels, quantiles, self.quantiles_)
        tables = [
            None if X is None else self._read(X, static_df),
            None if future is None else self._read(future, is_future=True),
        ]
        is_stored = X is None and split is not None
        if is_stored and "_data" not in vars(self):
            raise ArgumentError("the data of the training are not here: give the table", Status.ARGUMENT)
        if X is None and split is None:
            if "_table" not in vars(self):
                raise ArgumentError(
                    "the table of the training is not here: give the rows to forecast from", Status.ARGUMENT
                )
            tables[0] = self._read(self._table)
        taken = Taken()
        table = tables[0]
        options = sized(
            c.ForecastOptions,
            table=None if table is None else ctypes.pointer(table.struct),
            future=None if tables[1] is None else ctypes.pointer(tables[1].struct),
            split=split,
            stride=stride or 0,
            calibrate=calibrate,
            explains=int(explain),
            take=taken.callback,
        )

        def given() -> Any:
            options.data = self._data.pointer() if is_stored else None
            return ctypes.byref(options)

        try:
            interrupted = _named(lambda: model.session.call(lib.halay_tft_forecast, model.pointer, given))
        except HalayError:
            if taken.failure:
                raise taken.failure
            raise
        if interrupted:
            raise KeyboardInterrupt
        frame = as_frame(self._table) if table is None else table.frame
        restorer = Restorer(self.schema_, frame, self._has_id())
        made = forecasts(taken, restorer, split is not None, wanted)
        return (made, relied(taken, restorer)) if explain else made

    def cross_validation(
        self,
        X: Any,
        y: Any = None,
        *,
        n_windows: int = 1,
        stride: Optional[int] = None,
        refit: Union[bool, int] = False,
        static_df: Any = None,
        levels: Optional[Sequence[float]] = None,
        quantiles: Optional[Sequence[float]] = None,
        context: Optional[Context] = None,
    ) -> Any:
        """
        Forecast the last n_windows horizons of each series, each window with what was known at its cutoff, by models
        that have not seen them.

        A DataFrame: id, time, cutoff (the last moment that a forecast knows), what was measured, and a column for each
        quantile: n_windows x horizon rows for each series, fewer where it is too short. stride: steps from one cutoff
        to the next, by default the horizon. refit: False: one training, on what precedes the first window; True: one
        for each window; a number: one for this number of windows. y, static_df: as in fit; levels, quantiles: as in
        predict. Splits are its own, so that `split` has no effect, nor has the key `refit`. This forecaster itself is
        not trained. Ctrl-C is a KeyboardInterrupt. ValueError: a number is not a count; errors of the library: as from
        fit, FormatError also where the series are too short for the windows.
        """
        each = check_windows(n_windows, stride, refit)
        need_pandas("a cross-validation")
        if y is not None:
            X = self._with_target(X, y)
        session = self._session(context)
        table, how = self._described(X, as_frame(static_df) if static_df is not None else None)
        prepared = describe(lib.halay_tft_data_describe, _prepare(session, table, how))
        schema = json.loads(how["schema_text"]) if "schema_text" in how else prepared["document"]
        horizon = int(prepared["document"]["window"]["horizon"])
        step = stride or horizon
        parts: List[Any] = []
        for left in range(n_windows, 0, -each):
            split = split_for(prepared, left, step)
            try:
                data = _prepare(session, table, {"schema_text": _json({**schema, "split": split})})
            except FormatError as failure:
                raise FormatError(f"{n_windows} windows are too many for the table: {failure}") from None
            params: Dict[str, Any] = {**self.get_params(), "refit": False}
            made = type(self)(**params)
            made._learn(session, data)
            if made.stopped_:
                raise KeyboardInterrupt
            made._table = X if table.frame is None else table.frame
            restorer = Restorer(made.schema_, table.frame, self._has_id())
            wanted: Dict[str, Any] = {"split": "test", "levels": levels, "quantiles": quantiles}
            forecast = made.predict(stride=step, **wanted)
            if has_fewer(forecast, restorer.id, horizon, left):
                forecast = made.predict(stride=1, **wanted)
                forecast = from_ends(forecast, restorer.id, restorer.time, horizon, step)
            parts.append(take_windows(forecast, restorer.id, horizon, max(left - each, 0), each))
        return join_windows(parts, restorer.id, restorer.name("origin"), restorer.time)

    # ---- scores ----

    def _scored(self, function: Any, X: Any, kind: Any = c.Windows, **how: Any) -> Tuple[Dict[str, Any], Any]:
        """Return the library's result for windows of a table, or of the data of the training, and the frame of that."""
        model = self._fitted()
        table = None if X is None else self._read(X)
        if table is None and "_data" not in vars(self):
            raise ArgumentError("the data of the training are not here: give the table", Status.ARGUMENT)
        windows = sized(kind, table=table and ctypes.pointer(table.struct), **how)
        data = None if table else self._data.pointer
        result = _named(lambda: model.session.document(function, model.pointer, data, ctypes.byref(windows)))
        return result, table.frame if table else as_frame(self._table)

    def evaluate(
        self, X: Any = None, *, split: str = "test", stride: Optional[int] = None, calibrate: Optional[str] = None
    ) -> Evaluation:
        """
        Score the forecasts of a split beside naive ones. X: the table of the training, which need not be given unless
        the forecaster was loaded or pickled. A ForecastWarning means that they do not beat naive ones.
        """
        result, _ = self._scored(lib.halay_tft_evaluate, X, split=split, stride=stride or 0, calibrate=calibrate)
        evaluation = self.evaluations_[split] = Evaluation(result)
        for target, sentence in evaluation.no_better().items():
            name = f"'{target}', " if target else ""
            warn(f"{sentence} ({name}split '{split}')")
        return evaluation

    def score(self, X: Any = None, y: Any = None) -> float:
        """
        Minus the median's q-risk of the validation windows, a mean over the targets: higher is better. X: as for
        evaluate.
        """
        result, _ = self._scored(lib.halay_tft_evaluate, X if y is None else self._with_target(X, y), split="valid")
        risks = [mine for _, mine, _ in Evaluation(result).medians() if mine is not None]
        return -sum(risks) / len(risks) if risks else float("nan")

    def recalibrate(self: Self, X: Any, *, static_df: Any = None) -> Self:
        """
        Calibrate the intervals anew, with the windows of X after the training span, up to its last row: those
        of validation, and newer ones. X: a table from the training's rows, or at least `encoder` steps before its end,
        to recent ones; where splits are of each series' last horizons, as many last steps of X are taken. In these
        windows the quantiles then have their nominal coverage; the weights stay. save and pickle keep it; predict uses
        it unless the forecaster was trained with calibrate="none" (predict(calibrate="conformal") does). Returns the
        forecaster. FormatError: X has too few such windows, and the calibration stays as it is; other errors are those
        of predict.
        """
        model = self._fitted()
        table = self._read(X, static_df)
        report = _named(lambda: model.session.text(
            lib.halay_tft_calibrate, model.pointer, None, ctypes.byref(table.struct), None))  # fmt: skip
        self.evaluations_ = {}
        shown = progress(bool(self.verbose))
        shown.say(report)
        shown.close()
        return self

    def drift(
        self,
        X: Any = None,
        *,
        since: Any = None,
        last: Optional[int] = None,
        until: Any = None,
        rate: float = 0.05,
        stride: Optional[int] = None,
        calibrate: Optional[str] = None,
    ) -> Drift:
        """
        Whether recent rows are still like those of the training, and their forecasts as good as they were. X: a table
        from the training's rows to the recent ones; by default that of the training. Recent are the rows since a time
        (a text or a Timestamp), or the last steps, or those of the test or, without one, of validation; until: before
        this time. rate: the probability that all comparisons together find drift if nothing has changed.
        """
        if last is not None and (since is not None or until is not None):
            raise ValueError("last is up to the last row: give it, or since and until")
        times = {name: None if time is None else str(time) for name, time in (("since", since), ("until", until))}
        how = {"last": last or 0, "rate": rate, "stride": stride or 0, "calibrate": calibrate}
        return Drift(self._scored(lib.halay_tft_drift, X, c.DriftOptions, **times, **how)[0])

    def explain(
        self,
        X: Any = None,
        *,
        split: str = "test",
        stride: Optional[int] = None,
        regime: float = 0.0,
        occlusion: bool = True,
    ) -> Explanation:
        """
        What the forecasts of a split rely on. X: as for evaluate. stride: steps from window to window, by default the
        horizon. regime: from this distance of its attention from the mean a window is another regime (0.3). occlusion:
        also forecast without each input, one after the other, as a check.
        """
        model = self._fitted()
        with tempfile.TemporaryDirectory() as folder:
            how = {"regime": regime, "has_occlusion": int(occlusion), "tables": folder}
            result, frame = self._scored(lib.halay_tft_explain, X, split=split, stride=stride or 0, **how)
            path = os.path.join(folder, "windows.csv")  # rank 0's
            content = _content(path) if os.path.exists(path) else b""
        restorer = Restorer(self.schema_, frame, self._has_id())
        return Explanation(result, model.session.share(content).decode(), restorer)

    # ---- windows and rows ----

    def _rows(self, X: Any) -> Tuple[Handle, Any]:
        """Data of a table, read as training read its own, or those of the training; and the frame."""
        model = self._fitted()
        if X is None:
            if "_data" not in vars(self):
                raise ArgumentError("the data of the training are not here: give the table", Status.ARGUMENT)
            return self._data, as_frame(self._table)
        table = self._read(X)
        data = _named(lambda: model.session.open(
            lib.halay_tft_data_close, lib.halay_tft_model_read, model.pointer, ctypes.byref(table.struct), 0,
            None))  # fmt: skip
        return data, table.frame

    def windows(
        self,
        X: Any = None,
        *,
        split: str = "test",
        stride: Optional[int] = None,
        calibrate: Optional[str] = None,
        without: Optional[str] = None,
        weights: bool = False,
    ) -> Iterator[Batch]:
        """
        Forecast the windows of a split, batch by batch as arrays, in order of series and origin. X: as for evaluate.
        stride: steps from window to window, by default the schema's. without: an input that is taken away, which an
        ordinary value replaces. weights: also what each window weighed and attended to, some ten kilobytes each.
        Until the iterator ends, or is closed, the forecaster makes no other forecasts. On all ranks together, all
        windows on each.
        """
        need_pandas("batches of windows")
        data, frame = self._rows(X)
        how = {"split": split, "stride": stride or 0, "calibrate": calibrate, "without": without}
        restorer = Restorer(self.schema_, frame, self._has_id())
        return batches(self._fitted(), data, restorer, X is not None, has_weights=int(weights), **how)

    def rows(self, X: Any = None) -> Any:
        """
        The prepared rows, as a DataFrame: id, time and a column for each input over time in its own unit, filled where
        the schema asks for it; of targets NaN where nothing was measured. X: as for evaluate; by default the rows of
        the training.
        """
        need_pandas("a table of rows")
        data, frame = self._rows(X)
        try:
            return rows(data, Restorer(self.schema_, frame, self._has_id()))
        finally:
            if X is not None:
                data.close()

    # ---- files ----

    def save(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        """
        Write the model into a folder, which halay-tft's commands read, too; it must not hold a model yet. Of several
        ranks, which all call it, rank 0 writes.
        """
        self._on_rank_0(lambda: self._write(folder))

    def encoding(self) -> Dict[str, Any]:
        """How the model encodes the values of a table: scalers, categories, fills (halay_tft_model_encoding)."""
        return dict(describe(lib.halay_tft_model_encoding, self._fitted()))

    def calibration(self, calibrate: Optional[str] = None) -> Dict[str, Any]:
        """The factors that move the ends of intervals (halay_tft_model_calibration); calibrate: as in predict."""
        word = calibrate.encode() if calibrate else None
        return dict(
            describe(lambda model, place: lib.halay_tft_model_calibration(model, word, place), self._fitted())
        )

    def export(
        self,
        path: Union[str, "os.PathLike[str]"],
        *,
        format: str = "onnx",
        calibrate: Optional[str] = None,
        explain: bool = False,
    ) -> Dict[str, Any]:
        """
        Write the model as a file for another program; return what that program has to know.

        "onnx": a graph that forecasts from a table's own values, with scalers, categories, filling and calibration
        inside (docs/guides/onnx.md); "nvidia", "pytorch-forecasting": as export_torch does it. calibrate, explain: with
        ONNX only, as in predict. Of several ranks, which all call it, rank 0 writes.
        """
        if format != "onnx":
            from ._torch import export_torch  # which knows this class

            if calibrate is not None or explain:
                raise ValueError("calibrate and explain go with the format onnx")
            self._fitted()
            return export_torch(self, path, format)
        how = {"format": format, "path": os.fsencode(path), "calibrate": calibrate, "explains": int(explain)}
        options = sized(c.ExportOptions, **how)

        def write(model: int, place: Any) -> int:
            return lib.halay_tft_model_export(model, ctypes.byref(options), place)

        about: Dict[str, Any] = json.loads(self._on_rank_0(lambda: json.dumps(describe(write, self._model))))
        return about

    def _on_rank_0(self, write: Callable[[], str]) -> str:
        """Write on rank 0 and return its text on all ranks; they fail if it does."""
        session = self._fitted().session
        failure: Optional[Exception] = None
        text = ""
        if session.context.rank == 0:
            try:
                text = write()
            except Exception as raised:  # the others wait for the result
                failure = raised
        why = session.share(str(failure or "").encode()).decode()
        if failure:
            raise failure
        if why:
            raise HalayError(f"rank 0: {why}")
        return session.share(text.encode()).decode()

    def _write(self, folder: Union[str, "os.PathLike[str]"]) -> str:
        params = _json(self._changed(), indent=1)
        model = self._model
        with model.session._lock:
            status = lib.halay_tft_model_save(model.pointer(), os.fsencode(folder))
            if status:
                raise c.last_error(status)
        with open(os.path.join(folder, _PARAMS_FILE), "w", encoding="utf-8") as file:
            file.write(params)
        return ""

    @classmethod
    def load(
        cls, folder: Union[str, "os.PathLike[str]"], context: Optional[Context] = None, device: Optional[str] = None
    ) -> "Forecaster":
        """A forecaster of a folder that save, fit(folder=...) or halay-tft train wrote; device: "cuda", or "cpu"."""
        session = session_of(context, device=device)
        model = session.open(lib.halay_tft_model_close, lib.halay_tft_model_open, session.pointer, os.fsencode(folder))
        path = os.path.join(folder, _PARAMS_FILE)
        params: Dict[str, Any] = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                params = json.load(file)
        else:
            described = describe(lib.halay_tft_model_describe, model)
            params = {"schema": described["schema"], **described["config"]}
        made = cls(**params)
        made._take_model(model)
        return made

    def __getstate__(self) -> Dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name == "_files" or name not in _FITTED}
        if "_model" in vars(self):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model")
                self._write(path)
                state["_files"] = {name: _content(os.path.join(path, name)) for name in os.listdir(path)}
        return state

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"
