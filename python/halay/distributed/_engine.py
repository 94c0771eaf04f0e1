# SPDX-License-Identifier: Apache-2.0
"""
The contexts that groups stand on, and how a tensor is submitted.

The default group starts a context of all ranks; a group of some of them is a process set of it. A group whose ranks no
context of ours covers (the default group has another backend) starts a context of its own. The last group that goes
ends the context.

Names. Torch asks the members of a group to call the same collectives in the same order. So a collective's name is its
number in its group: ranks that call different things get an error with both sides, where other backends wait or mix up
the data. Numbers come again (_numbers.Numbers), so that the engine knows the names already. What the callback of a
future calls is numbered within that future (_work.Lineage), as its time differs between ranks.
"""

import ctypes
import threading
from typing import Any, Dict, Hashable, List, Optional, Sequence, Tuple

import torch

from .._library import Member, Result, TensorInfo, held, last_error
from ..buffers import current_stream, has_memory, torch_fault, torch_types
from ..constants import ANY_RANK, Collective, Status
from ..context import _DEVICE, _DEVICES, ProcessSet
from ..errors import CanceledError, HalayError, MismatchError, TimeoutError, UnsupportedError
from ..request import Finish, Request, note_sender
from ._numbers import Numbers
from ._start import start
from ._work import DistBackendError, current_lineage, milliseconds

TAGS = 1 << 32  # of a group; above them in the engine's tag is the group's number

FAILS_EVERYWHERE = (MismatchError, TimeoutError, CanceledError)  # what a collective ends with on all ranks

DTYPES = torch_types()


def _dtype(tensor: torch.Tensor) -> int:
    if tensor.dtype not in DTYPES:
        known = ", ".join(str(one).replace("torch.", "") for one in DTYPES)
        raise TypeError(f"halay: {tensor.dtype} cannot be reduced, only moved: what can be is {known}")
    return DTYPES[tensor.dtype]


def _address(tensor: torch.Tensor) -> int:
    """Where its data lie. The result of a functional collective waits for them first, and has no address of its own."""
    if hasattr(tensor, "trigger_wait"):
        tensor = tensor.trigger_wait()
    if not has_memory(tensor):
        raise ValueError(f"halay: {torch_fault(tensor)}")
    return tensor.data_ptr()


def _kept(tensor: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """What keeps its memory: the program's own tensor may get other memory meanwhile (tensor.set_(), tensor.data)."""
    return None if tensor is None else tensor.detach()


def _note_rows(size: int) -> Finish:
    def finish(request: Request, status: int, result: Result) -> None:
        if status == Status.OK:
            request.rows = result.rows[:size] if result.rows else [result.shape[0]]

    return finish


class Engine:
    """A context, counted by the groups that use it."""

    def __init__(self, store: Any, rank: int, size: int, timeout_ms: int) -> None:
        self.context = start(store, rank, size, timeout_ms)
        self._sets: Dict[Tuple[int, ...], Optional[ProcessSet]] = {tuple(range(size)): None}
        self._groups: Dict[Tuple[int, ...], int] = {}
        self._device: Optional[torch.device] = None  # of the first tensor on a GPU
        self._users = 0

    def process_set(self, ranks: Sequence[int], timeout_ms: int) -> Optional[ProcessSet]:
        """The set of these ranks, made by its members; None: all ranks. Groups of the same ranks share it."""
        key = tuple(sorted(ranks))
        if key not in self._sets:
            self._sets[key] = self.context.process_set(key, timeout_ms / 1000 or None)
        return self._sets[key]

    def number(self, ranks: Sequence[int]) -> int:
        """The number of groups of these ranks before this one: it distinguishes those of one set."""
        key = tuple(sorted(ranks))
        number = self._groups.get(key, 0)
        self._groups[key] = number + 1
        return number

    def place(self, info: TensorInfo, tensors: Sequence[Optional[torch.Tensor]]) -> Any:
        """
        Describe where these are. On a GPU they follow its current stream, which is returned. They are declared as on
        devices on all ranks if they are on the GPU of this rank's first tensors: programs whose ranks use several GPUs
        do so alike.
        """
        devices = {tensor.device for tensor in tensors if tensor is not None}
        if all(device.type != "cuda" for device in devices):
            return None
        if len(devices) > 1:
            raise ValueError(f"halay: the tensors are on {' and '.join(sorted(map(str, devices)))}: pass those of one")
        (device,) = devices
        if self._device is None:
            self._device = device
        info.memory = _DEVICES if device == self._device else _DEVICE
        info.after_stream = current_stream(device)
        return torch.cuda.current_stream(device)

    def use(self) -> None:
        self._users += 1

    def release(self) -> None:
        """One group fewer; after the last one the job is left."""
        self._users -= 1
        if self._users == 0:
            self.close()

    def abort(self, reason: str) -> None:
        """End everything in flight on all ranks, from any thread."""
        self.context.abort(reason)

    def close(self) -> None:
        """Leave the job."""
        if _world.get("engine") is self:
            del _world["engine"]
        self.context.close()


_world: Dict[str, Engine] = {}  # "engine": of the default group


def engine_for(opts: Any) -> Tuple[Engine, List[int], Any]:
    """The context for a new group, its members as ranks of that context in the group's order, and their process set."""
    ranks = list(opts.global_ranks_in_group)
    world = _world.get("engine")
    if not ranks:  # the default group
        if world is not None:
            world.close()
        world = _world["engine"] = Engine(opts.store, opts.group_rank, opts.group_size, milliseconds(opts.timeout))
        return world, list(range(opts.group_size)), None
    if world is not None:
        try:
            return world, ranks, world.process_set(ranks, milliseconds(opts.timeout))
        except HalayError as failure:
            raise DistBackendError(f"halay: {failure}") from failure
    own = Engine(opts.store, opts.group_rank, opts.group_size, milliseconds(opts.timeout))
    return own, list(range(opts.group_size)), None


class _Slot:
    """A name of a group's, in flight once at a time, in the order in which it was taken."""

    __slots__ = ("name", "taken", "served", "request", "call")

    def __init__(self, name: str) -> None:
        self.name = name
        self.taken = self.served = 0  # how often
        self.request: Optional[Request] = None  # the last one
        self.call = -1  # which of the group's calls that is; -1: of none


def _kind_of(info: TensorInfo) -> Hashable:
    """What the ranks must agree on: all that an all-reduce is, no sizes of others."""
    if info.collective != Collective.ALLREDUCE:
        return int(info.collective)
    return (info.dtype, info.reduction, info.shape[0], info.member_count)


class Channel:
    """Where a group submits: its context, its process set, its names."""

    def __init__(self, opts: Any) -> None:
        self.timeout_ms = milliseconds(opts.timeout)
        self.engine, self.ranks, members = engine_for(opts)
        self._set = members._p if members is not None else None
        self._number = self.engine.number(self.ranks)
        self.engine.use()
        self.label = str(opts.group_id or "0")
        self._numbers = Numbers()
        self._slots: Dict[str, _Slot] = {}
        self._changed = threading.Condition()  # guards _numbers, _slots, and their taken and served
        self._closed = False

    def submit(
        self,
        collective: Collective,
        source: Optional[torch.Tensor],
        target: Optional[torch.Tensor],
        shape: Sequence[int],
        timeout_ms: int = 0,
        **values: Any,
    ) -> Request:
        """
        Submit one collective. source, target: contiguous, None where the operation has none. shape: of source, in which
        only what matters is given (rows, columns). values: further members of struct halay_tensor_info.
        """
        info = TensorInfo()
        info.struct_size = ctypes.sizeof(TensorInfo)
        info.collective, info.set = collective, self._set
        info.dimensions = len(shape)
        info.shape[: len(shape)] = shape
        data = source if source is not None else target
        if data is not None:
            info.dtype = _dtype(data)
        if source is not None:
            info.in_ = _address(source)
        if target is not None:
            info.out = _address(target)
            info.out_bytes = target.numel() * target.element_size()
        info.timeout_ms = timeout_ms or self.timeout_ms
        for name, value in values.items():
            setattr(info, name, value)
        stream = self.engine.place(info, (source, target))
        request = self._submit_in_turn(info, (_kept(source), _kept(target), info), _note_rows(len(self.ranks)))
        request.stream = stream
        return request

    def point_to_point(self, collective: Collective, data: torch.Tensor, peer: Optional[int], tag: int) -> Request:
        """
        Submit a send or a receive, which has no turn. data: contiguous. peer: a number in the group; None: any, of a
        receive.
        """
        if not 0 <= tag < TAGS:
            raise ValueError(f"halay: the tag {tag} is not one of 0 to {TAGS - 1}")
        info = TensorInfo()
        info.struct_size = ctypes.sizeof(TensorInfo)
        info.collective, info.set = collective, self._set
        info.dtype, info.dimensions = _dtype(data), 1
        info.shape[0] = data.numel()
        info.in_ = info.out = _address(data)
        info.peer = ANY_RANK if peer is None else self.ranks[peer]
        info.tag = self._number * TAGS + tag
        info.timeout_ms = self.timeout_ms
        stream = self.engine.place(info, (data,))
        request = self._submit(info, _kept(data), note_sender if collective == Collective.RECEIVE else None)
        if info.peer != ANY_RANK:  # the sender is known when it has ended
            request.stream = stream
        return request

    @property
    def sequence(self) -> int:
        """How many collectives there were, without those of callbacks."""
        return self._numbers.calls

    def _take_slot(self, info: TensorInfo) -> Tuple[_Slot, int]:
        """The name of a collective, and which of the group's calls it is; -1: a callback's."""
        lineage = current_lineage()
        call = -1 if lineage is not None else self._numbers.calls
        number = lineage.next_submission() if lineage is not None else self._numbers.take(_kind_of(info))
        name = f"{self.label}/{number}"
        if name not in self._slots:
            self._slots[name] = _Slot(name)
        return self._slots[name], call

    def _submit_in_turn(self, info: TensorInfo, keep: Any, finish: Optional[Finish] = None) -> Request:
        with self._changed:
            slot, call = self._take_slot(info)
            place = slot.taken
            slot.taken += 1
            while slot.served != place:
                self._changed.wait()
        try:
            # Without the lock: what this waits for may need what another thread submits.
            if slot.request is not None and not slot.request.poll():
                _wait_for(slot.request)
            if slot.request is not None and isinstance(slot.request.error(), FAILS_EVERYWHERE):
                with self._changed:
                    self._numbers.note_failure(slot.call)
            info.name = slot.name.encode()[-255:]
            slot.request = request = self._submit(info, keep, finish)
            slot.call = call
            request.name = slot.name
            return request
        finally:
            with self._changed:
                slot.served += 1
                self._changed.notify_all()

    def _submit(self, info: TensorInfo, keep: Any, finish: Optional[Finish] = None) -> Request:
        ctx = self.engine.context
        made = ctypes.c_void_p()
        try:
            with ctx._lock:
                status = held.halay_submit_named(ctx._open(), info, None, None, made)
                if ctx._orphans:
                    ctx._reap()
        except HalayError as failure:
            raise DistBackendError(f"halay: {failure}") from failure
        if status != Status.OK:
            raise DistBackendError(f"halay: {last_error(status, 'submit')}")
        return Request(ctx, made.value or 0, None, keep, None, finish)

    def submit_group(self, tensors: Sequence[torch.Tensor], timeout_ms: int, reduction: int) -> Request:
        """Submit an all-reduce of several contiguous tensors, in place, as one."""
        members = (Member * len(tensors))()
        for member, tensor in zip(members, tensors):
            member.in_ = member.out = _address(tensor)
            member.dtype, member.dimensions = _dtype(tensor), 1
            member.shape[0] = tensor.numel()
        info = TensorInfo()
        info.struct_size = ctypes.sizeof(TensorInfo)
        info.collective, info.set, info.reduction = Collective.ALLREDUCE, self._set, reduction
        info.members, info.member_count, info.member_bytes = members, len(tensors), ctypes.sizeof(Member)
        info.timeout_ms = timeout_ms or self.timeout_ms
        stream = self.engine.place(info, tensors)
        request = self._submit_in_turn(info, ([_kept(tensor) for tensor in tensors], members))
        request.stream = stream
        return request

    def sizes(self, values: Sequence[int]) -> Any:
        """An array of counts, one a rank."""
        return (ctypes.c_size_t * len(values))(*values)

    def close(self) -> None:
        """The group is done with."""
        if not self._closed:
            self._closed = True
            self._slots = {}
            self.engine.release()

    def __del__(self) -> None:  # torch before 2.5 does not shut groups down, it forgets them
        if hasattr(self, "_closed"):
            self.close()


def _wait_for(request: Request) -> None:
    try:
        request.wait()
    except HalayError:
        pass  # the work's error reaches the caller that waits
