# SPDX-License-Identifier: Apache-2.0
"""The one job of this process: its context, its process sets, and the names of what has none."""
from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from halay import ArgumentError, Context, DType, DuplicateError, HalayError
from halay import ProcessSet as EngineSet
from halay import buffers, elastic

# The element types that there are.
TYPES = buffers.torch_types()

NOT_INITIALIZED = 'Horovod has not been initialized; use hvd.init().'

_NAME_MAX = 255  # bytes: HALAY_NAME_MAX


class HorovodInternalError(RuntimeError):
    """A collective has failed: the text has which, and names the ranks. Its __cause__ is a HalayError."""


class HostsUpdatedInterrupt(RuntimeError):
    """The job has been re-formed in a commit. skip_sync: no rank needs the state."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the ranks have changed")
        self.skip_sync = skip_sync


class _State:
    """What init() makes."""

    def __init__(self) -> None:
        self.ctx: Optional[Context] = None
        self.device: Optional[torch.device] = None  # of the first data on a GPU
        self.device_fault: Optional[str] = None  # why those cannot be reached, "" if they can; None: not known yet
        self.copied_kinds: Set[str] = set()  # of other devices; each has been warned of
        self.generation = 0  # which context of this process it is: memory is one's
        self.formation = 0  # how often the ranks have become others, too
        self.optimizers: Counter = Counter()  # by the names of their parameters
        self.has_begun = False  # elastic
        self.unnamed: Counter = Counter()
        self.sets: Dict[int, Tuple[Tuple[int, ...], Optional[EngineSet], Any]] = {}
        self.next_set = 1


_state = _State()


def context() -> Context:
    """The context; ValueError before hvd.init."""
    if _state.ctx is None:
        raise ValueError(NOT_INITIALIZED)
    return _state.ctx


def open_context() -> bool:
    """Join the job. False: it was done before."""
    if _state.ctx is not None:
        return False
    _state.ctx = Context()
    _state.generation += 1
    _state.device = _state.device_fault = None
    _state.has_begun = False
    _forget()
    return True


def close_context() -> None:
    """Leave it."""
    ctx, _state.ctx = _state.ctx, None
    if ctx is not None:
        _forget()
        ctx.close()


def _forget() -> None:
    """What all ranks of a job count alike begins anew."""
    for _, _, process_set in _state.sets.values():
        process_set.process_set_id = None
    _state.sets.clear()
    _state.next_set = 1
    _state.unnamed.clear()
    _state.optimizers.clear()
    _state.formation += 1


def is_initialized() -> bool:
    """Whether init() has been called, and shutdown() not since."""
    return _state.ctx is not None


def generation() -> int:
    return _state.generation


def formation() -> int:
    """Changes with the ranks: what they have agreed on is of one."""
    return _state.formation


def optimizers(key: str) -> int:
    """How many optimizers there have been whose parameters have these names."""
    return int(_state.optimizers[key])


def count_optimizers(key: str, count: int) -> None:
    """The same on all ranks."""
    _state.optimizers[key] = count


def size() -> int:
    """The number of ranks."""
    return context().size


def rank() -> int:
    """This process's number in the job."""
    return context().rank


def local_size() -> int:
    """The number of ranks on this host."""
    return context().local_size


def local_rank() -> int:
    """This process's number on its host."""
    return context().local_rank


def cross_size() -> int:
    """The number of hosts."""
    return context().cross_size


def cross_rank() -> int:
    """This host's number."""
    return context().cross_rank


def is_homogeneous() -> bool:
    """Whether every host has as many ranks."""
    return context().is_homogeneous


# ---- devices --------------------------------------------------------------------------------------------------------

def reaches(device: torch.device) -> bool:
    """Whether the engine takes data where they are on that device; otherwise they are copied to main memory first."""
    if device.type not in ("cpu", "cuda"):
        if device.type not in _state.copied_kinds:
            _state.copied_kinds.add(device.type)
            warnings.warn(f"tensors on '{device.type}' are copied to main memory at each call", RuntimeWarning, 3)
        return False
    if device.type == "cpu" or _state.ctx is None:
        return True
    if _state.device_fault is None:
        fault = "PyTorch is built for ROCm" if torch.version.hip else _state.ctx.device_fault(device.index)
        _state.device_fault = fault
        if fault:
            warnings.warn(f"tensors on GPUs are copied to main memory at each call: {fault}",
                          RuntimeWarning, 3)
    return not _state.device_fault


def _is_own_device(device: torch.device) -> bool:
    """Returns whether the data there are declared as on devices on all ranks. This is so for one device of each rank,
    that of the first data; programs whose ranks use several do so alike."""
    if _state.device is None:
        _state.device = device
    return _state.device == device


# ---- process sets ---------------------------------------------------------------------------------------------------

def _make_set(ctx: Context, ranks: Sequence[int]) -> Optional[EngineSet]:
    """The engine's set, which its members make; None on other ranks."""
    return ctx.process_set(ranks) if ctx.rank in ranks else None


def add_set(ranks: Sequence[int], process_set: Any) -> int:
    """Make a set of these ranks and return its number, which all ranks count alike."""
    ctx, key = context(), tuple(ranks)
    bad = [rank for rank in key if not 0 <= rank < ctx.size]
    if bad or not key:
        raise ValueError(f"a process set has ranks from 0 to {ctx.size - 1}: {process_set}")
    if key in [known for known, _, _ in _state.sets.values()] or key == tuple(range(ctx.size)):
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    try:
        made = _make_set(ctx, key)
    except HalayError as e:
        raise ValueError(str(e)) from e
    number = _state.next_set
    _state.next_set += 1
    _state.sets[number] = (key, made, process_set)
    return number


def remove_set(number: int) -> bool:
    """Removes it. False: no process set has that number."""
    if number not in _state.sets:
        return False
    _, made, _ = _state.sets.pop(number)
    try:
        if made is not None:
            made.remove()
    except HalayError as e:
        raise HorovodInternalError(str(e)) from e
    return True


def _engine_set(process_set: Any, what: str) -> Optional[EngineSet]:
    """The engine's set for one of the program's; None: all ranks."""
    number = process_set.process_set_id
    if number == 0:
        return None
    if number not in _state.sets:
        raise ValueError(f"{what}: Process set provided does not exist, or has not been registered.")
    ranks, made, _ = _state.sets[number]
    if rank() not in ranks:
        raise ValueError(f"{what}: Rank {rank()} is not a member of the provided process set.")
    return made


# ---- submission -----------------------------------------------------------------------------------------------------

def next_name(kind: str, process_set: Any) -> str:
    """A name for what the program gives none: counted on all members of a set alike."""
    key = (kind, process_set.process_set_id)
    _state.unnamed[key] += 1
    return "noname.%d" % _state.unnamed[key]


def _full_name(kind: str, name: str) -> str:
    full = f"{kind}.{name}"
    if len(full.encode()) <= _NAME_MAX:
        return full
    return full.encode()[:200].decode(errors="ignore") + "~" + hashlib.sha1(full.encode()).hexdigest()


def submit(collective: str, name: Optional[str], process_set: Any, data: Optional[torch.Tensor] = None,
           out: Optional[torch.Tensor] = None, *, members: Optional[Sequence[Tuple]] = None, kind: str = "",
           **options: Any) -> Any:
    """Submit a collective and return its request. ValueError: it cannot be submitted so, or a tensor of that name is in
    flight. HorovodInternalError: the job is over."""
    kind = kind or collective
    if _state.ctx is None:
        raise HorovodInternalError(NOT_INITIALIZED)
    ctx = _state.ctx
    engine_set = _engine_set(process_set, kind)
    options.update(name=_full_name(kind, name if name is not None else next_name(kind, process_set)),
                   process_set=engine_set)
    given = [source for source, _ in members] if members is not None else [] if data is None else [data]
    if given and all(tensor.device.type == "cuda" and _is_own_device(tensor.device) for tensor in given):
        options.update(on_devices=True)
    try:
        if members is not None:
            return ctx.allreduce_group_async([source for source, _ in members], [target for _, target in members],
                                             **options)
        if collective == "barrier":
            return ctx.barrier_async(**options)
        if collective == "broadcast":
            return ctx.broadcast_async(data, **options)
        start: Any = {"allreduce": ctx.allreduce_async, "allgather": ctx.allgather_async,
                      "alltoall": ctx.alltoall_async, "reducescatter": ctx.reduce_scatter_async}[collective]
        return start(data, out, **options)
    except (ArgumentError, DuplicateError) as e:
        raise ValueError(str(e)) from e
    except HalayError as e:
        raise HorovodInternalError(str(e)) from e


def wait(request: Any, device: Optional[torch.device] = None) -> Any:
    """The result of a request. device: the current stream of that one follows it, not the host."""
    try:
        if device is None:
            return request.wait()
        request.wait_stream(buffers.current_stream(device))
        return request.out
    except HalayError as e:
        raise HorovodInternalError(str(e)) from e


def result(request: Any) -> Tuple[torch.Tensor, List[int]]:
    """The result of an all-gather or all-to-all, and the number of rows from each rank."""
    return wait(request), request.rows or []


def alloc(count: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of one dimension on that device, if it is reached, or in memory that the ranks of this host reduce in
    place."""
    if reaches(device) and device.type == "cuda":
        return torch.empty(count, dtype=dtype, device=device)
    return context().alloc(count, DType(TYPES[dtype]), kind="torch")


def join() -> int:
    """This rank has no more data; returns the rank that joined last."""
    if _state.ctx is None:
        raise HorovodInternalError(NOT_INITIALIZED)
    try:
        return _state.ctx.join()
    except HalayError as e:
        raise HorovodInternalError(str(e)) from e


# ---- elastic jobs ---------------------------------------------------------------------------------------------------

# Called when ranks have changed.
on_change: List[Callable[[], None]] = []


def is_elastic() -> bool:
    """Whether this job may be re-formed."""
    return elastic.is_on(context())


def _elastic(call: Callable[[Context], elastic.Change]) -> bool:
    """Whether the ranks are others after this call."""
    try:
        change = call(context())
    except HalayError as e:
        raise HorovodInternalError(str(e)) from e
    if change.has_reformed:
        _forget()
        for function in on_change:
            function()
    return bool(change.has_reformed)


def elastic_begin() -> None:
    """Once a context: from here on it may be re-formed."""
    if is_elastic() and not _state.has_begun:
        _state.has_begun = True
        _elastic(elastic.begin)


def elastic_commit() -> bool:
    """The program has kept its state. True: the ranks are others now."""
    return _state.has_begun and _elastic(elastic.commit)


def can_restore() -> bool:
    """Whether a failure is that of a rank that the job may lose."""
    if not _state.has_begun or _state.ctx is None:
        return False
    try:
        _state.ctx.check()
    except HalayError:
        return True
    return False


def settle() -> None:
    """Wait until the GPU has computed all results, which streams get before that. HorovodInternalError: the job has
    failed, and some of them may be wrong."""
    if _state.ctx is None:
        return
    if _state.device is not None:
        torch.cuda.synchronize(_state.device)
    try:
        _state.ctx.check()
    except HalayError as e:
        raise HorovodInternalError(str(e)) from e


def elastic_restore() -> None:
    """Find the other ranks again."""
    _elastic(elastic.restore)
