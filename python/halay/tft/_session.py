# SPDX-License-Identifier: Apache-2.0
"""
Sessions: a context, and the library's session in it, which the forecasters of a program share.

A long call runs on a thread of its own. Meanwhile the program's thread waits, shows progress, and handles Ctrl-C,
which asks the library to stop: nothing is left running, and no exception passes through the library. A session
has one call at a time; other threads wait for their turn.
"""

import ctypes
import json
import os
import queue
import signal
import sys
import threading
import warnings
import weakref
from collections import deque
from types import FrameType
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from .._library import LOG
from ..context import Context
from ..errors import HalayError
from ._errors import ForecastWarning
from ._library import Options, last_error, lib, sized

_ERROR, _WARNING = 0, 1  # enum halay_log_level

_Event = Optional[Callable[[], object]]


class _Interrupts:
    """
    Ctrl-C while a call is under way: counted, and the library is asked to stop. A program that has a handler of its own
    keeps it; what that raises is raised after the call.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self.count = 0
        self._stop = stop
        self._is_set = False

    def _hear(self, number: int, frame: Optional[FrameType]) -> None:
        self.count += 1
        self._stop()

    def __enter__(self) -> "_Interrupts":
        is_main = threading.current_thread() is threading.main_thread()
        self._is_set = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_set:
            signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_set:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Handle:
    """Data or a model of a session, closed with the last reference or with the session."""

    def __init__(self, session: "Session", pointer: int, close: Callable[[int], None]) -> None:
        self.session = session
        self.interrupted = 0  # number of times that Ctrl-C was pressed while it was made
        self._pointer: List[int] = [pointer]  # empty when it is closed; shared with the session
        session._handles.append((self._pointer, close))
        self._finalizer = weakref.finalize(self, session._retire, self._pointer)
        self._finalizer.atexit = False

    def close(self) -> None:
        """Close it now; nothing if it is closed."""
        self._finalizer()

    def pointer(self) -> int:
        """Return the pointer for a call of the library, under the session's lock: another thread may close it."""
        self.session.check()
        if not self._pointer:
            raise HalayError("the context of this model was closed")
        return self._pointer[0]


class Session:
    """The library's session in a context."""

    def __init__(self, context: Context, device: str) -> None:
        self.context = context
        self._pid = os.getpid()
        self._lock = threading.Lock()  # one call at a time
        self._handles: List[Tuple[List[int], Callable[[int], None]]] = []  # open ones
        self._retired: Deque[List[int]] = deque()  # of these, the unreferenced ones
        self._events: "queue.SimpleQueue[_Event]" = queue.SimpleQueue()
        self._log = LOG(self._take_line)
        place = ctypes.c_void_p()
        options = sized(Options, ctx=context._open(), log=self._log, reports_errors=1, device=device.encode())
        status = lib.halay_tft_init(ctypes.byref(options), ctypes.byref(place))
        if status:
            raise last_error(status)
        self._p: Optional[int] = place.value
        context._at_close.append(self.close)

    def _take_line(self, _: Any, level: int, line: bytes) -> None:
        """A line of the library's log, from any thread: an exception has the text of an error already."""
        text = line.decode(errors="replace")
        if level == _WARNING:
            self.post(lambda: warn(text.split("warning: ", 1)[-1]))
        elif level > _WARNING:
            self.post(lambda: print(text, file=sys.stderr) if sys.stderr is not None else None)

    def post(self, event: Callable[[], object]) -> None:
        """Give the program's thread an event to handle while it waits; from any thread."""
        self._events.put(event)

    def check(self) -> None:
        """Raise HalayError if the session does not exist any more, as in a child of fork."""
        self.context._open()

    def pointer(self) -> Optional[int]:
        """As Handle.pointer."""
        self.check()
        return self._p

    # ---- life of what belongs to it ----

    def _retire(self, pointer: List[int]) -> None:
        """At any time, also while the collector runs inside of a call."""
        self._retired.append(pointer)
        if self._lock.acquire(blocking=False):
            try:
                self._reap()
            finally:
                self._lock.release()

    def _reap(self) -> None:
        """Close unreferenced handles, under the lock. A child of fork leaves them alone: their threads are gone."""
        while self._retired:
            pointer = self._retired.popleft()
            for i, (known, close) in enumerate(self._handles):
                if known is pointer:
                    del self._handles[i]
                    if os.getpid() == self._pid and self._p:
                        close(pointer.pop())
                    break

    def close(self) -> None:
        """Before the context is left: models and data of it can then not be used any more."""
        with self._lock:
            p, self._p = self._p, None
            if not p or os.getpid() != self._pid:
                return
            for pointer, close in reversed(self._handles):  # what was made of others goes first
                close(pointer.pop())
            self._handles.clear()
            lib.halay_tft_fini(p)

    # ---- calls ----

    def call(self, function: Any, *arguments: Any, can_stop: bool = True) -> int:
        """
        Make a long call of the library, and return the number of times that Ctrl-C was pressed; after one, the call
        ended as stopped. If it cannot stop, or stopped without a result, KeyboardInterrupt. A function among the
        arguments returns one, like a pointer, when the call starts.
        """
        with self._lock:
            return self._call(function, arguments, can_stop)

    def _call(self, function: Any, arguments: Tuple[Any, ...], can_stop: bool) -> int:
        self.check()  # another thread may have closed it meanwhile
        self._reap()
        given = [one() if callable(one) else one for one in arguments]
        errors: List[Any] = []

        def work() -> None:
            status = function(*given)
            errors.append(last_error(status) if status else None)
            self._events.put(None)

        with _Interrupts(self._stop if can_stop else lambda: None) as interrupts:
            thread = threading.Thread(target=work, name="halay tft")
            thread.start()
            failure = self._wait(can_stop)
            thread.join()
            if can_stop:
                lib.halay_tft_stop(self._p, 0)  # if the call missed it
        if failure:
            raise failure
        if interrupts.count and (errors[0] or not can_stop):
            raise KeyboardInterrupt
        if errors[0]:
            raise errors[0]
        return interrupts.count

    def _stop(self) -> None:
        lib.halay_tft_stop(self._p, int(signal.SIGINT))

    def _wait(self, can_stop: bool) -> Optional[BaseException]:
        """Wait until the call has ended; return the exception of an event or of a signal handler, if any."""
        failure: Optional[BaseException] = None
        while True:
            try:
                event = self._events.get()
                if event is None:
                    return failure
                event()
            except BaseException as raised:  # raised again when the call has ended
                failure = failure or raised
                if can_stop:
                    self._stop()

    def open(self, close: Callable[[int], None], function: Any, *arguments: Any, can_stop: bool = False) -> Handle:
        """A call whose last argument is the place of data or of a model."""
        place = ctypes.c_void_p()
        with self._lock:
            try:
                interrupted = self._call(function, (*arguments, ctypes.byref(place)), can_stop)
            except BaseException:
                if place.value:
                    close(place.value)
                raise
            handle = Handle(self, place.value or 0, close)
        handle.interrupted = interrupted
        return handle

    def document(self, function: Any, *arguments: Any) -> Any:
        """Make a call whose last argument is the place of a JSON text, and return its document."""
        return json.loads(self.text(function, *arguments))

    def text(self, function: Any, *arguments: Any) -> str:
        """Make a call whose last argument is the place of a text, and return rank 0's on all ranks."""
        place = ctypes.c_void_p()
        interrupted = self.call(function, *arguments, ctypes.byref(place))
        content = ctypes.string_at(place.value) if place.value else b""
        lib.halay_tft_free(place)
        content = self.share(content)  # which the other ranks wait for
        if interrupted:
            raise KeyboardInterrupt
        return content.decode()

    def share(self, content: bytes) -> bytes:
        """Rank 0's bytes, on all ranks."""
        if self.context.size == 1:
            return content
        length = bytearray(len(content).to_bytes(8, "little"))
        self.context.broadcast(length)
        room = bytearray(content) if self.context.rank == 0 else bytearray(int.from_bytes(length, "little"))
        if room:
            self.context.broadcast(room)
        return bytes(room)


def describe(function: Any, handle: Handle) -> Any:
    """Return the description of data or a model; on this rank alone, and quickly."""
    place = ctypes.c_void_p()
    with handle.session._lock:
        status = function(handle.pointer(), ctypes.byref(place))
        if status:
            raise last_error(status)
        text = ctypes.string_at(place.value or 0)
        lib.halay_tft_free(place)
    return json.loads(text)


def warn(text: str) -> None:
    """A warning that names the line of the program, whatever of this package is between."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(__package__):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, ForecastWarning, stacklevel=depth)


_defaults: Dict[str, Context] = {}
_defaults_lock = threading.Lock()


def session_of(
    context: Optional[Context], deterministic: Optional[str] = None, device: Optional[str] = None
) -> Session:
    """
    The session of a context whose models forecast on that device (cpu). Without a context, the program's own, which
    joins the job at the first call and leaves it at the program's end; one for each kind of determinism, since that is
    the engine's, too.
    """
    with _defaults_lock:
        if context is None:
            kind = deterministic or os.environ.get("HALAY_DETERMINISTIC") or "run"
            context = _defaults.get(kind)
            if context is None or not context._p:
                context = _defaults[kind] = Context(settings={"HALAY_DETERMINISTIC": kind})
        sessions: Dict[str, Session] = vars(context).setdefault("_tft", {})  # live as long as their context
        session = sessions.get(device or "cpu")
        if session is None or not session._p or session._pid != os.getpid():
            session = sessions[device or "cpu"] = Session(context, device or "cpu")
        return session
