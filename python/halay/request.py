# SPDX-License-Identifier: Apache-2.0
"""Requests: what has been submitted, and registered tensors, which submit the same again and again."""

import ctypes
import time
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from ._library import Result, TensorInfo, held, last_error, lib
from .constants import Status
from .errors import ClosedError, HalayError, error

if TYPE_CHECKING:
    from .context import Context

# Milliseconds: Python hears signals (Ctrl-C) only between two calls of the library.
SLICE_MS = 50

_IN_PROGRESS = int(Status.IN_PROGRESS)
_OK = int(Status.OK)
_TIMEOUT = int(Status.TIMEOUT)
_CLOSED = int(Status.CLOSED)
_result_size = ctypes.sizeof(Result)
_unread = ctypes.byref(Result(_result_size))  # for calls whose status alone is wanted

# What makes an array of the result once a request has ended: gets the request, its status and what the library says of
# it; returns None if the status stands for an error all the same.
Finish = Callable[["Request", int, Result], Any]


class Request:
    """
    One submission. The data belong to the engine until it has ended: neither read nor write them.

    It keeps the data alive. A request that the program forgets runs to its end all the same.
    """

    __slots__ = ("_ctx", "_p", "_keep", "_out", "_finish", "_status", "_text", "name", "rows", "__weakref__")

    def __init__(
        self, ctx: "Context", pointer: int, name: Optional[str], keep: Any, out: Any, finish: Optional[Finish]
    ) -> None:
        self._ctx = ctx
        self._p = pointer
        self._keep = keep
        self._out = out
        self._finish = finish
        self._status = _IN_PROGRESS
        self._text = ""
        self.name = name
        # All-gather and all-to-all: how many rows came from each rank, once it has ended.
        self.rows: Optional[List[int]] = None

    def poll(self) -> bool:
        """Whether it has ended. Never blocks, never raises what the request ended with."""
        if self._status == _IN_PROGRESS:
            ctx = self._ctx
            with ctx._lock:
                self._settle(held.halay_test(self._p) if ctx._p else _CLOSED)
        return self._status != _IN_PROGRESS

    def wait(self, timeout: Optional[float] = None) -> Any:
        """
        Block until it has ended, and return its result: the array that has it (of a join: the rank that came last).

        Other threads of Python run meanwhile, and Ctrl-C is heard. timeout: seconds; when they are over TimeoutError of
        Python is raised, and the request is still in flight (poll() says False). Raises HalayError when it has ended
        with an error, at each call the same.
        """
        if self._status == _IN_PROGRESS:
            if timeout is None:
                while self._wait_ms(SLICE_MS) == _IN_PROGRESS:
                    pass
            else:
                self._wait_until(time.monotonic() + timeout)
        if self._status != _OK:
            raise self.error() or ClosedError("unknown", _CLOSED)
        return self._out

    def error(self) -> Optional[HalayError]:
        """What it has ended with; None if that is success, or if it has not ended."""
        if self._status in (_OK, _IN_PROGRESS):
            return None
        return error(self._status, self._text, self.name)

    def _wait_until(self, deadline: float) -> None:
        while True:
            left = deadline - time.monotonic()
            if self._wait_ms(max(0, min(SLICE_MS, int(left * 1000 + 0.999)))) != _IN_PROGRESS:
                return
            if left <= 0:
                about = f" '{self.name}'" if self.name else ""
                raise TimeoutError(f"request{about} is still in flight")

    def _wait_ms(self, milliseconds: int) -> int:
        ctx = self._ctx
        with ctx._lock:
            if self._status != _IN_PROGRESS:
                return self._status
            if not ctx._p:
                self._settle(_CLOSED)
                return self._status
            ctx._users += 1  # the context is not closed before they have left
        try:
            status = lib.halay_wait(self._p, milliseconds)
        finally:
            with ctx._lock:
                ctx._users -= 1
        with ctx._lock:
            if not ctx._p:
                status = _CLOSED
            elif status == _TIMEOUT:  # of this wait, or what the request ended with
                status = held.halay_request_result(self._p, _unread)
            self._settle(status)
        return self._status

    def _settle(self, status: int) -> None:
        """It has this status now. The context's lock is held."""
        if status == _IN_PROGRESS or self._status != _IN_PROGRESS:
            return
        if not self._ctx._p:
            self._text = self._ctx._gone or "the context was closed before anyone waited for this request"
        else:
            if self._finish is not None:
                said = Result(_result_size)
                held.halay_request_result(self._p, ctypes.byref(said))
                made = self._finish(self, status, said)
                if made is not None:
                    self._out, status = made, _OK
            if status != _OK:
                self._text = held.halay_request_text(self._p).decode(errors="replace")
                if not self._text:
                    self._text = held.halay_status_string(status).decode()
        self._status = status

    def __del__(self) -> None:
        ctx = self._ctx
        if not ctx._p:
            return
        with ctx._lock:
            if ctx._p:
                if self._status == _IN_PROGRESS:
                    ctx._orphans.append((self._p, self._keep))  # somebody has to keep the data until it has ended
                else:
                    held.halay_request_free(self._p)


class Tensor:
    """
    A registered tensor: submit() again and again, one submission at a time. Cheaper than by name.

    It is unregistered when the program forgets it, or by unregister().
    """

    __slots__ = ("_ctx", "_p", "_keep", "_out", "_finish", "_new", "_new_ref", "name", "__weakref__")

    def __init__(
        self, ctx: "Context", info: TensorInfo, name: str, keep: Any, out: Any, finish: Optional[Finish]
    ) -> None:
        self._ctx = ctx
        self._p: Optional[int] = None
        self._keep = keep
        self._out = out
        self._finish = finish
        self._new = ctypes.c_void_p()
        self._new_ref = ctypes.byref(self._new)
        self.name = name
        with ctx._lock:
            status = held.halay_register(ctx._open(), ctypes.byref(info), self._new_ref)
            if status:
                raise last_error(status, "register", name)
            self._p = self._new.value

    def submit(self) -> Request:
        """Submit it; the data are where they were when it was registered."""
        ctx = self._ctx
        with ctx._lock:
            if not ctx._p or not self._p:
                ctx._open()
                raise ClosedError(f"tensor '{self.name}' was unregistered", _CLOSED, self.name)
            status = held.halay_submit(self._p, None, None, self._new_ref)
            if status:
                raise last_error(status, "submit", self.name)
            if ctx._orphans:
                ctx._reap()
            return Request(ctx, self._new.value, self.name, self, self._out, self._finish)  # type: ignore[arg-type]

    def unregister(self) -> None:
        """Forget it. ArgumentError while it is in flight."""
        with self._ctx._lock:
            if self._p and self._ctx._p:
                status = held.halay_unregister(self._p)
                if status:
                    raise last_error(status, "unregister", self.name)
            self._p = None

    def __del__(self) -> None:
        ctx = self._ctx
        if not ctx._p or not self._p:
            return
        with ctx._lock:
            if ctx._p and self._p:
                held.halay_unregister(self._p)
