# SPDX-License-Identifier: Apache-2.0
"""
Elastic jobs (halay_elastic.h): a context that goes on with other ranks when one is lost or others join.

What the program keeps of its progress is its own: halay copies no memory for it here. After begin, commit and restore
it asks the context for rank and size again. `halay.torch.elastic` is made of this.
"""

import ctypes
from ctypes import c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from ._library import held, last_error, lib
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
held.halay_elastic_is_on.restype, held.halay_elastic_is_on.argtypes = c_int, [c_void_p]


def _call(ctx: Context, function: Any, what: str) -> Change:
    change = Change(struct_size=ctypes.sizeof(Change))
    status = ctx._call(function, ctx._p, ctypes.byref(change))
    if status:
        raise last_error(status, what)
    ctx.rank, ctx.size = held.halay_rank(ctx._p), held.halay_size(ctx._p)
    ctx.local_rank, ctx.local_size = held.halay_local_rank(ctx._p), held.halay_local_size(ctx._p)
    ctx.cross_rank, ctx.cross_size = held.halay_cross_rank(ctx._p), held.halay_cross_size(ctx._p)
    return change


def is_on(ctx: Context) -> bool:
    """Whether this is an elastic job."""
    return bool(held.halay_elastic_is_on(ctx._open()))


def begin(ctx: Context) -> Change:
    """Once, before the first commit; all ranks. Processes that join later come to it, too."""
    return _call(ctx, lib.halay_elastic_begin, "begin")


def commit(ctx: Context) -> Change:
    """The program has kept its state; all ranks. If processes wait to join or to leave, the job is re-formed."""
    return _call(ctx, lib.halay_elastic_commit, "commit")


def restore(ctx: Context) -> Change:
    """After PeerError: find the other ranks again. The program goes back to what it kept."""
    return _call(ctx, lib.halay_elastic_restore, "restore")
