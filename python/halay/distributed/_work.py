# SPDX-License-Identifier: Apache-2.0
"""
One submission as torch.distributed sees it: a Work, and the future that belongs to it.

A program that waits drives halay's engine itself. A future has nobody who waits: the context's thread completes it.
"""

import threading
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from ..errors import CanceledError, HalayError
from ..errors import TimeoutError as HalayTimeoutError
from ..request import Request

_WorkOfTorch: Any = torch._C._distributed_c10d.Work
DistBackendError = getattr(dist, "DistBackendError", RuntimeError)  # since torch 2.0


def milliseconds(timeout: Optional[timedelta]) -> int:
    """A time-out of torch's; 0 where none was given, which torch says with None, zero or less."""
    if timeout is None:
        return 0
    return max(0, int(timeout.total_seconds() * 1000))


# How long what has begun may take to end when a wait gives it up.
GRACE_SECONDS = 5.0


def _ends_after_all(request: Request) -> bool:
    """Withdraw it. False if that was done, and nothing meets it any more, or if it does not end."""
    request.cancel()
    try:
        request.wait(GRACE_SECONDS)
    except (HalayError, TimeoutError):
        pass
    return request.poll() and not isinstance(request.error(), CanceledError)


class Work(_WorkOfTorch):
    """
    What the collectives return.

    finish: what is left to do with the data when they are there, on the thread that sees it first. ranks: of a receive,
    the group's members, as ranks of the context.
    """

    def __init__(
        self,
        request: Request,
        outputs: Any,
        what: str,
        finish: Optional[Callable[[], Any]] = None,
        ranks: Sequence[int] = (),
    ) -> None:
        super().__init__()
        self._request: Optional[Request] = request
        self._outputs, self._what, self._finish, self._ranks = outputs, what, finish, ranks
        self._source = -1
        self._error: Optional[Exception] = None
        self._future: Any = None
        self._promise: Any = None
        self._lock = threading.Lock()

    def _end(self) -> None:
        """The request has ended: take note of it, once."""
        with self._lock:
            request = self._request
            if request is None:
                return
            error = request.error()
            if error is not None:
                # Programs look for the word.
                late = "its timeout is over: " if isinstance(error, HalayTimeoutError) else ""
                self._error = DistBackendError(f"halay: {self._what}: {late}{error}")
                self._error.__cause__ = error
            else:
                self._take_result(request)
            self._request = self._finish = request._keep = None  # the request itself may live on in its slot
            promise, self._promise = self._promise, None
        if promise is not None:
            promise.set_result(self)

    def _take_result(self, request: Request) -> None:
        if self._ranks and request.peer is not None:
            self._source = self._ranks.index(request.peer)
        if self._finish is not None:
            try:
                self._finish()
            except Exception as failure:
                self._error = failure

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Block until it has ended. DistBackendError: what went wrong, which ranks. What is late is withdrawn."""
        request = self._request
        if request is not None:
            seconds = milliseconds(timeout) / 1000
            try:
                request.wait(seconds or None)
            except HalayError:
                pass  # _end takes note of it
            except TimeoutError:
                if not _ends_after_all(request):
                    text = f"halay: {self._what}: timed out, it was given {seconds} s to end"
                    raise DistBackendError(text) from None
            self._end()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        request = self._request
        if request is not None and request.poll():
            self._end()
        return self._request is None

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error if self.is_completed() else None

    def result(self) -> List[torch.Tensor]:
        return self._outputs

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A future of the output tensors. C++ code that waits for it gets errors as errors."""
        if self._future is None:
            promise = torch.futures.Future()
            # An exception that is *set* is a value to C++. One that a callback raises is an error there, too.
            self._future = promise.then(_unwrap)
            with self._lock:
                request = self._request
                if request is not None:
                    self._promise = promise
            if request is None:
                promise.set_result(self)
            else:
                request.add_done_callback(lambda _: self._end())
        return self._future


def _unwrap(future: Any) -> Any:
    work = future.value()
    if work._error is not None:
        raise work._error
    return work._outputs


class Together(_WorkOfTorch):
    """Several works as one. finish: what is left to do when all have ended."""

    def __init__(self, works: List[Work], outputs: Any, finish: Optional[Callable[[], Any]] = None) -> None:
        super().__init__()
        self._works, self._outputs, self._finish = works, outputs, finish
        self._lock = threading.Lock()

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Block until all have ended."""
        for work in self._works:
            work.wait(timeout)
        with self._lock:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not all(work.is_completed() for work in self._works):
            return False
        if self._finish is not None and self.exception() is None:
            self.wait()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[Exception]:
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def result(self) -> List[torch.Tensor]:
        return self._outputs

    def get_future(self) -> Any:
        def all_have_ended(futures: Any) -> Any:
            self.wait()  # raises what went wrong
            return self._outputs

        return torch.futures.collect_all([work.get_future() for work in self._works]).then(all_have_ended)
