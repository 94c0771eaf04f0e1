# SPDX-License-Identifier: Apache-2.0
"""
The thread that calls back when requests end: one for a context, begun with the first callback.

The engine's own callbacks are not used: its thread would wait for Python's lock, and the data of all ranks with it.
"""

import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Callable, Dict, List

from ._library import held

if TYPE_CHECKING:
    from .context import Context
    from .request import Request

    Callback = Callable[[Request], object]


class Watcher:
    """Started with the context's lock held."""

    def __init__(self, ctx: "Context") -> None:
        self._ctx = ctx
        self._pending: Dict["Request", List["Callback"]] = {}  # guarded by the context's lock
        self._is_over = False  # guarded by the context's lock: the pipe is closed
        self._fd: int = held.halay_completion_fd(ctx._open())
        if self._fd < 0:
            raise OSError("there is no descriptor for the end of requests; halay's log says why")
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name="halay callbacks", daemon=True)
        self._thread.start()

    def add(self, request: "Request", callback: "Callback") -> None:
        """Call it when the request has ended. The context's lock is held."""
        self._pending.setdefault(request, []).append(callback)
        os.write(self._wake_write, b"1")

    def stop(self) -> None:
        """The context has been closed: wait for the thread, unless this is it."""
        with self._ctx._lock:
            if not self._is_over:
                os.write(self._wake_write, b"1")
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def after_fork(self) -> None:
        """In the child, which has no such thread."""
        os.close(self._wake_read)
        os.close(self._wake_write)

    def call_back(self) -> None:
        """Call for all that has ended."""
        with self._ctx._lock:
            ended = [request for request in self._pending if request._look()]
            due = [(request, self._pending.pop(request)) for request in ended]
        for request, callbacks in due:
            for callback in callbacks:
                try:
                    callback(request)
                except Exception:  # of the program's: the others are called all the same
                    sys.excepthook(*sys.exc_info())

    def _run(self) -> None:
        idle, busy = select.poll(), select.poll()
        idle.register(self._wake_read, select.POLLIN)
        busy.register(self._wake_read, select.POLLIN)
        busy.register(self._fd, select.POLLIN)
        while self._ctx._p:
            # Requests without a callback must not wake this thread: it would take the interpreter from the program.
            for descriptor, _ in (busy if self._pending else idle).poll():
                os.read(descriptor, 8 if descriptor == self._fd else 4096)
            if self._ctx._p:
                self.call_back()
        with self._ctx._lock:
            self._is_over = True
            os.close(self._wake_read)
            os.close(self._wake_write)
