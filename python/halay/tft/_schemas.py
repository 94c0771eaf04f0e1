# SPDX-License-Identifier: Apache-2.0
"""
The schema of a forecaster: given, or made of the roles of its columns. What that leaves out (the step, calendar inputs,
splits, the window) the library finds in the rows: `preset: long` in docs/reference/schema.md.
"""

import json
import os
import re
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple, Union

from ._tables import Columns

Roles = Union[None, str, Iterable[str], Mapping[str, Mapping[str, Any]]]
Schema = Union[None, str, "os.PathLike[str]", Mapping[str, Any]]

# pandas' names of steps; the library's own are taken as they are.
_UNITS = {
    "s": "s", "S": "s", "min": "min", "T": "min", "h": "h", "H": "h", "d": "d", "D": "d", "B": "B", "C": "B", "w": "w",
    "W": "w", "M": "M", "MS": "M", "ME": "M", "Q": "3M", "QS": "3M", "QE": "3M", "Y": "12M", "YS": "12M", "YE": "12M",
    "A": "12M", "AS": "12M",
}  # fmt: skip

CONSTANT_ID = "unique_id"  # the name of the id that a table without one is given


def every_of(freq: Union[str, int]) -> Union[str, int]:
    """A step of the library's for one of pandas' ("h", "15min", "MS", "W-SUN"), or as it is."""
    if isinstance(freq, int):
        return freq
    text = str(getattr(freq, "freqstr", freq))
    found = re.fullmatch(r"(\d*)([A-Za-z]+)(-[A-Za-z]+)?", text)
    unit = _UNITS.get(found[2]) if found else None
    if not found or not unit:
        return text
    count = int(found[1] or 1) * int(unit[:-1] if unit[0].isdigit() else 1)
    return f"{count}{unit.lstrip('0123456789')}"


def names_of(roles: Roles) -> Dict[str, Dict[str, Any]]:
    """Columns of a role, with what the schema is to say of each."""
    if roles is None:
        return {}
    if isinstance(roles, str):
        return {roles: {}}
    if isinstance(roles, Mapping):
        return {str(name): dict(attributes or {}) for name, attributes in roles.items()}
    return {str(name): {} for name in roles}


def _is_category(frame: Any, name: str) -> bool:
    """Return whether a column of a frame has categories, not numbers."""
    if frame is None or name not in frame.columns:
        return False
    import pandas

    dtype = frame[name].dtype
    if pandas.api.types.is_bool_dtype(dtype) and not isinstance(dtype, pandas.CategoricalDtype):
        return False
    if pandas.api.types.is_numeric_dtype(dtype):
        return False
    if pandas.api.types.is_object_dtype(dtype):
        return pandas.api.types.infer_dtype(frame[name], skipna=True) in ("string", "categorical")
    return True


def _given(frame: Any, role: str, roles: Roles) -> Dict[str, Any]:
    inputs = {}
    for name, attributes in names_of(roles).items():
        inputs[name] = {"column": name, "role": role, **attributes}
        if "type" not in attributes and role != "target" and _is_category(frame, name):
            inputs[name]["type"] = "category"
    return inputs


def holidays_of(country: Union[None, str, Sequence[str]], frame: Any, time: str) -> Dict[str, Any]:
    """
    Inputs of the holidays of a country or several, "DE" or "DE-BY", as the package `holidays` has them, for the years
    of a frame and ten more, since a model forecasts later tables, too.
    """
    if not country:
        return {}
    try:
        import holidays
    except ImportError:
        raise ImportError("country needs holidays, which is not installed: pip install holidays") from None
    if frame is None:
        raise ValueError("country is for tables in memory: files have their holidays in a schema")
    import pandas

    if time not in frame.columns or pandas.api.types.is_numeric_dtype(frame[time]):
        raise ValueError(f"country needs dates in column '{time}'")
    times = pandas.to_datetime(frame[time], utc=True)
    years = range(times.min().year, times.max().year + 11)
    inputs = {}
    for one in [country] if isinstance(country, str) else country:
        name, _, part = one.partition("-")
        try:
            days = holidays.country_holidays(name, subdiv=part or None, years=years)
        except NotImplementedError as failure:
            raise ValueError(f"country '{one}': {failure}") from None
        named = {str(day): title for day, title in sorted(days.items())}
        inputs["holiday" if isinstance(country, str) else f"holiday_{one}"] = {"holiday": named, "role": "known"}
    return inputs


def make_schema(params: Mapping[str, Any], frame: Any, zone: Optional[str]) -> Dict[str, Any]:
    """The schema of columns with roles."""
    inputs: Dict[str, Any] = {}
    for role in ("target", "known", "observed", "static"):
        for name, described in _given(frame, role, params[role]).items():
            if name in inputs:
                raise ValueError(f"column '{name}' is given as {inputs[name]['role']} and as {role}")
            inputs[name] = described
    for name, described in (params.get("holidays") or {}).items():
        if name in inputs:
            raise ValueError(f"column '{name}' has the name of an input that country makes")
        inputs[name] = described
    schema: Dict[str, Any] = {
        "preset": "long",
        "id": {"column": params["id"] or CONSTANT_ID},
        "time": {"column": params["time"]},
        "inputs": inputs,
    }
    window = {key: params[key] for key in ("encoder", "horizon") if params[key] is not None}
    if window:
        schema["window"] = window
    if params["freq"] is not None:
        schema["every"] = every_of(params["freq"])
    if zone or params["zone"]:
        schema["zone"] = params["zone"] or zone
    if params["split"] is not None:
        schema["split"] = params["split"]
    return schema


def columns_of(schema: Mapping[str, Any]) -> Columns:
    """Which columns a schema reads."""
    time = schema.get("time") or {}
    inputs = [one.get("column") for one in (schema.get("inputs") or {}).values() if isinstance(one, Mapping)]
    others = [str(one) for one in inputs if one]
    others += [str(one) for one in time.get("columns") or ()]
    id, when = (schema.get("id") or {}).get("column"), time.get("column")
    if "preset" in schema:
        if "constant" not in (schema.get("id") or {}):
            id = id or "unique_id"
        when = when or "ds"
        roles = [one.get("role") for one in (schema.get("inputs") or {}).values() if isinstance(one, Mapping)]
        others += [] if "target" in roles else ["y"]
    return Columns(id, when, others)


def read_schema(given: Schema) -> Tuple[Optional[str], Optional[Dict[str, Any]]]:
    """Return the path of a schema that was given, or its document, also if it was given as text."""
    if isinstance(given, Mapping):
        return None, dict(given)
    text = os.fspath(given)  # type: ignore[arg-type]
    if text.lstrip().startswith("{"):
        document: Dict[str, Any] = json.loads(text)
        return None, document
    return text, None
