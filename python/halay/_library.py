# SPDX-License-Identifier: Apache-2.0
"""
libhalay through ctypes: where it is found, its structs, its functions.

`lib` lets other threads of Python run during a call, `held` does not: that saves a microsecond, and is for calls that
never block and never wait for another thread of this program.
"""

import ctypes
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_ubyte, c_uint64, c_void_p
from typing import Any, List, Optional, Tuple

from .constants import DIMENSIONS_MAX
from .errors import HalayError, LibraryError, Place, error

VERSION = "0.1.0"
SONAME = "libhalay.so.1"


class Error(ctypes.Structure):
    """struct halay_error"""

    _fields_ = [
        ("status", c_int),
        ("subject", c_char_p),
        ("row", c_size_t),
        ("column", c_char_p),
        ("rank", c_int),
        ("text", c_char_p),
    ]


class RankList(ctypes.Structure):
    """struct halay_rank_list"""

    _fields_ = [("ranks", POINTER(c_int)), ("count", c_size_t)]


LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


PUT = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t)
GET = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_size_t, c_int)


class Rendezvous(ctypes.Structure):
    """struct halay_rendezvous"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_int),
        ("size", c_int),
        ("arg", c_void_p),
        ("put", PUT),
        ("get", GET),
        ("prefix", c_char_p),
    ]


class UniqueId(ctypes.Structure):
    """struct halay_unique_id"""

    _fields_ = [("bytes", c_ubyte * 256)]


class Options(ctypes.Structure):
    """struct halay_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("bootstrap", c_char_p),
        ("transport", c_char_p),
        ("log", LOG),
        ("log_arg", c_void_p),
        ("process_sets", POINTER(RankList)),
        ("process_set_count", c_size_t),
        ("join_average", c_char_p),
        ("rendezvous", POINTER(Rendezvous)),
        ("settings", POINTER(c_char_p)),
        ("unique_id", POINTER(UniqueId)),
        ("rank", c_int),
        ("size", c_int),
        ("reports_errors", c_int),
    ]


class ContextInfo(ctypes.Structure):
    """struct halay_context_info"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("rank", c_int),
        ("size", c_int),
        ("local_rank", c_int),
        ("local_size", c_int),
        ("cross_rank", c_int),
        ("cross_size", c_int),
        ("is_homogeneous", c_int),
        ("is_elastic", c_int),
    ]


class ProcessSetInfo(ctypes.Structure):
    """struct halay_process_set_info"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("ranks", POINTER(c_int)),
        ("room", c_size_t),
        ("number", c_int),
        ("size", c_int),
        ("rank", c_int),
    ]


class Member(ctypes.Structure):
    """struct halay_member"""

    _fields_ = [
        ("in_", c_void_p),
        ("out", c_void_p),
        ("dtype", c_int),
        ("dimensions", c_int),
        ("shape", c_size_t * DIMENSIONS_MAX),
    ]


class TensorInfo(ctypes.Structure):
    """struct halay_tensor_info"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("collective", c_int),
        ("dtype", c_int),
        ("dimensions", c_int),
        ("shape", c_size_t * DIMENSIONS_MAX),
        ("in_", c_void_p),
        ("out", c_void_p),
        ("reduction", c_int),
        ("root", c_int),
        ("prescale", c_double),
        ("postscale", c_double),
        ("out_bytes", c_size_t),
        ("splits", POINTER(c_size_t)),
        ("members", POINTER(Member)),
        ("member_count", c_size_t),
        ("member_bytes", c_size_t),
        ("wire", c_int),
        ("priority", c_int),
        ("set", c_void_p),
        ("timeout_ms", c_int),
        ("peer", c_int),
        ("tag", c_int64),
        ("memory", c_int),
        ("after_stream", c_void_p),
        ("after_event", c_void_p),
    ]


class Result(ctypes.Structure):
    """struct halay_result"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("bytes", c_size_t),
        ("dimensions", c_int),
        ("shape", c_size_t * DIMENSIONS_MAX),
        ("rows", POINTER(c_size_t)),
        ("last_joined", c_int),
        ("set", c_void_p),
        ("peer", c_int),
    ]


class Counters(ctypes.Structure):
    """struct halay_counters"""

    _fields_ = [("struct_size", c_size_t)] + [
        (name, kind)
        for name, kind in (
            ("submissions", c_uint64),
            ("completions", c_uint64),
            ("errors", c_uint64),
            ("errors_by_status", c_uint64 * 32),
            ("in_flight", c_uint64),
            ("negotiations", c_uint64),
            ("cache_hits", c_uint64),
            ("collectives", c_uint64),
            ("fused_tensors", c_uint64),
            ("bytes", c_uint64),
            ("communication_ns", c_uint64),
            ("messages_sent", c_uint64),
            ("messages_received", c_uint64),
            ("steps", c_uint64),
            ("sleeps", c_uint64),
        )
    ]


class XlaCalls(ctypes.Structure):
    """struct halay_xla_calls"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("open", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))),
        ("close", CFUNCTYPE(None, c_void_p)),
        ("call", CFUNCTYPE(c_void_p, c_void_p)),
    ]


CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_char_p)

_Prototype = Tuple[str, Any, List[Any]]

# Name, result, arguments. A pointer to something opaque is a c_void_p.
_PROTOTYPES: List[_Prototype] = [
    ("halay_version", c_char_p, []),
    ("halay_status_string", c_char_p, [c_int]),
    ("halay_last_error", POINTER(Error), []),
    ("halay_init_start", c_int, [POINTER(Options), POINTER(c_void_p)]),
    ("halay_init_test", c_int, [c_void_p, c_int, POINTER(c_void_p), POINTER(c_int)]),
    ("halay_init_cancel", None, [c_void_p]),
    ("halay_unique_id_create", c_int, [POINTER(UniqueId)]),
    ("halay_fini", None, [c_void_p]),
    ("halay_context_read", c_int, [c_void_p, POINTER(ContextInfo)]),
    ("halay_context_status", c_int, [c_void_p, c_char_p, c_size_t]),
    ("halay_process_set_create_async", c_int, [c_void_p, POINTER(c_int), c_size_t, c_int, POINTER(c_void_p)]),
    ("halay_process_set_remove_async", c_int, [c_void_p, c_int, POINTER(c_void_p)]),
    ("halay_process_set_find", c_void_p, [c_void_p, c_int]),
    ("halay_process_set_numbers", c_size_t, [c_void_p, POINTER(c_int), c_size_t]),
    ("halay_process_set_read", c_int, [c_void_p, POINTER(ProcessSetInfo)]),
    ("halay_alloc", c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    ("halay_alloc_device", c_int, [c_void_p, c_int, c_size_t, POINTER(c_void_p)]),
    ("halay_free", None, [c_void_p, c_void_p]),
    ("halay_memory_retain", c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
    ("halay_memory_release", None, [c_void_p]),
    ("halay_abort", c_int, [c_void_p, c_char_p]),
    ("halay_register", c_int, [c_void_p, POINTER(TensorInfo), POINTER(c_void_p)]),
    ("halay_unregister", c_int, [c_void_p]),
    # callback and arg are not used from Python: a callback would make the engine's thread wait for the interpreter.
    ("halay_submit", c_int, [c_void_p, c_void_p, c_void_p, POINTER(c_void_p)]),
    ("halay_submit_named", c_int, [c_void_p, POINTER(TensorInfo), c_void_p, c_void_p, POINTER(c_void_p)]),
    ("halay_submit_many", c_int, [POINTER(c_void_p), c_size_t, c_void_p, c_void_p, POINTER(c_void_p)]),
    ("halay_wait_all", c_int, [POINTER(c_void_p), c_size_t, c_int]),
    ("halay_wait_any", c_int, [POINTER(c_void_p), c_size_t, c_int, POINTER(c_size_t)]),
    ("halay_completion_fd", c_int, [c_void_p]),
    ("halay_cancel", c_int, [c_void_p]),
    ("halay_test", c_int, [c_void_p]),
    ("halay_wait", c_int, [c_void_p, c_int]),
    ("halay_wait_stream", c_int, [c_void_p, c_int, c_void_p]),
    ("halay_request_text", c_char_p, [c_void_p]),
    ("halay_request_result", c_int, [c_void_p, POINTER(Result)]),
    ("halay_request_free", None, [c_void_p]),
    ("halay_counters_read", c_int, [c_void_p, POINTER(Counters)]),
    ("halay_gauge_set", c_int, [c_void_p, c_char_p, c_double]),
    ("halay_counters_write", c_int, [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]),
    ("halay_timeline_set", c_int, [c_void_p, c_char_p]),
    ("halay_xla_calls", POINTER(XlaCalls), []),
]


def _candidates() -> List[str]:
    """Where the library may be, in order."""
    chosen = os.environ.get("HALAY_LIBRARY")
    if chosen:
        return [chosen]
    return [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", SONAME), SONAME]


def _open() -> str:
    """The name by which the library can be loaded."""
    reasons = []
    for name in _candidates():
        if os.path.isabs(name) and not os.path.exists(name):
            reasons.append(f"'{name}' does not exist")
            continue
        try:
            ctypes.CDLL(name)
        except OSError as failure:
            reasons.append(str(failure))
        else:
            return name
    raise LibraryError(
        f"halay's library cannot be loaded: {'; '.join(reasons)}. Set HALAY_LIBRARY to the path of {SONAME}, or "
        "install it where the loader looks (LD_LIBRARY_PATH, /etc/ld.so.conf)"
    )


def _declare(library: Any, name: str) -> Any:
    for function, result, arguments in _PROTOTYPES:
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise LibraryError(f"'{name}' has no {function}: it is older than this package ({VERSION})") from None
        entry.restype, entry.argtypes = result, arguments
    return library


def _check_version(library: Any, name: str) -> None:
    """The same minor version, as long as the major one is 0: structs may differ otherwise."""
    version = library.halay_version().decode()
    if version.split(".")[:2] != VERSION.split(".")[:2]:
        raise LibraryError(f"'{name}' is halay {version}, this package {VERSION}: install both of one version")


_name = _open()
lib = _declare(ctypes.CDLL(_name), _name)
held = _declare(ctypes.PyDLL(_name), _name)
_check_version(lib, _name)
path = _name


def read_context(pointer: Any) -> ContextInfo:
    """What this process is in the job."""
    info = ContextInfo(ctypes.sizeof(ContextInfo))
    held.halay_context_read(pointer, ctypes.byref(info))
    return info


def scatter_rows(rows: int, size: int, rank: int) -> int:
    """The rows of a rank's part of a reduce-scatter or scatter (halay_scatter_rows)."""
    return rows // size + (rank < rows % size)


def read_error(pointer: Any, status: int) -> Tuple[str, Place]:
    """The text and the place of what a call has just returned."""
    fields = pointer.contents
    text, subject, column = (
        one.decode(errors="replace") for one in (fields.text, fields.subject, fields.column)
    )
    place = Place(subject or None, fields.row or None, column or None, None if fields.rank < 0 else fields.rank)
    return text or held.halay_status_string(status).decode(), place


def last_error(status: int, what: str, tensor: Optional[str] = None) -> HalayError:
    """The exception for what a call has just returned on this thread."""
    text, place = read_error(held.halay_last_error(), status)
    return error(status, f"{what}: {text}", tensor, place)
