# SPDX-License-Identifier: Apache-2.0
"""libhalay-tft through ctypes: where it is found, its structs, its functions (include/halay_tft.h)."""

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, List, Tuple

from .. import _library
from .._library import LOG
from ..errors import HalayError, LibraryError, error

SONAME = "libhalay-tft.so.1"

# enum halay_tft_kind
REALS, INTEGERS, TEXTS, CODES, TIMES = range(5)

NO_INTEGER = -(1 << 63)  # an integer or a time that is missing


class Options(ctypes.Structure):
    """struct halay_tft_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("ctx", c_void_p),
        ("deterministic", c_char_p),
        ("log", LOG),
        ("log_arg", c_void_p),
        ("reports_errors", c_int),
        ("device", c_char_p),
    ]


class Column(ctypes.Structure):
    """struct halay_tft_column"""

    _fields_ = [
        ("name", c_char_p),
        ("kind", c_int),
        ("values", c_void_p),
        ("texts", POINTER(c_char_p)),
        ("text_count", c_size_t),
    ]


class Table(ctypes.Structure):
    """struct halay_tft_table"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("columns", POINTER(Column)),
        ("column_count", c_size_t),
        ("column_bytes", c_size_t),
        ("rows", c_size_t),
        ("times_are_utc", c_int),
        ("files", POINTER(c_char_p)),
        ("file_count", c_size_t),
    ]


class PrepareOptions(ctypes.Structure):
    """struct halay_tft_prepare_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("schema", c_char_p),
        ("schema_text", c_char_p),
        ("encoder", c_size_t),
        ("horizon", c_size_t),
        ("zone", c_char_p),
        ("path", c_char_p),
        ("threads", c_size_t),
        ("memory", c_size_t),
        ("test", c_int),
    ]


class Progress(ctypes.Structure):
    """struct halay_tft_progress"""

    _fields_ = [
        ("step", c_uint64),
        ("steps", c_uint64),
        ("epoch", c_uint64),
        ("samples", c_uint64),
        ("loss", c_double),
        ("seconds", c_double),
        ("seconds_left", c_double),
        ("samples_per_second", c_double),
    ]


STEP = CFUNCTYPE(None, c_void_p, POINTER(Progress))
LINE = CFUNCTYPE(None, c_void_p, c_char_p)


class TrainOptions(ctypes.Structure):
    """struct halay_tft_train_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("config", c_char_p),
        ("folder", c_char_p),
        ("checkpoints", c_char_p),
        ("metrics", c_char_p),
        ("resume", c_int),
        ("elastic", c_int),
        ("progress", STEP),
        ("metrics_line", LINE),
        ("say", LINE),
        ("arg", c_void_p),
    ]


class Weights(ctypes.Structure):
    """struct halay_tft_weights"""

    _fields_ = [
        ("number", c_size_t),
        ("past", c_size_t),
        ("statics", c_void_p),
        ("history", c_void_p),
        ("future", c_void_p),
        ("attention", c_void_p),
    ]


class Forecast(ctypes.Structure):
    """struct halay_tft_forecast"""

    _fields_ = [
        ("entity", c_char_p),
        ("origin", c_int64),
        ("horizon", c_size_t),
        ("target_count", c_size_t),
        ("quantile_count", c_size_t),
        ("times", c_void_p),
        ("targets", POINTER(c_char_p)),
        ("quantiles", c_void_p),
        ("values", c_void_p),
        ("actuals", c_void_p),
        ("input_count", c_size_t),
        ("inputs", POINTER(c_char_p)),
        ("weights", c_void_p),
        ("lag_count", c_size_t),
        ("lags", c_void_p),
        ("number", c_size_t),
        ("past", c_size_t),
        ("scaled", c_void_p),
        ("scaled_actuals", c_void_p),
        ("scales", c_void_p),
        ("numbers", c_void_p),
        ("weighed", POINTER(Weights)),
        ("row", c_size_t),
    ]


TAKE = CFUNCTYPE(c_int, c_void_p, POINTER(Forecast))


class ForecastOptions(ctypes.Structure):
    """struct halay_tft_forecast_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("table", POINTER(Table)),
        ("data", c_void_p),
        ("future", POINTER(Table)),
        ("split", c_char_p),
        ("stride", c_size_t),
        ("calibrate", c_char_p),
        ("explains", c_int),
        ("take", TAKE),
        ("arg", c_void_p),
        ("file", c_char_p),
        ("format", c_char_p),
        ("explanation", c_char_p),
        ("summary", POINTER(c_void_p)),
    ]


class PassOptions(ctypes.Structure):
    """struct halay_tft_pass_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("split", c_char_p),
        ("stride", c_size_t),
        ("begin", c_int64),
        ("end", c_int64),
        ("calibrate", c_char_p),
        ("without", c_char_p),
        ("is_list", c_int),
        ("explains", c_int),
        ("has_weights", c_int),
        ("measure", c_void_p),
        ("number_count", c_size_t),
        ("arg", c_void_p),
    ]


class Extent(ctypes.Structure):
    """struct halay_tft_extent"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("entities", c_size_t),
        ("inputs", c_size_t),
        ("targets", c_size_t),
        ("encoder", c_size_t),
        ("horizon", c_size_t),
        ("begin", c_int64),
        ("end", c_int64),
        ("train_end", c_int64),
        ("valid_end", c_int64),
        ("test_end", c_int64),
        ("counts", c_int),
    ]


class Input(ctypes.Structure):
    """struct halay_tft_input"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("is_category", c_int),
        ("is_target", c_int),
        ("is_own", c_int),
        ("categories", c_size_t),
        ("unknown", c_size_t),
    ]


class Windows(ctypes.Structure):
    """struct halay_tft_windows"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("split", c_char_p),
        ("stride", c_size_t),
        ("calibrate", c_char_p),
        ("regime", c_double),
        ("has_occlusion", c_int),
        ("tables", c_char_p),
        ("file", c_char_p),
        ("csv", c_char_p),
        ("page", c_char_p),
        ("window", c_char_p),
        ("table", POINTER(Table)),
        ("has_pictures", c_int),
    ]


class DriftOptions(ctypes.Structure):
    """struct halay_tft_drift_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("since", c_char_p),
        ("last", c_size_t),
        ("until", c_char_p),
        ("rate", c_double),
        ("stride", c_size_t),
        ("calibrate", c_char_p),
        ("file", c_char_p),
        ("table", POINTER(Table)),
    ]


class ExportOptions(ctypes.Structure):
    """struct halay_tft_export_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("format", c_char_p),
        ("path", c_char_p),
        ("calibrate", c_char_p),
        ("explains", c_int),
        ("about", c_char_p),
    ]


class CreateOptions(ctypes.Structure):
    """struct halay_tft_create_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("config", c_char_p),
        ("like", c_void_p),
        ("weights", c_void_p),
        ("weight_count", c_size_t),
    ]


_PLACE = POINTER(c_void_p)

# Name, result, arguments. A pointer to something opaque, or to a text that is given back, is a c_void_p.
_PROTOTYPES: List[Tuple[str, Any, List[Any]]] = [
    ("halay_tft_init", c_int, [POINTER(Options), _PLACE]),
    ("halay_tft_fini", None, [c_void_p]),
    ("halay_tft_stop", None, [c_void_p, c_int]),
    ("halay_tft_last_error", POINTER(_library.Error), []),
    ("halay_tft_free", None, [c_void_p]),
    ("halay_tft_format", c_int, [c_char_p, c_char_p, _PLACE]),
    ("halay_tft_prepare", c_int, [c_void_p, POINTER(Table), POINTER(PrepareOptions), _PLACE]),
    ("halay_tft_data_open", c_int, [c_void_p, c_char_p, _PLACE]),
    ("halay_tft_data_describe", c_int, [c_void_p, _PLACE]),
    ("halay_tft_data_close", None, [c_void_p]),
    ("halay_tft_train", c_int, [c_void_p, c_void_p, POINTER(TrainOptions), _PLACE]),
    ("halay_tft_model_open", c_int, [c_void_p, c_char_p, _PLACE]),
    ("halay_tft_model_open_shared", c_int, [c_void_p, c_char_p, _PLACE]),
    ("halay_tft_model_weights", c_int, [
        c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_size_t), POINTER(POINTER(c_size_t)),
        POINTER(POINTER(c_float))]),  # fmt: skip
    ("halay_tft_model_create", c_int, [c_void_p, POINTER(CreateOptions), _PLACE]),
    ("halay_tft_model_save", c_int, [c_void_p, c_char_p]),
    ("halay_tft_model_describe", c_int, [c_void_p, _PLACE]),
    ("halay_tft_model_encoding", c_int, [c_void_p, _PLACE]),
    ("halay_tft_model_calibration", c_int, [c_void_p, c_char_p, _PLACE]),
    ("halay_tft_model_export", c_int, [c_void_p, POINTER(ExportOptions), _PLACE]),
    ("halay_tft_model_close", None, [c_void_p]),
    ("halay_tft_forecast", c_int, [c_void_p, POINTER(ForecastOptions)]),
    ("halay_tft_evaluate", c_int, [c_void_p, c_void_p, POINTER(Windows), _PLACE]),
    ("halay_tft_drift", c_int, [c_void_p, c_void_p, POINTER(DriftOptions), _PLACE]),
    ("halay_tft_calibrate", c_int, [c_void_p, c_void_p, POINTER(Table), c_char_p, _PLACE]),
    ("halay_tft_explain", c_int, [c_void_p, c_void_p, POINTER(Windows), _PLACE]),
    ("halay_tft_pass_open", c_int, [c_void_p, c_void_p, POINTER(PassOptions), _PLACE]),
    ("halay_tft_pass_next", c_int, [c_void_p, POINTER(POINTER(Forecast))]),
    ("halay_tft_pass_close", None, [c_void_p]),
    ("halay_tft_model_read", c_int, [c_void_p, POINTER(Table), c_int, POINTER(Table), _PLACE]),
    ("halay_tft_data_extent", c_int, [c_void_p, POINTER(Extent)]),
    ("halay_tft_data_entity", c_char_p, [c_void_p, c_size_t, POINTER(c_size_t)]),
    ("halay_tft_data_input", c_int, [c_void_p, c_size_t, POINTER(Input)]),
    ("halay_tft_data_category", c_char_p, [c_void_p, c_size_t, c_size_t]),
    ("halay_tft_data_times", c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_void_p, c_void_p]),
    ("halay_tft_data_cells", c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_size_t, c_void_p]),
    ("halay_tft_data_actuals", c_int, [c_void_p, c_size_t, c_size_t, c_size_t, c_void_p]),
]


def _open() -> Any:
    """Load the trainer's library from the folder of halay's, so that both use one instance of that."""
    folder = os.path.dirname(_library.path)
    name = os.path.join(folder, SONAME) if folder else SONAME
    try:
        library = ctypes.CDLL(name)
    except OSError as failure:
        raise LibraryError(
            f"halay's trainer cannot be loaded: {failure}. {SONAME} belongs beside '{_library.path}'"
        ) from None
    for function, result, arguments in _PROTOTYPES:
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise LibraryError(f"'{name}' has no {function}: install library and package of one version") from None
        entry.restype, entry.argtypes = result, arguments
    return library


lib = _open()


def last_error(status: int) -> HalayError:
    """The exception for what a call has just returned on this thread."""
    text, place = _library.read_error(lib.halay_tft_last_error(), status)
    return error(status, text, place=place)


def sized(kind: Any, **members: Any) -> Any:
    """A struct with its size, texts as bytes."""
    return kind(
        struct_size=ctypes.sizeof(kind),
        **{name: value.encode() if isinstance(value, str) else value for name, value in members.items()},
    )
