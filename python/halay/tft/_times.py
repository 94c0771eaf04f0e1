# SPDX-License-Identifier: Apache-2.0
"""
Times between pandas and the library, which counts seconds since 1970: of UTC where the schema has a time zone and a
step below a day, of the table's clock otherwise. They are returned in the type and the zone in which they were given.
"""

import datetime
import re
from typing import Any, Dict, Optional

_SECONDS = {"s": 1, "min": 60, "h": 3600}


def _is_below_a_day(every: str) -> bool:
    """Return whether a step is below a day, as in the library: days begin by the clock, and 24h are days."""
    found = re.fullmatch(r"(\d+)(s|min|h)", every)
    return found is not None and int(found[1]) * _SECONDS[found[2]] % 86400 != 0


def zone_name(name: str, zone: Any) -> str:
    """The name of a column's time zone, as the system's tzdata has it."""
    found = getattr(zone, "key", None) or getattr(zone, "zone", None)  # of zoneinfo, of pytz
    if found:
        return str(found)
    offset = zone.utcoffset(datetime.datetime(2000, 1, 1))
    hours, rest = divmod(int(offset.total_seconds()), 3600)
    if rest:
        raise ValueError(f"column '{name}' has the time zone {zone}: convert it to one with a name (dt.tz_convert)")
    return f"Etc/GMT{-hours:+d}" if hours else "UTC"


def to_seconds(name: str, series: Any) -> Any:
    """Seconds of a column of datetime64: of UTC if it has a zone, otherwise of the clock that wrote it."""
    import numpy

    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    values = numpy.ascontiguousarray(series.to_numpy())
    seconds = values.astype("datetime64[s]")
    broken = numpy.flatnonzero((seconds.astype(values.dtype) != values) & ~numpy.isnat(values))
    if len(broken):
        raise ValueError(
            f"row {broken[0] + 1}, column '{name}': {values[broken[0]]} is not a whole second, the shortest step"
        )
    return seconds.astype("int64")  # NaT is the library's missing time, -2^63


class Clock:
    """Converts the seconds of a schema back to the times of a table."""

    def __init__(self, schema: Dict[str, Any], frame: Any) -> None:
        time = schema.get("time") or {}
        zone = schema.get("zone")
        self.name: str = time.get("column") or "time"
        self._counts = bool(time.get("integer")) or not time
        self._zone: Optional[str] = zone.get("name") if isinstance(zone, dict) else zone
        every = str((schema.get("resample") or {}).get("every") or schema.get("every") or "")
        self._is_utc = bool(self._zone) and _is_below_a_day(every)
        self._like = frame[self.name] if frame is not None and self.name in frame.columns else None

    def restore(self, seconds: Any) -> Any:
        """A column of times, of an array of seconds."""
        import numpy
        import pandas

        if self._counts:
            is_integer = self._like is not None and pandas.api.types.is_integer_dtype(self._like.dtype)
            return pandas.Series(seconds, dtype=self._like.dtype if is_integer else "int64")
        times = pandas.Series(numpy.asarray(seconds, "int64").view("datetime64[s]")).astype("datetime64[ns]")
        zone = self._zone if self._like is None else getattr(self._like.dtype, "tz", None)
        if self._is_utc:
            times = times.dt.tz_localize("UTC").dt.tz_convert(zone or self._zone)
            return self._as_it_came(times if zone else times.dt.tz_localize(None))
        if zone and self._zone:
            first = numpy.ones(len(times), bool)  # an hour that occurs twice: its first pass
            times = times.dt.tz_localize(self._zone, ambiguous=first, nonexistent="shift_forward").dt.tz_convert(zone)
        return self._as_it_came(times)

    def parse(self, texts: Any) -> Any:
        """Seconds of times as the library prints them, with an offset where they are of UTC."""
        import numpy
        import pandas

        if self._counts:
            return texts.astype("int64").to_numpy()
        times = pandas.to_datetime(texts, utc=True)
        return times.dt.tz_localize(None).to_numpy().astype("datetime64[s]").astype(numpy.int64)

    def _as_it_came(self, times: Any) -> Any:
        import pandas

        like = self._like
        if like is None:
            return times
        if isinstance(like.dtype, pandas.PeriodDtype):
            return times.dt.to_period(like.dtype.freq)
        if pandas.api.types.is_datetime64_any_dtype(like.dtype):
            return times.astype(like.dtype)
        kind = pandas.api.types.infer_dtype(like, skipna=True)
        if kind == "date":
            return times.dt.date
        if kind in ("string", "categorical"):
            return times.dt.strftime(_form(like))
        return times


def _form(like: Any) -> str:
    """Return the format of texts of times: with or without a time of day, and with a T or a blank before it."""
    texts = like.cat.categories if hasattr(like, "cat") else like.dropna()
    first = str(texts[0] if hasattr(like, "cat") else texts.iloc[0]) if len(texts) else ""
    if len(first) <= 10:
        return "%Y-%m-%d"
    return "%Y-%m-%dT%H:%M:%S" if "T" in first else "%Y-%m-%d %H:%M:%S"
