# SPDX-License-Identifier: Apache-2.0
"""
Elastic jobs (halay_elastic.h): a context that continues with other ranks when one is lost or others join.

What the program keeps of its progress is its own: halay copies no memory for it here. After begin, commit and restore
it asks the context for rank and size again. `halay.torch.elastic` is made of this.
"""

import ctypes
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from ._library import last_error, lib, read_context
from .context import Context


class Change(ctypes.Structure):
    """struct halay_elastic_change: whether rank and size are others now, and what they were."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("has_reformed", c_int),
        ("rank_was", c_int),
        ("size_was", c_int),
        ("commit", c_uint64),
        ("reforms", c_uint64),
    ]


for _name in ("begin", "commit", "restore"):
    _function = getattr(lib, "halay_elastic_" + _name)
    _function.restype, _function.argtypes = c_int, [c_void_p, ctypes.POINTER(Change)]


def _call(ctx: Context, function: Any, what: str) -> Change:
    change = Change(struct_size=ctypes.sizeof(Change))
    status = ctx._call(function, ctx._p, ctypes.byref(change))
    if status:
        raise last_error(status, what)
    info = read_context(ctx._p)
    ctx.rank, ctx.size = info.rank, info.size
    ctx.local_rank, ctx.local_size = info.local_rank, info.local_size
    ctx.cross_rank, ctx.cross_size = info.cross_rank, info.cross_size
    return change


def is_on(ctx: Context) -> bool:
    """Whether this is an elastic job."""
    return bool(read_context(ctx._open()).is_elastic)


def begin(ctx: Context) -> Change:
    """Once, before the first commit; all ranks. Processes that join later come to it, too."""
    return _call(ctx, lib.halay_elastic_begin, "begin")


def commit(ctx: Context) -> Change:
    """The program has kept its state; all ranks. If processes wait to join or to leave, the job is re-formed."""
    return _call(ctx, lib.halay_elastic_commit, "commit")


def restore(ctx: Context) -> Change:
    """After PeerError: find the other ranks again. The program goes back to what it kept."""
    return _call(ctx, lib.halay_elastic_restore, "restore")
