# SPDX-License-Identifier: Apache-2.0
"""The context, a process's membership in a job, and what can be done in it."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
import time
import warnings
import weakref
from collections import deque
from types import TracebackType
from typing import (
    TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type,
    Union,
)  # fmt: skip

from . import buffers
from ._library import (
    LOG,
    Counters,
    Member,
    Options,
    ProcessSetInfo,
    RankList,
    Result,
    TensorInfo,
    UniqueId,
    held,
    last_error,
    lib,
    read_context,
    scatter_rows,
)
from .call_options import (
    CallOptions,
    DeviceOptions,
    ReduceOptions,
    ReduceRowOptions,
    RowOptions,
    UnnamedReduceOptions,
)
from .constants import ITEM_SIZES, Collective, DType, Reduction, Status, Wire
from .errors import ClosedError, DuplicateError, HalayError, UnsupportedError, error
from .rendezvous import Rendezvous
from .rendezvous import default as default_rendezvous
from .request import Finish, Request, Tensor, _unread, note_sender
from .start import begin
from .watcher import Watcher

if TYPE_CHECKING:  # of Python 3.12; no need of the package
    from typing_extensions import Unpack

# How long close() waits for threads that are in a call that does not end: no longer than for the other ranks.
CLOSE_SECONDS = 5.0
_DEVICE, _DEVICES = 1, 2  # HALAY_MEMORY_DEVICE, HALAY_MEMORY_DEVICES

_OPTIONS = (
    "name", "reduction", "root", "prescale", "postscale", "wire", "priority", "on_devices", "splits", "process_set",
    "timeout",
)  # fmt: skip

_OK = int(Status.OK)
_IN_PROGRESS = int(Status.IN_PROGRESS)
_info_size = ctypes.sizeof(TensorInfo)

_reductions: Dict[Any, int] = {one.name.lower().replace("_", "-"): int(one) for one in Reduction}
_wires: Dict[Any, int] = {"as-is": 0, "f16": 1, "bf16": 2, None: 0}


# The longest time-out there is, 24 days.
_MILLISECONDS_MAX = 2**31 - 1


def _encode(name: str) -> bytes:
    """A name as the library takes it, which would end at a NUL."""
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {type(name).__qualname__}")
    if "\0" in name:
        raise ValueError(f"a name has no NUL: {name!r}")
    return name.encode()


def _number(kind: str, known: Dict[Any, int], given: Any) -> int:
    """The number of a reduction or a wire type, which is given as such or by its name."""
    if isinstance(given, int):
        return int(given)
    if given not in known:
        raise ValueError(f"there is no {kind} {given!r}: there are {', '.join(name for name in known if name)}")
    return known[given]


def _dtype(given: Union[DType, str, int]) -> DType:
    """An element type, which is given as such or by its name."""
    try:
        return DType[given.upper()] if isinstance(given, str) else DType(given)
    except (KeyError, ValueError):
        names = ", ".join(one.name.lower() for one in DType)
        raise ValueError(f"unknown element type {given!r}; expected {names}") from None


def _milliseconds(timeout: Optional[float]) -> int:
    """A time-out in seconds as the library takes it; 0: no time-out."""
    return 0 if timeout is None else max(1, int(min(timeout * 1000 + 0.999, _MILLISECONDS_MAX)))


def _factor(what: str, value: Optional[float]) -> float:
    """A factor as the library takes it; 0: no factor."""
    if value is not None and value == 0:
        raise ValueError(f"{what} is 0; expected another factor, or None for none")
    return 0.0 if value is None else value


def _wait_or_cancel(request: Request) -> Any:
    """Wait, and take it back if that is interrupted."""
    try:
        return request.wait()
    except BaseException:
        if not request.poll():
            request.cancel()
        raise


def _check_id(given: bytes) -> bytes:
    """An id as halay.unique_id() makes it."""
    if not isinstance(given, (bytes, bytearray)):
        raise TypeError(f"a unique id is bytes, not {type(given).__qualname__}")
    if len(given) != ctypes.sizeof(UniqueId):
        raise ValueError(f"a unique id has {ctypes.sizeof(UniqueId)} bytes, and this one {len(given)}")
    return given


def _int32(what: str, value: int) -> int:
    """The value, if it fits in C's int: ctypes would cut it without a word."""
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an int, not {type(value).__qualname__}")
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{what} is {value}, which is out of range")
    return value


class ProcessSet:
    """Some ranks of the job; Context.process_set makes one. Operations with process_set=... are of its members."""

    def __init__(self, ctx: "Context", pointer: int) -> None:
        self._ctx = ctx
        self._p = pointer
        with ctx._lock:
            ctx._open()
            info = ProcessSetInfo(ctypes.sizeof(ProcessSetInfo))
            held.halay_process_set_read(pointer, ctypes.byref(info))
            ranks = (ctypes.c_int * info.size)()
            info.ranks, info.room = ranks, info.size
            held.halay_process_set_read(pointer, ctypes.byref(info))
        self.number: int = info.number
        self.size: int = info.size
        self.rank: int = info.rank
        self.ranks: Tuple[int, ...] = tuple(ranks)

    @property
    def included(self) -> bool:
        """Whether this process is a member."""
        return self.rank >= 0

    def remove(self, timeout: Optional[float] = None) -> None:
        """
        Remove it, together with the other members: nothing may be in flight in it. timeout: seconds after which it is
        given up on all of them, with TimeoutError of halay's, and the set stays.
        """
        ctx = self._ctx
        place = ctypes.c_void_p()
        with ctx._lock:
            ctx._open()
            status = held.halay_process_set_remove_async(self._p, _milliseconds(timeout), ctypes.byref(place))
            if status:
                raise last_error(status, f"remove process set {self.number}")
        _wait_or_cancel(Request(ctx, place.value, None, None, None, None))  # type: ignore[arg-type]


class _Memory:
    """Memory of halay_alloc, which lives as long as this does, also when the context is closed."""

    __slots__ = ("_handle", "address")

    _release = held.halay_memory_release

    def __init__(self, ctx: "Context", size: int) -> None:
        self._handle = ctypes.c_void_p()
        place = ctypes.c_void_p()
        with ctx._lock:
            status = held.halay_alloc(ctx._open(), size, ctypes.byref(place))
            if status == _OK:
                status = held.halay_memory_retain(ctx._p, place, ctypes.byref(self._handle))
                held.halay_free(ctx._p, place)  # when the reference is gone, too
            if status:
                raise last_error(status, f"allocate {size} bytes")
        self.address: int = place.value or 0

    def __del__(self) -> None:
        self._release(self._handle)


class _Prepared(NamedTuple):
    """A description of a submission, with what it points at."""

    info: TensorInfo
    name: str
    keep: Any
    out: Any
    finish: Optional[Finish]


class Context:
    """
    This process's membership in a job. Started by halayrun or mpirun it finds the other ranks, started alone it is a
    job of one; waits for the others, HALAY_START_TIMEOUT seconds at most, and Ctrl-C works meanwhile. Use it in a
    `with` statement, or call close().

    bootstrap, transport, join_average: as in struct halay_options. process_sets: lists of ranks, the same on all ranks.
    settings: variables of halay-environment(7) for this context alone, like {"HALAY_SPIN_US": 0}. rendezvous: how the
    ranks meet over a key-value store of the program's own, whatever started this process. unique_id: they meet by the
    id that one of them has made (halay.unique_id), each with its own rank, of size ranks.
    log: is called with a level (0: error, 1: warning, 2: info, 3: debug) and a line, from any thread; lines go to
    standard error without it. What is raised after the start is logged at level info, what ends the job as an error.

    Operations may be called from any thread. Each has a name, by which the ranks match what they submit; without one
    they are numbered, and all ranks must call them in the same order. The data may be NumPy arrays, PyTorch tensors, or
    anything with the buffer protocol; they are not copied. They may lie on a CUDA device (`__cuda_array_interface__`,
    DLPack), if halay has its module for those: an operation follows the work that the stream of the arrays already has,
    of PyTorch the current one. Results for devices are PyTorch's, CuPy's, JAX's or Numba's; others need an out.
    """

    def __init__(
        self,
        *,
        bootstrap: Optional[str] = None,
        transport: Optional[str] = None,
        process_sets: Sequence[Sequence[int]] = (),
        join_average: Optional[str] = None,
        settings: Optional[Mapping[str, object]] = None,
        rendezvous: Optional[Rendezvous] = None,
        unique_id: Optional[bytes] = None,
        rank: int = 0,
        size: int = 0,
        log: Optional[Callable[[int, str], None]] = None,
    ) -> None:
        self._p: Optional[int] = None
        self._gone = ""  # why the context has ended
        self._lock = threading.RLock()  # guards _p, _users, _orphans; also taken by __del__ at any time
        self._users = 0  # threads that are in a call that other threads of Python don't wait for
        self._orphans: Deque[Tuple[int, Any]] = deque()
        self._watcher: Optional[Watcher] = None
        self._at_close: List[Callable[[], object]] = []
        self._unnamed = itertools.count()
        options = _options(process_sets, settings, bootstrap=bootstrap, transport=transport, join_average=join_average)
        self._log = options.log = _writer(log) if log else LOG(0)
        if not (rendezvous or unique_id or bootstrap):
            rendezvous = default_rendezvous()
        _set_meeting(options, rendezvous, unique_id, rank, size)
        try:
            self._p = place = begin(options)
        except HalayError:
            if rendezvous and rendezvous.failure:
                raise rendezvous.failure
            raise
        info = read_context(place)
        self.rank: int = info.rank
        self.size: int = info.size
        self.local_rank: int = info.local_rank
        self.local_size: int = info.local_size
        self.cross_rank: int = info.cross_rank
        self.cross_size: int = info.cross_size
        self.is_homogeneous: bool = bool(info.is_homogeneous)
        _contexts.add(self)

    # ---- life ----

    def close(self) -> None:
        """
        Leave the job. What is in flight ends; ranks that still wait for this one get PeerError. Waits at most 5 s for
        the other ranks. Nothing happens at a second call.
        """
        with self._lock:
            pointer, self._p = self._p, None
            if not pointer:
                return
            self._gone = "the context was closed"
        deadline = time.monotonic() + CLOSE_SECONDS
        while self._users and time.monotonic() < deadline:  # they leave within a slice
            time.sleep(0.001)
        if self._watcher:
            self._watcher.stop()
        if self._users:  # its memory is theirs; the end of the process frees it
            warnings.warn("a thread is still in a call of halay's: the context is left as it is", RuntimeWarning, 2)
            return
        for call in self._at_close:
            call()
        lib.halay_fini(pointer)
        self._orphans.clear()
        if self._watcher:
            self._watcher.finish(CLOSE_SECONDS)

    def __enter__(self) -> "Context":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_p", None):
            self.close()

    def _open(self) -> int:
        """The context's pointer; ClosedError once it has ended."""
        if not self._p:
            text = self._gone or "the context is not open"
            if "fork" in text:
                raise UnsupportedError(text, Status.UNSUPPORTED)
            raise ClosedError(text, Status.CLOSED)
        return self._p

    def _call(self, function: Any, *arguments: Any) -> int:
        """Call something that may take its time; the context is not closed meanwhile."""
        users = 0
        try:  # Ctrl-C may come between any two calls
            with self._lock:
                self._open()
                users = 1
                self._users += 1
            return int(function(*arguments) or 0)
        finally:
            with self._lock:
                self._users -= users

    def _after_fork(self) -> None:
        self._lock = threading.RLock()
        self._users = 0
        if self._p:
            self._p, self._gone = None, "a child of fork has no context: make one, or use it in the parent only"
        if self._watcher:
            self._watcher.after_fork()
            self._watcher = None

    def _reap(self) -> None:
        """Let go of some requests that the program has forgotten and that have ended. The lock is held."""
        orphans = self._orphans
        for _ in range(min(len(orphans), 4)):
            pointer, keep = orphans.popleft()
            # Not halay_test: a test is a wait in the deterministic modes.
            if held.halay_request_result(pointer, _unread) == _IN_PROGRESS:
                orphans.append((pointer, keep))
            else:
                held.halay_request_free(pointer)

    def abort(self, reason: str = "") -> None:
        """
        Give up the job at once, for all ranks, from any thread: what is in flight ends here with CanceledError, on the
        others with PeerError, whose text has the rank and the reason. The context is good for close() only.
        """
        with self._lock:
            status = held.halay_abort(self._open(), reason.encode())
            if status:
                raise last_error(status, "abort")

    def check(self) -> None:
        """Raise what the engine has failed with, if it has."""
        text = ctypes.create_string_buffer(1024)
        status = self._call(held.halay_context_status, self._p, text, len(text))
        if status:
            raise error(status, text.value.decode(errors="replace"))

    # ---- submission ----

    def submit(self, collective: int, data: Any, out: Any = None, **options: Any) -> Request:
        """
        Submit an operation and return at once. The methods below say what there is; the options are theirs.

        data: what this rank gives, None for a barrier; out: where the result goes, None for a new array.
        """
        return self._submit(self._prepare(collective, data, out, **options))

    def register(self, collective: int, data: Any, out: Any = None, *, name: str, **options: Any) -> Tensor:
        """Describe an operation once, to be submitted again and again: Tensor.submit. Every rank does the same."""
        info, name, keep, out, finish = self._prepare(collective, data, out, name=name, **options)
        return Tensor(self, info, name, keep, out, finish)

    def register_group(
        self,
        data: Sequence[Any],
        out: Optional[Sequence[Any]] = None,
        *,
        name: str,
        **options: Unpack[UnnamedReduceOptions],
    ) -> Tensor:
        """The same for an all-reduce of several arrays as one (allreduce_group)."""
        info, name, keep, made, finish = self._prepare_group(data, out, name=name, **options)
        return Tensor(self, info, name, keep, made, finish)

    def register_send(self, data: Any, peer: int, tag: int = 0, **options: Unpack[CallOptions]) -> Tensor:
        """The same for a send to one rank (send), by name or by tag. The peer may receive it either way."""
        return Tensor(self, *self._prepare_message(Collective.SEND, data, peer, tag, **options))

    def register_receive(self, data: Any, peer: int, tag: int = 0, **options: Unpack[CallOptions]) -> Tensor:
        """The same for a receive, into data."""
        return Tensor(self, *self._prepare_message(Collective.RECEIVE, data, peer, tag, **options))

    def _submit(self, prepared: _Prepared) -> Request:
        info, name, keep, out, finish = prepared
        place = ctypes.c_void_p()
        with self._lock:
            status = held.halay_submit_named(self._open(), ctypes.byref(info), None, None, ctypes.byref(place))
            if status:
                raise last_error(status, "submit", name)
            if self._orphans:
                self._reap()
            return Request(self, place.value, name, keep, out, finish)  # type: ignore[arg-type]

    def _name(self, collective: int, name: Optional[str]) -> str:
        if name is not None:
            return name
        return f"{Collective(collective).name.lower()}.noname.{next(self._unnamed)}"

    def _describe(
        self,
        collective: int,
        *,
        name: Optional[str] = None,
        reduction: Union[Reduction, str] = Reduction.SUM,
        root: int = 0,
        prescale: Optional[float] = None,
        postscale: Optional[float] = None,
        wire: Union[Wire, str, None] = None,
        priority: int = 0,
        on_devices: bool = False,
        process_set: Optional[ProcessSet] = None,
        timeout: Optional[float] = None,
        **unknown: Any,
    ) -> Tuple[TensorInfo, str]:
        """What does not depend on the data."""
        if unknown:
            what = Collective(collective).name.lower()
            raise TypeError(f"{what}: unknown option '{next(iter(unknown))}'; expected {', '.join(_OPTIONS)}")
        name = self._name(collective, name)
        info = TensorInfo(_info_size, _encode(name), collective)
        info.reduction = _number("reduction", _reductions, reduction)
        info.root, info.priority = _int32("root", root), _int32("priority", priority)
        info.prescale, info.postscale = _factor("prescale", prescale), _factor("postscale", postscale)
        info.wire = _number("wire type", _wires, wire)
        info.memory = _DEVICES if on_devices else 0
        info.timeout_ms = _milliseconds(timeout)
        if process_set is not None:
            info.set = process_set._p
        return info, name

    def _prepare(
        self,
        collective: int,
        data: Any,
        out: Any = None,
        *,
        splits: Optional[Sequence[int]] = None,
        process_set: Optional[ProcessSet] = None,
        **options: Any,
    ) -> _Prepared:
        """Describe an operation on one array. Makes an array for the result where the program gives none."""
        info, name = self._describe(collective, process_set=process_set, **options)
        if collective == Collective.BARRIER:
            return _Prepared(info, name, None, None, None)
        if collective in (Collective.REDUCE, Collective.GATHER, Collective.SCATTER):
            return self._prepare_rooted(info, name, data, out, splits, process_set)
        given = buffers.describe(data, writable=out is data or collective == Collective.BROADCAST)
        _check_rows(collective, given)
        if out is data and collective in (Collective.REDUCE_SCATTER, Collective.ALLTOALL):  # where some ranks take it
            raise ValueError("cannot be in place: pass another out, or none")
        _set_shape(info, given)
        keep: List[Any] = [given.owner]
        size, rank = (process_set.size, process_set.rank) if process_set else (self.size, self.rank)
        if splits is not None:
            keep.append(_set_splits(info, splits, size))
        finish, is_new = None, out is None and collective != Collective.BROADCAST
        if collective == Collective.BROADCAST:
            out = data
        elif out is None:
            out = buffers.empty(data, _result_shape(collective, given, splits, size, rank))
        if collective in (Collective.ALLGATHER, Collective.ALLTOALL):
            finish = _finisher(data, given, out, size)
        info.in_ = given.address
        placed = given if out is data else buffers.describe(out, True, is_new)
        _set_device(info, (given, placed))
        _set_out(info, given, placed, _room_needed(collective, given, splits, size, rank))
        keep.append(placed.owner)
        return _Prepared(info, name, keep, out, finish)

    def _prepare_rooted(
        self,
        info: TensorInfo,
        name: str,
        data: Any,
        out: Any,
        splits: Optional[Sequence[int]],
        process_set: Optional[ProcessSet],
    ) -> _Prepared:
        """Describe a reduce, gather or scatter: what is the root's alone is left out on the others."""
        collective, is_root = info.collective, info.root == self.rank
        size, rank = (process_set.size, process_set.rank) if process_set else (self.size, self.rank)
        like = out if data is None else data
        if like is None:
            raise ValueError("there are neither data nor out to tell the type and the shape of a row")
        given = buffers.describe(like, writable=out is like)
        _check_rows(collective, given)
        _set_shape(info, given)
        keep: List[Any] = [given.owner]
        if is_root or collective != Collective.SCATTER:
            if data is None:
                raise ValueError("no data were given")
            info.in_ = given.address
            _set_device(info, (given,))
        if splits is not None:
            keep.append(_set_splits(info, splits, size))
        is_new = out is None
        if not is_root and collective != Collective.SCATTER:
            out = None
        elif out is None and is_root:
            out = buffers.empty(like, _result_shape(collective, given, splits, size, rank))
        if out is not None:
            placed = given if out is like else buffers.describe(out, True, is_new)
            _set_device(info, (placed,))
            _set_out(info, given, placed, _room_needed(collective, given, splits, size, rank))
            keep.append(placed.owner)
        finish = None
        if collective != Collective.REDUCE:
            finish = _finisher(like, given, out, size, is_root or collective == Collective.SCATTER)
        return _Prepared(info, name, keep, out, finish)

    def _prepare_group(self, data: Sequence[Any], out: Optional[Sequence[Any]], **options: Any) -> _Prepared:
        """Describe an all-reduce of several arrays as one."""
        info, name = self._describe(Collective.ALLREDUCE, **options)
        given = [buffers.describe(array, writable=out is data) for array in data]
        made = [buffers.empty(array, buffer.shape) for array, buffer in zip(data, given)] if out is None else out
        if len(made) != len(given):
            raise ValueError(f"{len(made)} arrays for the results of {len(given)}")
        placed = given if out is data else [buffers.describe(array, True, out is None) for array in made]
        _set_device(info, [*given, *placed])
        members = (Member * len(given))()
        for member, source, target in zip(members, given, placed):
            if source.dtype != target.dtype or buffers.nbytes(source) != buffers.nbytes(target):
                raise ValueError("an array for a result differs in type or size from the data")
            shape = buffers.flatten(source.shape)
            member.in_, member.out, member.dtype, member.dimensions = (
                source.address, target.address, source.dtype, len(shape))  # fmt: skip
            member.shape[: len(shape)] = shape
        info.members, info.member_count, info.member_bytes = members, len(given), ctypes.sizeof(Member)
        return _Prepared(info, name, (members, given, placed), list(made), None)

    def submit_many(self, tensors: Sequence[Tensor]) -> List[Request]:
        """Submit several registered tensors in this order: all, or none with an error. Cheaper than one by one."""
        count = len(tensors)
        places = (ctypes.c_void_p * count)()
        with self._lock:
            self._open()
            handles = (ctypes.c_void_p * count)(*[tensor._handle() for tensor in tensors])
            status = held.halay_submit_many(handles, count, None, None, places)
            if status:
                raise last_error(status, "submit")
            if self._orphans:
                self._reap()
            return [tensor._request(place) for tensor, place in zip(tensors, places)]

    def _prepare_message(self, collective: int, data: Any, peer: int, tag: int, **options: Any) -> _Prepared:
        """Describe a send or a receive."""
        name = options.get("name")
        options["name"] = name or ""
        info, _ = self._describe(collective, **options)
        if name is None:
            info.name = None
        placed = buffers.describe(data, writable=collective == Collective.RECEIVE)
        _set_shape(info, placed)
        _set_device(info, (placed,))
        info.in_ = info.out = placed.address
        info.peer, info.tag = _int32("peer", peer), tag
        finish = note_sender if collective == Collective.RECEIVE else None
        return _Prepared(info, name or f"tag {tag}", placed.owner, data, finish)

    # ---- operations ----

    def allreduce_async(self, data: Any, out: Any = None, **options: Unpack[ReduceOptions]) -> Request:
        """
        Every element reduced over all ranks; out=data: in place.

        name; reduction: "sum", "average", "min", "max", "product", "bit-and", "bit-or", "adasum", or a Reduction;
        prescale, postscale: factors before and after it; wire: "f16" or "bf16", what float32 travels as;
        on_devices=True: the data are on a CUDA device on every rank, and every rank gives this; devices of a host then
        reduce among themselves where they reach each other's memory (broadcast, all-gather, reduce-scatter, too);
        priority: the higher goes first; process_set; timeout: seconds after which it is withdrawn on all ranks, with
        TimeoutError of halay's.
        """
        return self.submit(Collective.ALLREDUCE, data, out, **options)

    def allreduce(self, data: Any, out: Any = None, **options: Unpack[ReduceOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.allreduce_async(data, out, **options).wait()

    def allreduce_group_async(
        self, data: Sequence[Any], out: Optional[Sequence[Any]] = None, **options: Unpack[ReduceOptions]
    ) -> Request:
        """An all-reduce of several arrays as one, which start and end together. The result is a list."""
        return self._submit(self._prepare_group(data, out, **options))

    def allreduce_group(
        self, data: Sequence[Any], out: Optional[Sequence[Any]] = None, **options: Unpack[ReduceOptions]
    ) -> Any:
        """The same; waits, and returns the result."""
        return self.allreduce_group_async(data, out, **options).wait()

    def broadcast_async(self, data: Any, root: int = 0, **options: Unpack[DeviceOptions]) -> Request:
        """The root's data go to all ranks, into data. name, priority, process_set. root: a rank of the job."""
        return self.submit(Collective.BROADCAST, data, root=root, **options)

    def broadcast(self, data: Any, root: int = 0, **options: Unpack[DeviceOptions]) -> Any:
        """The same; waits, and returns data."""
        return self.broadcast_async(data, root, **options).wait()

    def allgather_async(self, data: Any, out: Any = None, **options: Unpack[DeviceOptions]) -> Request:
        """
        One rank's rows after the other's. Their numbers may differ between ranks: request.rows has them.

        name, priority, process_set. out, if given, must have room for all of them; the result is its first rows.
        """
        return self.submit(Collective.ALLGATHER, data, out, **options)

    def allgather(self, data: Any, out: Any = None, **options: Unpack[DeviceOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.allgather_async(data, out, **options).wait()

    def reduce_scatter_async(self, data: Any, out: Any = None, **options: Unpack[ReduceRowOptions]) -> Request:
        """
        Every element reduced over all ranks, of which this rank gets its part of the rows.

        splits: rows of each rank's part, the same on all ranks; None: rows / size, the first rows % size ranks one
        more. name, reduction, prescale, postscale, priority, process_set.
        """
        return self.submit(Collective.REDUCE_SCATTER, data, out, **options)

    def reduce_scatter(self, data: Any, out: Any = None, **options: Unpack[ReduceRowOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.reduce_scatter_async(data, out, **options).wait()

    def alltoall_async(self, data: Any, out: Any = None, **options: Unpack[RowOptions]) -> Request:
        """
        Rows for each rank go to it; the result has rows from each rank, in order of rank (request.rows).

        splits: rows for each rank; None: as many for each. name, priority, process_set. out as in allgather_async.
        """
        return self.submit(Collective.ALLTOALL, data, out, **options)

    def alltoall(self, data: Any, out: Any = None, **options: Unpack[RowOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.alltoall_async(data, out, **options).wait()

    def reduce_async(self, data: Any, root: int = 0, out: Any = None, **options: Unpack[ReduceOptions]) -> Request:
        """
        Every element reduced over all ranks, for the root, a rank of the job; the others' result is None.

        name, reduction, prescale, postscale, priority, process_set. out: at the root, of the size of data, or data.
        """
        return self.submit(Collective.REDUCE, data, out, root=root, **options)

    def reduce(self, data: Any, root: int = 0, out: Any = None, **options: Unpack[ReduceOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.reduce_async(data, root, out, **options).wait()

    def gather_async(self, data: Any, root: int = 0, out: Any = None, **options: Unpack[CallOptions]) -> Request:
        """
        The rows of all ranks, one rank's after the other's, for the root, a rank of the job; the others' result is
        None. Each may give another number of rows, which all ranks then know (request.rows).

        name, priority, process_set. out: at the root, as in allgather_async.
        """
        return self.submit(Collective.GATHER, data, out, root=root, **options)

    def gather(self, data: Any, root: int = 0, out: Any = None, **options: Unpack[CallOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.gather_async(data, root, out, **options).wait()

    def scatter_async(self, data: Any, root: int = 0, out: Any = None, **options: Unpack[RowOptions]) -> Request:
        """
        The root's rows are dealt out; each rank's result is its part. root: a rank of the job.

        data: the rows, at the root. The others pass an array of the same type whose rows have the same shape, of which
        nothing else is looked at, or None if they have an out. splits: rows for each rank, which the root alone needs;
        None: rows / size, the first rows % size ranks one more. name, priority, process_set. out as in allgather_async.
        """
        return self.submit(Collective.SCATTER, data, out, root=root, **options)

    def scatter(self, data: Any, root: int = 0, out: Any = None, **options: Unpack[RowOptions]) -> Any:
        """The same; waits, and returns the result."""
        return self.scatter_async(data, root, out, **options).wait()

    def barrier_async(
        self, name: str = "barrier", process_set: Optional[ProcessSet] = None, timeout: Optional[float] = None
    ) -> Request:
        """Ends when all ranks have submitted it."""
        return self.submit(Collective.BARRIER, None, name=name, process_set=process_set, timeout=timeout)

    def barrier(
        self, name: str = "barrier", process_set: Optional[ProcessSet] = None, timeout: Optional[float] = None
    ) -> None:
        """Wait until all ranks have come."""
        self.barrier_async(name, process_set, timeout).wait()

    def send_async(self, data: Any, peer: int, tag: int = 0, **options: Unpack[CallOptions]) -> Request:
        """
        To the rank peer of the job, which must receive as many elements of this type. They meet by name; without one
        by tag, in order. name, process_set; timeout: seconds after which it is withdrawn, on this rank alone, with
        TimeoutError of halay's, if nothing has met it: it is as if it had never been submitted.
        """
        return self._submit(self._prepare_message(Collective.SEND, data, peer, tag, **options))

    def send(self, data: Any, peer: int, tag: int = 0, **options: Unpack[CallOptions]) -> None:
        """The same; waits, perhaps until the peer receives."""
        self.send_async(data, peer, tag, **options).wait()

    def receive_async(self, data: Any, peer: int, tag: int = 0, **options: Unpack[CallOptions]) -> Request:
        """
        From the rank peer of the job, or from halay.ANY_RANK, into data; request.peer is the sender. A receive from
        one rank goes before one from any. Otherwise as send_async.
        """
        return self._submit(self._prepare_message(Collective.RECEIVE, data, peer, tag, **options))

    def receive(self, data: Any, peer: int, tag: int = 0, **options: Unpack[CallOptions]) -> Any:
        """The same; waits, and returns data."""
        return self.receive_async(data, peer, tag, **options).wait()

    def join_async(self) -> Request:
        """
        This rank has no more data: it takes part in what the others submit with elements that change nothing, until
        all ranks have joined. The result is the rank that joined last.
        """
        place = ctypes.c_void_p()
        info = TensorInfo(_info_size, None, Collective.JOIN)
        with self._lock:
            status = held.halay_submit_named(self._open(), ctypes.byref(info), None, None, ctypes.byref(place))
            if status:
                raise last_error(status, "join")
            return Request(self, place.value, "join", None, None, _finish_join)  # type: ignore[arg-type]

    def join(self) -> int:
        """The same; waits, and returns the rank that joined last."""
        return int(self.join_async().wait())

    # ---- process sets ----

    def process_set_async(self, ranks: Sequence[int], timeout: Optional[float] = None) -> Request:
        """
        Make a set of these ranks, which call it, and others don't. The result is a ProcessSet, when all of them have
        called. DuplicateError: this rank has asked for the same ranks before, and that is under way.

        timeout: seconds after which it is given up on all of them, with TimeoutError of halay's, which names those that
        were missing; cancel() does so, too.
        """
        array = (ctypes.c_int * len(ranks))(*(_int32("a rank", rank) for rank in ranks))
        place = ctypes.c_void_p()
        with self._lock:
            status = held.halay_process_set_create_async(
                self._open(), array, len(ranks), _milliseconds(timeout), ctypes.byref(place)
            )
            if status:
                raise last_error(status, f"make a process set of ranks {list(ranks)}")
            return Request(self, place.value, None, None, None, _finish_set)  # type: ignore[arg-type]

    def process_set(self, ranks: Sequence[int], timeout: Optional[float] = None) -> ProcessSet:
        """
        The same; waits, and returns the set. Ctrl-C gives it up on all of them. Ranks that are in several sets make
        them in the same order, or wait for each other until the time is over.
        """
        while True:
            try:
                request = self.process_set_async(ranks, timeout)
            except DuplicateError:  # another thread makes one of these ranks
                time.sleep(0.001)
            else:
                made: ProcessSet = _wait_or_cancel(request)
                return made

    def process_sets(self) -> List[ProcessSet]:
        """All process sets that there are; the first has all ranks."""
        with self._lock:
            count = held.halay_process_set_numbers(self._open(), None, 0)
            numbers = (ctypes.c_int * count)()
            held.halay_process_set_numbers(self._p, numbers, count)
            return [ProcessSet(self, held.halay_process_set_find(self._p, number)) for number in numbers]

    # ---- memory ----

    def alloc(self, shape: Union[int, Sequence[int]], dtype: Union[DType, str] = DType.F32, kind: str = "numpy") -> Any:
        """
        A new array in memory that the ranks of this host reduce in place, without a copy. Contents undefined.

        dtype: a DType or its name ("f32", "bf16"); kind: "numpy", "torch", or "bytes" for a memoryview. The memory is
        freed with the last array over it.
        """
        number = _dtype(dtype)
        if kind not in ("numpy", "torch", "bytes"):
            raise ValueError(f"unknown kind {kind!r}; expected numpy, torch or bytes")
        if number == DType.BF16 and kind == "numpy":
            raise ValueError('NumPy has no bfloat16: pass kind="torch" or "bytes"')
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        count = buffers.elements(shape)
        memory = _Memory(self, max(1, count * ITEM_SIZES[number]))
        flat = buffers.over(memory.address, count, number, memory, kind if kind != "bytes" else None)
        return flat.reshape(shape) if kind != "bytes" else flat

    def device_fault(self, device: int = -1) -> str:
        """
        Why data on a CUDA device cannot be reached, as without a module for devices or a driver. "": they can.
        device: as cudaGetDevice numbers it; -1: this thread's current one.
        """
        place = ctypes.c_void_p()
        status = self._call(lib.halay_alloc_device, self._p, _int32("device", device), 1, ctypes.byref(place))
        if status in (Status.UNSUPPORTED, Status.VERSION):
            return str(last_error(status, "device"))
        if status:
            raise last_error(status, "device")
        self._call(lib.halay_free, self._p, place)
        return ""

    # ---- what the engine does ----

    def gauge(self, name: str, value: float) -> None:
        """Say a number of the program's own, the loss for example, for who watches the job: `halayrun --metrics` has
        it as halay_program_value{name="..."} (halay_gauge_set)."""
        status = self._call(held.halay_gauge_set, self._p, name.encode(), float(value))
        if status:
            raise last_error(status, f"set gauge '{name}'")

    def counters(self) -> Dict[str, Any]:
        """What this rank's engine has done since the start (struct halay_counters)."""
        counters = Counters(struct_size=ctypes.sizeof(Counters))
        status = self._call(held.halay_counters_read, self._p, ctypes.byref(counters))
        if status:
            raise last_error(status, "read the counters")
        values = {name: getattr(counters, name) for name, *_ in Counters._fields_[1:]}
        return {name: list(value) if isinstance(value, ctypes.Array) else value for name, value in values.items()}

    def timeline_start(self, path: str) -> None:
        """Record what the engine does, for ui.perfetto.dev, until timeline_stop or close (halay_timeline_start)."""
        status = self._call(lib.halay_timeline_set, self._p, os.fsencode(path))
        if status:
            raise last_error(status, f"start a timeline in '{path}'")

    def timeline_stop(self) -> None:
        """End the recording and write the file."""
        status = self._call(lib.halay_timeline_set, self._p, None)
        if status:
            raise last_error(status, "stop the timeline")


def _options(
    process_sets: Sequence[Sequence[int]], settings: Optional[Mapping[str, object]], **texts: Optional[str]
) -> Options:
    """A start's options. It keeps alive what it points at."""
    options = Options(struct_size=ctypes.sizeof(Options), reports_errors=1)
    for name, text in texts.items():
        setattr(options, name, text.encode() if text else None)
    lists = [(ctypes.c_int * len(ranks))(*ranks) for ranks in process_sets]
    sets = (RankList * len(lists))(*(RankList(ranks, len(ranks)) for ranks in lists))
    options.process_sets, options.process_set_count = sets, len(lists)
    variables = [f"{name}={value}".encode() for name, value in (settings or {}).items()]
    options.settings = (ctypes.c_char_p * (len(variables) + 1))(*variables)
    return options


def _set_meeting(
    options: Options, rendezvous: Optional[Rendezvous], unique_id: Optional[bytes], rank: int, size: int
) -> None:
    """How the ranks meet, if the program gives a way."""
    meeting = rendezvous and rendezvous._struct()
    if meeting:
        options.rendezvous = ctypes.pointer(meeting)
    if unique_id is not None:
        options.unique_id = ctypes.pointer(UniqueId.from_buffer_copy(_check_id(unique_id)))
        options.rank, options.size = _int32("rank", rank), _int32("size", size)
    elif rank or size:
        raise ValueError("rank and size go with unique_id; otherwise the start finds them")


def _writer(log: Callable[[int, str], object]) -> Any:
    """The library's log, as it calls it."""
    return LOG(lambda _, level, line: log(level, line.decode(errors="replace")))


def _set_shape(info: TensorInfo, given: buffers.Buffer) -> None:
    shape = buffers.flatten(given.shape)
    info.dtype, info.dimensions = given.dtype, len(shape)
    info.shape[: len(shape)] = shape


def _set_device(info: TensorInfo, used: Iterable[buffers.Buffer]) -> None:
    """Where data on a device are among those that are used: the submission follows the work of their stream."""
    for buffer in used:
        if buffer.stream is None or not buffers.nbytes(buffer):
            continue
        info.memory = max(info.memory, _DEVICE)
        if buffer.stream and info.after_stream not in (None, buffer.stream):
            raise ValueError("the arrays belong to two streams: pass those of one")
        info.after_stream = buffer.stream or info.after_stream


def _set_splits(info: TensorInfo, splits: Sequence[int], size: int) -> Any:
    """Returns what must live as long as info."""
    if info.collective not in (Collective.REDUCE_SCATTER, Collective.ALLTOALL, Collective.SCATTER):
        raise ValueError("splits are for a reduce-scatter, an all-to-all and a scatter")
    if len(splits) != size:
        raise ValueError(f"{len(splits)} splits for {size} ranks")
    if min(splits) < 0:
        raise ValueError(f"splits are {list(splits)}, and rows cannot be fewer than 0")
    info.splits = counts = (ctypes.c_size_t * size)(*splits)
    return counts


def _set_out(info: TensorInfo, given: buffers.Buffer, placed: buffers.Buffer, needed: int) -> None:
    if placed.dtype != given.dtype:
        raise ValueError(f"the result is {DType(placed.dtype).name}, and the data are {DType(given.dtype).name}")
    room = buffers.nbytes(placed)
    if room < needed:
        raise ValueError(f"the result has {needed} bytes, and out has {room}")
    info.out, info.out_bytes = placed.address, room


def _check_rows(collective: int, given: buffers.Buffer) -> None:
    """On every rank alike, whatever it does with the result."""
    if not given.shape and collective not in (Collective.ALLREDUCE, Collective.BROADCAST, Collective.REDUCE):
        raise ValueError("a scalar has no rows")


def _part(rows: int, splits: Optional[Sequence[int]], size: int, rank: int) -> int:
    """Rows of this rank's part of a reduce-scatter or scatter."""
    return splits[rank] if splits is not None else scatter_rows(rows, size, rank)


def _result_shape(
    collective: int, given: buffers.Buffer, splits: Optional[Sequence[int]], size: int, rank: int
) -> Tuple[int, ...]:
    """
    The shape of an array for the result. That of an all-gather, a gather or an all-to-all is not known: it is made as
    if all ranks gave the same number as this one, and a longer result is copied.
    """
    shape = tuple(given.shape)
    if collective in (Collective.ALLREDUCE, Collective.BROADCAST, Collective.REDUCE):
        return shape
    if collective in (Collective.ALLGATHER, Collective.GATHER):
        return (shape[0] * size, *shape[1:])
    if collective in (Collective.REDUCE_SCATTER, Collective.SCATTER):
        return (_part(shape[0], splits, size, rank), *shape[1:])
    return shape


def _room_needed(
    collective: int, given: buffers.Buffer, splits: Optional[Sequence[int]], size: int, rank: int
) -> int:
    """Bytes that the result has at least, as far as this rank knows."""
    if collective in (Collective.ALLGATHER, Collective.ALLTOALL, Collective.GATHER, Collective.SCATTER):
        return 0
    return buffers.elements(_result_shape(collective, given, splits, size, rank)) * ITEM_SIZES[given.dtype]


def _finisher(data: Any, given: buffers.Buffer, out: Any, size: int, has_result: bool = True) -> Finish:
    """What makes the result of an operation whose size is known when it has ended. Without an out it is new."""
    row = tuple(given.shape[1:])
    stream = None if given.stream is None else buffers.torch_stream(data)

    def finish(request: Request, status: int, result: Result) -> Any:
        if status not in (_OK, Status.ARGUMENT) or not result.data and status != _OK:
            return None
        if result.rows:
            request.rows = result.rows[:size]
        if not has_result:
            return None
        if out is not None and result.bytes <= buffers.nbytes(buffers.describe(out)):
            return out[: result.shape[0]]
        return buffers.filled(data, (result.shape[0], *row), result.data, result.bytes, stream)

    return finish


def _finish_set(request: Request, status: int, result: Result) -> Any:
    return ProcessSet(request._ctx, result.set) if status == _OK and result.set else None


def _finish_join(request: Request, status: int, result: Result) -> Any:
    return result.last_joined if status == _OK else None


_contexts: "weakref.WeakSet[Context]" = weakref.WeakSet()


def _close_all() -> None:
    """At the end of the interpreter: the others then need not wait for this rank."""
    for ctx in list(_contexts):
        ctx.close()


def _forget_all() -> None:
    for ctx in list(_contexts):
        ctx._after_fork()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
