# SPDX-License-Identifier: Apache-2.0
"""
One submission as torch.distributed sees it: a Work, and the future that belongs to it.

A program that waits drives halay's engine itself. For a future no thread waits: one of the context's completes it, and
calls its callbacks. They may wait for futures of their own.
"""

import itertools
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from ..buffers import current_stream
from ..errors import CanceledError, HalayError
from ..errors import TimeoutError as HalayTimeoutError
from ..request import Request

_WorkOfTorch: Any = torch._C._distributed_c10d.Work
_FutureOfTorch: Any = torch.futures.Future
DistBackendError = getattr(dist, "DistBackendError", RuntimeError)  # since torch 2.0


def milliseconds(timeout: Optional[timedelta]) -> int:
    """A time-out of torch's; 0 where none was given, for which torch has None, zero or less."""
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


class Lineage:
    """
    Names for what the callbacks of a future submit. When they run, and on which thread, differs between ranks; the
    future that they belong to does not. NAME.0 is the first callback of NAME's future, NAME.0:2 its third submission.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._callbacks, self._submissions = itertools.count(), itertools.count()

    def next_callback(self) -> "Lineage":
        return Lineage(f"{self.name}.{next(self._callbacks)}")

    def next_submission(self) -> str:
        return f"{self.name}:{next(self._submissions)}"


class _Current(threading.local):
    lineage: Optional[Lineage] = None


_current = _Current()


def current_lineage() -> Optional[Lineage]:
    """That of the callback which this thread runs; None outside of one."""
    return _current.lineage


class _Failure:
    """
    The value of a future that failed. Torch raises the exception where Python reads the future; DDP's reducer reads the
    value in C++, and would report that it is not a tensor. It asks for the value's class first, which raises, too; an
    AttributeError there would be taken for the lack of a class.

    is_searched: torch pickles it first, to look for tensors, as it does with the values of a GPU's futures. Until that
    is done, the class does not raise.
    """

    def __init__(self, exception: BaseException, is_searched: bool) -> None:
        self._exception, self._is_searched = exception, is_searched

    def __repr__(self) -> str:
        return f"failed: {self._exception!r}"

    def __reduce_ex__(self, _: Any) -> Any:
        self._is_searched = False
        return str, ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        if self._is_searched:
            return _Failure
        if isinstance(self._exception, AttributeError):
            raise RuntimeError(f"a callback has raised {self._exception!r}") from self._exception
        raise self._exception


def future_devices(*streams: Any) -> Optional[List[torch.device]]:
    """The devices of a future of tensors: a wait for tensors on a GPU follows the GPU's streams. None is
    main memory, which may be beside them."""
    return list(dict.fromkeys(stream.device for stream in streams if stream is not None)) or None


class Outcome(_FutureOfTorch):
    """A future for Python, whose callbacks submit under names of their own."""

    def __init__(self, lineage: Optional[Lineage], devices: Optional[List[torch.device]] = None) -> None:
        super().__init__(devices=devices)
        self._lineage, self._devices = lineage, devices

    def settle(self, make: Callable[[], Any], lineage: Optional[Lineage] = None) -> None:
        """It has the value that make() returns, or the exception that it raises."""
        before, _current.lineage = _current.lineage, lineage
        try:
            value, failure = make(), None
        except Exception as raised:
            failure = raised
        except BaseException as raised:  # SystemExit, KeyboardInterrupt: this thread is not theirs to end
            failure = RuntimeError(f"a callback has raised {raised!r}")
            failure.__cause__ = raised
        finally:
            _current.lineage = before
        if failure is not None:
            self.set_exception(failure)
        else:
            self.set_result(value)

    def set_exception(self, exception: BaseException) -> None:
        def fail(_: Any) -> None:
            raise exception

        self._set_unwrap_func(fail)
        self.set_result(_Failure(exception, self._devices is not None))

    def then(self, callback: Callable[[Any], Any]) -> "Outcome":
        lineage = self._lineage and self._lineage.next_callback()
        made = Outcome(lineage, self._devices)
        super().add_done_callback(lambda _: made.settle(lambda: callback(self), lineage))
        return made

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        lineage = self._lineage and self._lineage.next_callback()

        def call(_: Any) -> None:
            before, _current.lineage = _current.lineage, lineage
            try:
                callback(self)
            finally:
                _current.lineage = before

        super().add_done_callback(call)


class Work(_WorkOfTorch):
    """
    What the collectives return.

    finish: what is left to do with the data when they are there, on the thread that sees it first. ranks: of a receive,
    the group's members, as ranks of the context. value: what a future of Python's has instead of outputs.

    Of tensors on a GPU wait() lets the current stream follow the result, as NCCL's does, but first waits until the data
    are there on all ranks; is_completed() and futures are about the result itself.
    """

    def __init__(
        self,
        request: Request,
        outputs: Any,
        what: str,
        finish: Optional[Callable[[], Any]] = None,
        ranks: Sequence[int] = (),
        value: Optional[Callable[[], Any]] = None,
    ) -> None:
        super().__init__()
        self._request: Optional[Request] = request
        self._value = value
        self._outputs, self._what, self._finish, self._ranks = outputs, what, finish, ranks
        self._source = -1
        self._error: Optional[Exception] = None
        self._stream = request.stream  # that the request follows
        self._event: Any = None  # on a GPU: all that is to be done with the data is given to a stream
        self._name = request.name
        self._future: Any = None
        self._promise: Any = None
        self._lock = threading.Lock()

    def _end(self, is_there: bool) -> None:
        """The request has ended (is_there), or the current stream follows it: take note of it, once."""
        with self._lock:
            request = self._request
            if request is None:
                return
            error = request.error()
            if error is not None:
                self._error = self._named(error)
            else:
                self._take_result(request, is_there)
            self._request = self._finish = request._keep = None  # the request itself may live on in its slot
            promise, self._promise = self._promise, None
        if promise is not None:
            promise.set_result(self._value_of_end())

    def _named(self, error: Exception) -> Exception:
        """What the program gets for an error of the engine's, which does not know the collective's name."""
        if not isinstance(error, HalayError):
            return error
        late = "its timeout is over: " if isinstance(error, HalayTimeoutError) else ""  # programs look for the word
        made: Exception = DistBackendError(f"halay: {self._what}: {late}{error}")
        made.__cause__ = error
        return made

    def _value_of_end(self) -> Any:
        """On a GPU torch looks for the tensors in a future's value, by pickling it, and records the streams that make
        them."""
        return self._outputs if self._error is None else None

    def _take_result(self, request: Request, is_there: bool) -> None:
        if self._ranks and request.peer is not None:
            self._source = self._ranks.index(request.peer)
        if self._finish is not None:
            try:
                self._finish()
            except Exception as failure:
                self._error = self._named(failure)
        if self._stream is not None and not (is_there and self._finish is None):
            now = torch.cuda.current_stream(self._stream.device)
            self._event = now.record_event()
            if now.cuda_stream != self._stream.cuda_stream:  # whose memory may be given out again now
                self._stream.wait_event(self._event)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Block until it has ended. DistBackendError: what went wrong, which ranks. What is late is withdrawn."""
        request = self._request
        if request is not None:
            seconds = milliseconds(timeout) / 1000
            try:
                if self._stream is None:
                    request.wait(seconds or None)
                else:
                    request.wait_stream(current_stream(self._stream.device), seconds or None)
            except HalayError:
                pass  # _end takes note of it
            except TimeoutError:
                if not _ends_after_all(request):
                    text = f"halay: {self._what}: timed out, it was given {seconds} s to end"
                    raise DistBackendError(text) from None
            self._end(self._stream is None)
        self._follow()
        if self._error is not None:
            raise self._error
        return True

    def _follow(self) -> None:
        """The current stream follows what has been done with the data since the request ended."""
        if self._event is not None:
            torch.cuda.current_stream(self._stream.device).wait_event(self._event)

    def synchronize(self) -> None:
        self.wait()

    def _has_ended(self) -> bool:
        request = self._request
        if request is not None and request.poll():
            self._end(True)
        return self._request is None

    def is_completed(self) -> bool:
        return self._has_ended() and (self._event is None or bool(self._event.query()))

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[Exception]:
        return self._error if self._has_ended() else None

    def result(self) -> List[torch.Tensor]:
        return self._outputs

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def _ended(self) -> Any:
        """A future of this work itself, one as long as it has not ended."""
        with self._lock:
            request, promise = self._request, self._promise
            if promise is not None:
                return promise
            promise = torch.futures.Future(devices=future_devices(self._stream))
            if request is not None:
                self._promise = promise
        if request is None:
            self._follow()
            promise.set_result(self._value_of_end())
        else:
            request.add_done_callback(lambda _: self._end(True))
        return promise

    def _results(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._outputs

    def _results_for_python(self) -> Any:
        results = self._results()
        return results if self._value is None else self._value()

    def get_future(self) -> Any:
        """A future of the output tensors."""
        if self._future is None:
            lineage = Lineage(self._name) if self._name else None
            self._future = made = Outcome(lineage, future_devices(self._stream))
            self._ended().add_done_callback(lambda _: made.settle(self._results_for_python))
        return self._future

    def as_work_of_torch(self) -> Any:
        """For C++, which then gets errors as errors: an exception that is *set* is a value there, one that a callback
        raises is not."""
        return torch._C._distributed_c10d._create_work_from_future(self._ended().then(lambda _: self._results()))


class Together(_WorkOfTorch):
    """Several works as one. finish: what is left to do when all have ended."""

    def __init__(self, works: List[Work], outputs: Any, finish: Optional[Callable[[], Any]] = None) -> None:
        super().__init__()
        self._works, self._outputs, self._finish = works, outputs, finish
        self._error: Optional[Exception] = None  # of finish
        self._future: Any = None
        self._events: Dict[torch.device, Any] = {}  # on GPUs: finish is given to a stream
        self._lock = threading.Lock()

    def _end(self) -> None:
        """All have ended, or the current streams follow them: finish, once."""
        with self._lock:
            if self._finish is None:
                return
            try:
                self._finish()
            except Exception as failure:
                self._error = failure
            for stream in [work._stream for work in self._works if work._stream is not None]:
                if stream.device not in self._events:
                    self._events[stream.device] = torch.cuda.current_stream(stream.device).record_event()
                stream.wait_event(self._events[stream.device])  # its memory may be given out again now
            self._finish = None

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Block until all have ended."""
        for work in self._works:
            work.wait(timeout)
        self._end()
        for device, event in self._events.items():
            torch.cuda.current_stream(device).wait_event(event)
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not all(work.is_completed() for work in self._works):
            return False
        if self._finish is not None and self.exception() is None:
            self._end()
        return all(event.query() for event in self._events.values())

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Optional[Exception]:
        return self._error or next((work.exception() for work in self._works if work.exception() is not None), None)

    def result(self) -> List[torch.Tensor]:
        return self._outputs

    def _ended(self) -> Any:
        return torch.futures.collect_all([work._ended() for work in self._works])

    def _results(self) -> Any:
        self.wait()  # raises what went wrong
        return self._outputs

    def get_future(self) -> Any:
        """A future of the output tensors."""
        if self._future is None:
            first = self._works[0] if self._works else None
            lineage = Lineage(first._name) if first and first._name else None
            self._future = made = Outcome(lineage, future_devices(*[work._stream for work in self._works]))
            self._ended().add_done_callback(lambda _: made.settle(self._results))
        return self._future

    def as_work_of_torch(self) -> Any:
        """As that of Work."""
        return torch._C._distributed_c10d._create_work_from_future(self._ended().then(lambda _: self._results()))
