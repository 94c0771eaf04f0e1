# SPDX-License-Identifier: Apache-2.0
"""
The threads that call back when requests end: a context's own, begun with the first callback.

One of them has the turn: it looks at what has ended. Before it calls the program's code it passes the turn on, so that
a callback may wait for another request, whose callbacks come meanwhile. Who has the turn also takes over what a thread
whose callback waits has not come to. So there is always one thread that calls nothing, and as many others as there are
callbacks that wait.

The engine's own callbacks are not used: its thread would wait for Python's lock, and the data of all ranks with it.
"""

import _thread
import os
import select
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Callable, Deque, Dict, List, Set, Tuple

from ._library import held

if TYPE_CHECKING:
    from .context import Context
    from .request import Request

    Callback = Callable[[Request], object]

# Milliseconds: how long what has ended waits for a thread that may be in a callback that waits.
_PATIENCE_MS = 1


class Watcher:
    """Started with the context's lock held."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx
        self._pending: Dict["Request", List["Callback"]] = {}  # guarded by the context's lock
        self._due: Deque[Tuple["Request", List["Callback"]]] = deque()  # what has ended
        self._is_over = False  # guarded by the context's lock: the pipe is closed
        self._fd: int = held.halay_completion_fd(ctx._open())
        if self._fd < 0:
            raise OSError("no descriptor for the end of requests; halay's log has the reason")
        self._wake_read, self._wake_write = os.pipe()
        self._idle, self._busy = select.poll(), select.poll()
        self._idle.register(self._wake_read, select.POLLIN)
        self._busy.register(self._wake_read, select.POLLIN)
        self._busy.register(self._fd, select.POLLIN)
        self._turn = threading.Lock()  # its holder looks at the descriptors
        self._free = 0  # guarded by the context's lock: threads that have the turn or wait for it
        self._beginning = 0  # guarded by the context's lock: of these, started ones that have not run yet
        self._calling: Set[int] = set()  # guarded by the context's lock: the others
        self._start_thread()

    def _start_thread(self) -> None:
        """
        The context's lock is held, so this may not wait for the thread, as threading.Thread does: the garbage collector
        may run there first, and the end of a request takes that lock.
        """
        _thread.start_new_thread(self._run, ())
        self._free += 1
        self._beginning += 1

    def add(self, request: "Request", callback: "Callback") -> None:
        """Call it when the request has ended. The context's lock is held."""
        self._pending.setdefault(request, []).append(callback)
        os.write(self._wake_write, b"1")

    def stop(self) -> None:
        """The context has been closed: return when no thread looks at its descriptor."""
        with self._ctx._lock:
            if not self._is_over:
                os.write(self._wake_write, b"1")
        with self._turn:
            pass

    def finish(self, seconds: float) -> None:
        """
        Call for what is left, and wait for callbacks on other threads, for this time at most: they may never end. Wait
        for threads to begin, too: CPython 3.11 crashes if one begins when the interpreter has ended.
        """
        with self._ctx._lock:
            self._find_ended()
        self._call_all()
        deadline = time.monotonic() + seconds
        while (self._beginning or self._calling - {threading.get_ident()}) and time.monotonic() < deadline:
            time.sleep(0.001)

    def after_fork(self) -> None:
        """In the child, which has no such threads."""
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _find_ended(self) -> None:
        """The context's lock is held."""
        ended = [request for request in self._pending if request._look()]
        self._due.extend((request, self._pending.pop(request)) for request in ended)

    def _look(self) -> bool:
        """Wait for something to call. False: the context is closed. This thread has the turn."""
        while self._ctx._p:
            # Requests without a callback must not wake this thread: it would take the interpreter from the program.
            look = self._busy if self._pending else self._idle
            seen = look.poll(_PATIENCE_MS if self._due else None)
            for descriptor, _ in seen:
                os.read(descriptor, 8 if descriptor == self._fd else 4096)
            with self._ctx._lock:
                before = len(self._due)
                self._find_ended()
                if len(self._due) > before or self._due and not seen:
                    return True
        with self._ctx._lock:
            if not self._is_over:
                self._is_over = True
                os.close(self._wake_read)
                os.close(self._wake_write)
        return False

    def _run(self) -> None:
        with self._ctx._lock:
            self._beginning -= 1
        while True:
            with self._turn:
                is_open = self._look()
            if not is_open:
                return
            self._begin_calls()
            self._call_all()
            if self._end_calls():
                return

    def _call_all(self) -> None:
        while True:
            try:
                request, callbacks = self._due.popleft()
            except IndexError:
                return
            for callback in callbacks:
                try:
                    callback(request)
                except BaseException:  # of the program's, SystemExit too: the others are called all the same
                    sys.excepthook(*sys.exc_info())
            del request, callbacks, callback

    def _begin_calls(self) -> None:
        with self._ctx._lock:
            self._free -= 1
            self._calling.add(threading.get_ident())
            if self._free == 0 and self._ctx._p:  # a closed context needs no other thread
                try:
                    self._start_thread()
                except RuntimeError:  # the interpreter ends, and starts none
                    pass

    def _end_calls(self) -> bool:
        """True: there are others enough."""
        with self._ctx._lock:
            self._calling.remove(threading.get_ident())
            if self._free >= 2:
                return True
            self._free += 1
            return False
