# SPDX-License-Identifier: Apache-2.0
"""Requests: what has been submitted, and registered tensors, which submit the same again and again."""

import ctypes
import time
from typing import TYPE_CHECKING, Any, Callable, Generator, List, Optional, Sequence

from ._library import Result, TensorInfo, held, last_error, lib
from .constants import Status
from .errors import ClosedError, HalayError, error
from .watcher import Watcher

if TYPE_CHECKING:
    from .context import Context

# Milliseconds: Python takes signals (Ctrl-C) only between two calls of the library.
SLICE_MS = 50

_IN_PROGRESS = int(Status.IN_PROGRESS)
_OK = int(Status.OK)
_TIMEOUT = int(Status.TIMEOUT)
_CLOSED = int(Status.CLOSED)
_result_size = ctypes.sizeof(Result)
_unread = ctypes.byref(Result(_result_size))  # for calls whose status alone is wanted

# What makes an array of the result once a request has ended: gets the request, its status and the library's
# result; returns None if the status is an error all the same.
Finish = Callable[["Request", int, Result], Any]


def note_sender(request: "Request", status: int, result: Result) -> None:
    """A Finish: who sent what was received."""
    if status == _OK:
        request.peer = result.peer


class Request:
    """
    One submission. The data belong to the engine until it has ended: neither read nor write them.

    It keeps the data alive. A request that the program forgets runs to its end all the same.
    """

    __slots__ = (
        "_ctx", "_p", "_keep", "_out", "_finish", "_status", "_text", "name", "rows", "peer", "stream", "__weakref__",
    )  # fmt: skip

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
        # All-gather and all-to-all: the number of rows from each rank, once it has ended.
        self.rows: Optional[List[int]] = None
        # Receive: the rank that sent, once it has ended well.
        self.peer: Optional[int] = None
        # What a framework's binding notes: the stream that it follows.
        self.stream: Any = None

    def poll(self) -> bool:
        """Whether it has ended. Never blocks, never raises what the request ended with."""
        if self._status == _IN_PROGRESS:
            ctx = self._ctx
            with ctx._lock:
                self._settle(held.halay_test(self._p) if ctx._p else _CLOSED)
        return self._status != _IN_PROGRESS

    def wait(self, timeout: Optional[float] = None) -> Any:
        """
        Block until it has ended, and return its result: the array that has it (of a join: the last rank).

        Other threads of Python run meanwhile, and Ctrl-C works. timeout: seconds; when they are over TimeoutError of
        Python is raised, and the request is still in flight (poll() returns False). Raises HalayError when it has ended
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

    def wait_stream(self, stream: int, timeout: Optional[float] = None) -> None:
        """
        Let a CUDA stream follow it: what the stream, a cudaStream_t, is given from now on sees the result. Blocks until
        the copy to the device has begun, not until it has been made; of arrays in main memory until it has ended. Its
        name may be used again then, by what follows the stream. Raises as wait() does.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._status == _IN_PROGRESS:
            ctx = self._ctx
            left = SLICE_MS if deadline is None else _slice(deadline)
            status = ctx._call(lib.halay_wait_stream, self._p, left, stream)
            with ctx._lock:
                if status == _OK:
                    return
                self._look()
            if status != _TIMEOUT:
                break
            if deadline is not None and time.monotonic() >= deadline:
                self._raise_late()
        self.wait()

    @property
    def out(self) -> Any:
        """The array for the result, which is there once the request has ended; for a stream that follows it before."""
        return self._out

    def error(self) -> Optional[HalayError]:
        """What it has ended with; None if that is success, or if it has not ended."""
        if self._status in (_OK, _IN_PROGRESS):
            return None
        return error(self._status, self._text, self.name)

    def cancel(self) -> None:
        """
        Withdraw it: unless it has begun, it ends on all ranks with CanceledError, its data untouched. A send or receive
        ends on this rank alone. Never blocks; wait() has its result.
        """
        ctx = self._ctx
        with ctx._lock:
            if ctx._p and self._status == _IN_PROGRESS:
                status = held.halay_cancel(self._p)
                if status:
                    raise last_error(status, "cancel", self.name)

    def add_done_callback(self, callback: Callable[["Request"], object]) -> None:
        """
        Call callback(request) when it has ended: at once if it has, or else on a thread of the context's. It may wait
        for other requests: theirs are called on other threads meanwhile. Exceptions that it raises are printed.
        """
        if self.poll():  # which also releases the engine's place for a wait
            callback(self)
            return
        ctx = self._ctx
        with ctx._lock:
            if ctx._p:
                if ctx._watcher is None:
                    ctx._watcher = Watcher(ctx)
                ctx._watcher.add(self, callback)
                return
        self.poll()
        callback(self)

    def __await__(self) -> Generator[Any, None, Any]:
        """In a coroutine of asyncio: its result, as wait() has it."""
        import asyncio

        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def wake() -> None:
            if not ended.done():
                ended.set_result(None)

        def tell(_: "Request") -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        self.add_done_callback(tell)
        yield from ended
        return self.wait()

    def _wait_until(self, deadline: float) -> None:
        while True:
            if self._wait_ms(_slice(deadline)) != _IN_PROGRESS:
                return
            if time.monotonic() >= deadline:
                self._raise_late()

    def _raise_late(self) -> None:
        about = f" '{self.name}'" if self.name else ""
        raise TimeoutError(f"request{about} is still in flight")

    def _wait_ms(self, milliseconds: int) -> int:
        ctx = self._ctx
        users = 0
        try:  # Ctrl-C may come between any two calls
            with ctx._lock:
                if self._status != _IN_PROGRESS:
                    return self._status
                if not ctx._p:
                    self._settle(_CLOSED)
                    return self._status
                users = 1
                ctx._users += 1  # the context is not closed before they have left
            status = lib.halay_wait(self._p, milliseconds)
        finally:
            with ctx._lock:
                ctx._users -= users
        with ctx._lock:
            if not ctx._p:
                status = _CLOSED
            elif status == _TIMEOUT:  # of this wait, or what the request ended with
                status = held.halay_request_result(self._p, _unread)
            self._settle(status)
        return self._status

    def _look(self) -> bool:
        """Whether it has ended. Unlike poll() no wait in the deterministic modes. The context's lock is held."""
        if self._status == _IN_PROGRESS:
            self._settle(held.halay_request_result(self._p, _unread) if self._ctx._p else _CLOSED)
        return self._status != _IN_PROGRESS

    def _settle(self, status: int) -> None:
        """It has this status now. The context's lock is held."""
        if status == _IN_PROGRESS or self._status != _IN_PROGRESS:
            return
        if not self._ctx._p:
            self._text = self._ctx._gone or "the context was closed before anyone waited for this request"
        else:
            if self._finish is not None:
                result = Result(_result_size)
                held.halay_request_result(self._p, ctypes.byref(result))
                made = self._finish(self, status, result)
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
                    ctx._orphans.append((self._p, self._keep))  # the context keeps the data until it has ended
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
            status = held.halay_submit(self._handle(), None, None, self._new_ref)
            if status:
                raise last_error(status, "submit", self.name)
            if ctx._orphans:
                ctx._reap()
            return self._request(self._new.value)  # type: ignore[arg-type]

    def _handle(self) -> int:
        """The library's pointer. The context's lock is held."""
        if not self._ctx._p or not self._p:
            self._ctx._open()
            raise ClosedError(f"tensor '{self.name}' was unregistered", _CLOSED, self.name)
        return self._p

    def _request(self, pointer: int) -> Request:
        return Request(self._ctx, pointer, self.name, self, self._out, self._finish)

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


def wait_all(requests: Sequence[Request], timeout: Optional[float] = None) -> List[Any]:
    """
    Block until all of these have ended, and return their results in order. Raises the error of the first, in this
    order, that ended with one, when all have ended. timeout: as of Request.wait, for all together.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    for request in requests:
        while request._wait_ms(SLICE_MS if deadline is None else _slice(deadline)) == _IN_PROGRESS:
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{sum(not one.poll() for one in requests)} requests are still in flight")
    return [request.wait() for request in requests]


def wait_any(requests: Sequence[Request], timeout: Optional[float] = None) -> int:
    """
    Block until one of these has ended, and return its place; its wait() has the result. Of one context. timeout: as of
    Request.wait.
    """
    contexts = {id(request._ctx) for request in requests}
    if len(contexts) != 1:
        raise ValueError(f"{len(requests)} requests of {len(contexts)} contexts: one of one context is needed at least")
    deadline = None if timeout is None else time.monotonic() + timeout
    pointers = (ctypes.c_void_p * len(requests))(*[request._p for request in requests])
    place = ctypes.c_size_t()
    while True:
        for index, request in enumerate(requests):
            if request.poll():
                return index
        left = SLICE_MS if deadline is None else _slice(deadline)
        status = requests[0]._ctx._call(lib.halay_wait_any, pointers, len(requests), left, ctypes.byref(place))
        if status == _TIMEOUT and deadline is not None and time.monotonic() >= deadline:
            if not any(request.poll() for request in requests):
                raise TimeoutError(f"{len(requests)} requests are still in flight")


def _slice(deadline: float) -> int:
    """Milliseconds to wait now, of what is left."""
    return max(0, min(SLICE_MS, int((deadline - time.monotonic()) * 1000 + 0.999)))
