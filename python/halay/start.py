# SPDX-License-Identifier: Apache-2.0
"""The start of a context, which Ctrl-C interrupts, and the id by which ranks can meet."""

import ctypes
import threading
from typing import List, Optional

from . import stacks
from ._library import Options, UniqueId, last_error, lib
from .constants import Status
from .request import SLICE_MS

_IN_PROGRESS = int(Status.IN_PROGRESS)
_OK = int(Status.OK)

_leaving: Optional[threading.Thread] = None  # of the last start that was interrupted


def unique_id() -> bytes:
    """
    Make the id of a start, in one process of the job, which then sends it to the others, by any means; each one starts
    with Context(unique_id=id, rank=..., size=...). It is good for one start. This process must not end before all have
    started. Who has the id can join the job.
    """
    made = UniqueId()
    status = lib.halay_unique_id_create(ctypes.byref(made))
    if status:
        raise last_error(status, "make a unique id")
    return bytes(made.bytes)


def begin(options: Options) -> int:
    """The pointer of a new context. The options may be freed when this has returned, and their owner when it raises."""
    if _leaving is not None:
        _leaving.join()  # the second of two starts at once would meet the others' first one
    stacks.register()
    start, place = ctypes.c_void_p(), ctypes.c_void_p()
    statuses: List[int] = []
    try:
        status = lib.halay_init_start(ctypes.byref(options), ctypes.byref(start))
        if status:
            raise last_error(status, "start")
        while not statuses or statuses[-1] == _IN_PROGRESS:
            # A Ctrl-C between the call and an assignment would lose whether the start has been freed.
            statuses[:] = map(lib.halay_init_test, [start], [SLICE_MS], [ctypes.byref(place)], [None])
        if statuses[-1] != _OK:
            raise last_error(statuses[-1], "start")
        return place.value or 0
    except BaseException:
        if statuses and statuses[-1] == _OK:
            lib.halay_fini(place)
        elif start.value and (not statuses or statuses[-1] == _IN_PROGRESS):
            _leave(start, options)
        raise


def _leave(start: ctypes.c_void_p, options: Options) -> None:
    """Cancel a start, which takes up to half a second as a rule: the program need not wait for that."""
    global _leaving

    def cancel() -> None:
        kept = options  # which the library reads until this call returns
        lib.halay_init_cancel(start)
        del kept

    _leaving = threading.Thread(target=cancel, name="halay start")
    _leaving.start()
