# SPDX-License-Identifier: Apache-2.0
"""
Tables as the library takes them: files, or the columns of a DataFrame in memory, which are not copied where they have
the library's own types (float64, int64, codes of categories).

Whatever else holds columns becomes a DataFrame first: Arrow's tables, what has Arrow's or the DataFrame interchange
protocol, a dict of arrays.
"""

import ctypes
import fnmatch
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import _library as c
from ._library import sized
from ._times import to_seconds, zone_name


def need_pandas(what: str) -> Any:
    """Return pandas. ImportError: it is not installed, with what needs it."""
    try:
        import pandas
    except ImportError:
        raise ImportError(f"{what} needs pandas, which is not installed: pip install pandas") from None
    return pandas


class Columns(NamedTuple):
    """Which columns of a table are read: those of id and time, and patterns of the others; None: it is not known."""

    id: Optional[str]
    time: Optional[str]
    others: Optional[Sequence[str]]

    def has(self, name: str) -> bool:
        """Return whether the schema reads the column."""
        return name in (self.id, self.time) or self.others is None or any(
            name == other or fnmatch.fnmatchcase(name, other) for other in self.others
        )


class Table:
    """A table for the library, and the frame that it was made of (None: files)."""

    def __init__(self, struct: Any, frame: Any, keep: Any, zone: Optional[str] = None) -> None:
        self.struct = struct
        self.frame = frame
        self.zone = zone  # zone_of(frame, time)
        self._keep = keep  # what struct points at


# ---- what is given ----


def _is_paths(given: Any) -> bool:
    path = (str, os.PathLike)
    if isinstance(given, path):
        return True
    return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(one, path) for one in given)


def _of_arrow(given: Any) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f"to read a {type(given).__qualname__} needs pyarrow: pip install pyarrow") from None
    table = given if isinstance(given, pyarrow.Table) else pyarrow.table(given)
    return table.to_pandas(integer_object_nulls=True, date_as_object=False)


def _is_parquet(path: Any) -> bool:
    """Return whether a path is that of a Parquet file, or of a folder with some."""
    if os.path.isdir(path):
        return any(_is_parquet(one.path) for one in os.scandir(path) if one.is_file())
    return os.fspath(path).lower().endswith((".parquet", ".pq"))


def _of_parquet(paths: Sequence[Any]) -> Any:
    """Files of Parquet as one DataFrame."""
    need_pandas("a table of Parquet")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"to read '{os.fspath(paths[0])}' needs pyarrow, which is not installed: pip install pyarrow"
        ) from None
    tables = [pyarrow.parquet.read_table(path) for path in paths]
    for path, table in zip(paths, tables):
        if table.schema.names != tables[0].schema.names:
            raise ValueError(
                f"'{os.fspath(path)}' has the columns {table.schema.names}, '{os.fspath(paths[0])}' has "
                f"{tables[0].schema.names}"
            )
    whole = [table.cast(tables[0].schema) for table in tables]
    return _of_arrow(pyarrow.concat_tables(whole))


def as_frame(given: Any) -> Any:
    """A DataFrame of whatever holds columns; None for paths of CSV files."""
    if _is_paths(given):
        paths = [given] if isinstance(given, (str, os.PathLike)) else list(given)
        are_parquet = [_is_parquet(path) for path in paths]
        if any(are_parquet) and not all(are_parquet):
            raise ValueError("the paths of a table are all of Parquet or all of CSV, not of both")
        return _of_parquet(paths) if any(are_parquet) else None
    pandas = need_pandas("a table in memory")
    if isinstance(given, pandas.DataFrame):
        return given
    if isinstance(given, pandas.Series):
        return given.to_frame()
    if isinstance(given, dict):
        return pandas.DataFrame(given, copy=False)
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        return _of_arrow(given)
    if type(given).__module__.split(".")[0] == "pyarrow":
        return _of_arrow(given)
    if hasattr(given, "__dataframe__"):
        return pandas.api.interchange.from_dataframe(given)
    raise TypeError(
        "a table is a pandas.DataFrame, a pyarrow.Table, what has Arrow's or the DataFrame interchange protocol, a "
        f"dict of arrays, or paths of CSV or Parquet files, not {type(given).__module__}.{type(given).__qualname__}"
    )


def with_index(frame: Any, id: Optional[str], time: Optional[str]) -> Any:
    """Id and time may be levels of the index; an index of times without a name is the time."""
    pandas = need_pandas("a table in memory")
    have = {str(name) for name in frame.columns}
    levels = [str(name) for name in frame.index.names if name is not None]
    if any(name in levels and name not in have for name in (id, time)):
        return frame.reset_index()
    is_times = isinstance(frame.index, (pandas.DatetimeIndex, pandas.PeriodIndex))
    if is_times and time is not None and time not in have:
        return frame.rename_axis(index=time).reset_index()
    return frame


def with_static(frame: Any, static: Any, id: Optional[str]) -> Any:
    """
    A table with the columns of another one, which has a row for each series: its id, and what is constant for it. Ids
    are the same where their texts are, so that whole numbers of a file meet those of a table.
    """
    if static is None:
        return frame
    pandas = need_pandas("static_df")
    if id is None or frame is None or id not in frame.columns:
        raise ValueError("static_df goes with a table in memory or of Parquet that has a column of ids")
    static = with_index(static, id, None)
    if id not in static.columns:
        raise ValueError(f"static_df has no column '{id}': it has {list(map(str, static.columns))}")
    twice = static[id][static[id].duplicated()]
    if len(twice):
        raise ValueError(f"static_df has two rows for '{twice.iloc[0]}': it has one for each series")
    both = [str(name) for name in static.columns if name != id and name in frame.columns]
    if both:
        raise ValueError(f"column '{both[0]}' is in the table and in static_df: leave it out of one of them")
    row_of = {str(name): row for row, name in enumerate(static[id])}
    codes, ids = pandas.factorize(frame[id])
    missing = [str(name) for name in ids if str(name) not in row_of]
    if missing:
        raise ValueError(f"static_df has no row for '{missing[0]}' ({len(missing)} of {len(ids)} series)")
    import numpy

    rows = numpy.array([row_of[str(name)] for name in ids] + [0])  # the last of rows without an id, which are refused
    found = static.drop(columns=id).take(rows[codes])
    return pandas.concat([frame, found.set_index(frame.index)], axis=1)


def _without_arrow(pandas: Any, frame: Any, columns: Columns) -> Any:
    """Columns that pandas keeps as Arrow has them, as NumPy has them."""
    arrow = getattr(pandas, "ArrowDtype", ())  # since pandas 1.5
    labels = [label for label in frame.columns if columns.has(str(label))]
    if not any(isinstance(dtype, arrow) for dtype in frame[labels].dtypes):
        return frame
    import pyarrow

    table = pyarrow.Table.from_pandas(frame[labels], preserve_index=False)
    return _of_arrow(table.replace_schema_metadata(None))  # which asks for the same again


def _with_times(pandas: Any, frame: Any, time: Optional[str]) -> Any:
    """Python's datetimes in the column of times (None: in all) as columns of pandas' own, which have their zone."""
    types, made = pandas.api.types, frame.copy(deep=False)
    for label in frame.columns if time is None else [time]:
        given = frame[label] if label in frame.columns else None
        if not types.is_object_dtype(getattr(given, "dtype", None)):
            continue
        if types.infer_dtype(given, skipna=True) not in ("datetime", "datetime64"):
            continue
        try:
            made[label] = pandas.to_datetime(given)
        except ValueError as failure:
            raise ValueError(f"column '{label}': {failure}") from None
        if not types.is_datetime64_any_dtype(made[label].dtype):
            raise ValueError(f"column '{label}' has several time zones: convert it (pandas.to_datetime(utc=True))")
        frame = made
    return frame


# ---- columns ----


class _Column(NamedTuple):
    kind: int
    values: Any  # a NumPy array
    texts: Optional[Sequence[bytes]] = None


def _codes(values: Any, texts: Sequence[Any]) -> _Column:
    return _Column(c.CODES, _contiguous(values, "int32"), [str(text).encode() for text in texts])


def _contiguous(values: Any, dtype: str) -> Any:
    import numpy

    return numpy.ascontiguousarray(values, dtype)


def _of_objects(pandas: Any, name: str, series: Any) -> _Column:
    """A column of Python's objects: what they are is looked up."""
    kind = pandas.api.types.infer_dtype(series, skipna=True)
    if kind in ("string", "categorical"):
        return _codes(*pandas.factorize(series))
    if kind == "integer":
        return _of_numbers(pandas, series.astype("Int64"))
    if kind in ("floating", "mixed-integer-float", "decimal", "boolean", "empty"):
        return _of_numbers(pandas, series.astype("Float64" if kind == "boolean" else "float64"))
    if kind in ("datetime", "datetime64", "date"):
        return _Column(c.TIMES, to_seconds(name, pandas.to_datetime(series)))
    for row, value in enumerate(series):
        if not isinstance(value, (str, int, float, type(None))):
            raise TypeError(f"column '{name}' has a {type(value).__qualname__} in row {row + 1}, of {kind} values")
    raise TypeError(f"column '{name}' has {kind} values: numbers, texts or times are possible, one of them")


def _of_numbers(pandas: Any, series: Any) -> _Column:
    types = pandas.api.types
    if types.is_integer_dtype(series.dtype) and str(series.dtype).lower() != "uint64":
        if series.hasnans:
            return _Column(c.INTEGERS, _contiguous(series.to_numpy("int64", na_value=c.NO_INTEGER), "int64"))
        return _Column(c.INTEGERS, _contiguous(series.to_numpy("int64"), "int64"))
    if types.is_extension_array_dtype(series.dtype):
        return _Column(c.REALS, _contiguous(series.to_numpy("float64", na_value=float("nan")), "float64"))
    return _Column(c.REALS, _contiguous(series.to_numpy(), "float64"))


def _of_series(pandas: Any, name: str, series: Any) -> _Column:
    types, dtype = pandas.api.types, series.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        return _codes(series.cat.codes, series.cat.categories)
    if isinstance(dtype, pandas.PeriodDtype):
        return _Column(c.TIMES, to_seconds(name, series.dt.to_timestamp()))
    if types.is_datetime64_any_dtype(dtype):
        return _Column(c.TIMES, to_seconds(name, series))
    if types.is_bool_dtype(dtype) and not types.is_object_dtype(dtype):
        return _Column(c.REALS, _contiguous(series.to_numpy("float64", na_value=float("nan")), "float64"))
    if types.is_complex_dtype(dtype) or types.is_timedelta64_dtype(dtype):
        raise TypeError(f"column '{name}' is {dtype}: a column holds numbers, texts or times")
    if types.is_numeric_dtype(dtype):
        return _of_numbers(pandas, series)
    if types.is_string_dtype(dtype) and not types.is_object_dtype(dtype):
        return _codes(*pandas.factorize(series))
    return _of_objects(pandas, name, series)


def _of_ids(pandas: Any, name: str, series: Any) -> _Column:
    """1.0 would be another series than 1, and True than 1, so neither floating point numbers nor booleans are ids."""
    types, dtype = pandas.api.types, series.dtype
    kind = types.infer_dtype(series, skipna=True) if types.is_object_dtype(dtype) else ""
    is_category = isinstance(dtype, pandas.CategoricalDtype)
    if types.is_float_dtype(dtype) or kind == "floating":
        raise TypeError(f"column '{name}' has floating point numbers: an id is a whole number or a text")
    if kind == "boolean" or types.is_bool_dtype(dtype) and not is_category:
        raise TypeError(f"column '{name}' has booleans: an id is a whole number or a text, convert it (astype(str))")
    if kind == "integer":
        return _codes(*pandas.factorize(series.map(str, na_action="ignore")))
    if types.is_unsigned_integer_dtype(dtype):  # more than an int64 holds, perhaps
        return _codes(*pandas.factorize(series))
    return _of_series(pandas, name, series)


def _convert(pandas: Any, frame: Any, columns: Columns) -> Tuple[Dict[str, _Column], Dict[str, Any]]:
    """The columns that are read, and why others cannot be."""
    made: Dict[str, _Column] = {}
    failed: Dict[str, Any] = {}
    for place, label in enumerate(frame.columns):
        name, series = str(label), frame.iloc[:, place]
        if not columns.has(name):
            continue
        if name in made:
            raise ValueError(f"the table has two columns '{name}'")
        try:
            made[name] = (_of_ids if name == columns.id else _of_series)(pandas, name, series)
        except (TypeError, ValueError):
            if columns.others is not None or name in (columns.id, columns.time):
                raise
            failed[name] = series.dtype  # a schema in a file, which perhaps does not read it
    return made, failed


# ---- the table ----


def _pointers(texts: Sequence[bytes]) -> Any:
    return (ctypes.c_char_p * (len(texts) + 1))(*texts)


def _of_files(given: Any) -> Table:
    paths = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    files = _pointers([os.fsencode(path) for path in paths])
    struct = sized(c.Table, files=ctypes.cast(files, ctypes.POINTER(ctypes.c_char_p)), file_count=len(paths))
    return Table(struct, None, files)


def zone_of(frame: Any, time: Optional[str]) -> Optional[str]:
    """Return the zone of the column of times, or of all such columns if it is not known which; None: no zone."""
    naive, zones = [], {}
    for place, label in enumerate(frame.columns):
        dtype = frame.dtypes.iloc[place]
        if time is not None and str(label) != time or dtype.kind != "M":
            continue
        if getattr(dtype, "tz", None) is None:
            naive.append(str(label))
        else:
            zones[str(label)] = dtype.tz
    if naive and zones:
        raise ValueError(
            f"column '{next(iter(zones))}' has a time zone and column '{naive[0]}' has none: leave out what the schema "
            "does not read"
        )
    return next((zone_name(name, zone) for name, zone in zones.items()), None)


def table_of(given: Any, columns: Columns, constant_id: Optional[str] = None) -> Table:
    """
    A table for a call; the arrays live as long as it does. constant_id: the name of a column that is added, for the one
    series that has none.
    """
    frame = as_frame(given)
    if frame is None:
        return _of_files(given)
    pandas = need_pandas("a table in memory")
    frame = _without_arrow(pandas, with_index(frame, columns.id, columns.time), columns)
    frame = _with_times(pandas, frame, columns.time)
    made, failed = _convert(pandas, frame, columns)
    if constant_id is not None:
        made[constant_id] = _codes([0] * len(frame), ["series"])
    if not made:
        raise ValueError(f"the table has none of the columns that are read: it has {list(map(str, frame.columns))}")
    zone = zone_of(frame, columns.time)
    rows: List[c.Column] = []
    keep: List[Any] = [made, failed]
    for name, column in made.items():
        struct = c.Column(name=name.encode(), kind=column.kind, values=column.values.ctypes.data)
        if column.texts is not None:
            texts = _pointers(column.texts)
            keep.append(texts)
            struct.texts, struct.text_count = ctypes.cast(texts, ctypes.POINTER(ctypes.c_char_p)), len(column.texts)
        rows.append(struct)
    array = (c.Column * len(rows))(*rows)
    struct = sized(
        c.Table,
        columns=ctypes.cast(array, ctypes.POINTER(c.Column)),
        column_count=len(rows),
        column_bytes=ctypes.sizeof(c.Column),
        rows=len(frame),
        times_are_utc=int(zone is not None),
    )
    return Table(struct, frame, [keep, array], zone)
