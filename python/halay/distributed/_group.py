# SPDX-License-Identifier: Apache-2.0
"""
A process group of torch's over halay: each method is one collective of c10d, under the names of all its versions.

Two forms of the same methods. A ProcessGroup of our own is what torch has always taken from Python; calls from Python
come here without a way through C++. It answers for all devices, so "cpu:halay,cuda:nccl" needs the other form, a
Backend, which Python can write since torch 2.15.

Who calls matters once. C++ (DDP's reducer, functional collectives) keeps the C++ half of a Work only, and older torches
let the Python half die under it. So C++ gets a Work of torch's own that wraps our future.
"""

import math
import sys
import types
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch import Tensor as _Tensor

from ..buffers import is_expanded, torch_fault
from ..constants import Collective, Reduction
from ..request import Request
from ._engine import DTYPES, Channel
from ._work import DistBackendError, Together, Work, milliseconds

_c10d = torch._C._distributed_c10d
_Tensors = List[_Tensor]

_kinds = getattr(dist.ReduceOp, "RedOpType", dist.ReduceOp)
REDUCTIONS: Dict[Any, Reduction] = {
    _kinds.SUM: Reduction.SUM,
    _kinds.AVG: Reduction.AVERAGE,
    _kinds.MIN: Reduction.MIN,
    _kinds.MAX: Reduction.MAX,
    _kinds.PRODUCT: Reduction.PRODUCT,
    _kinds.BAND: Reduction.BIT_AND,
    _kinds.BOR: Reduction.BIT_OR,
}
_XOR = _kinds.BXOR


def _kind(opts: Any) -> Any:
    op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
    return getattr(op, "op", op)


def _reduction(kind: Any) -> Reduction:
    if kind not in REDUCTIONS:
        raise ValueError(f"halay: unknown reduction {kind}; expected SUM, AVG, MIN, MAX, PRODUCT, BAND, BOR or BXOR")
    return REDUCTIONS[kind]


def _timeout(opts: Any) -> int:
    return milliseconds(getattr(opts, "timeout", None))


def _check(tensors: Sequence[_Tensor]) -> None:
    for tensor in tensors:
        if tensor.device.type not in ("cpu", "cuda") or tensor.device.type == "cuda" and torch.version.hip:
            raise ValueError(
                f"halay: the tensor is on '{tensor.device}'; halay takes tensors in main memory and on CUDA devices: "
                'init_process_group("cpu:halay,xpu:xccl") gives each device its backend'
            )
        if tensor.layout != torch.strided:
            raise ValueError(f"halay: the tensor is {tensor.layout}, and only an all-reduce by SUM takes sparse ones")
        if tensor.is_quantized or getattr(tensor, "is_nested", False):
            raise ValueError(f"halay: {torch_fault(tensor)}")


def _check_written(tensors: Sequence[_Tensor]) -> None:
    """Those that a rank writes to. Each element has a place of its own: an expanded tensor is refused on all ranks,
    also on those that only read it."""
    _check(tensors)
    for tensor in tensors:
        if tensor._is_zerotensor():
            raise ValueError(f"halay: {torch_fault(tensor)}")
        if is_expanded(tensor):
            raise ValueError("halay: the tensor is expanded, its elements share memory: pass .clone() of it")


def _check_alike(what: str, tensors: Sequence[_Tensor]) -> None:
    """Tensors that travel as one."""
    types = {str(tensor.dtype).replace("torch.", "") for tensor in tensors}
    if len(types) > 1:
        raise ValueError(f"halay: {what}: the tensors are of different types: {', '.join(sorted(types))}")


def _check_count(what: str, tensors: Sequence[_Tensor], size: int) -> None:
    if len(tensors) != size:
        raise ValueError(f"halay: {what}: {len(tensors)} tensors for {size} ranks")


def _is_plain(tensor: _Tensor) -> bool:
    """Returns whether its memory holds its elements."""
    return tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor())


def _plain(tensor: _Tensor) -> _Tensor:
    """The tensor itself if it is, or else a copy that is."""
    if tensor._is_zerotensor():
        return tensor.clone()
    return tensor.resolve_conj().resolve_neg().contiguous()


def _bytes_of(tensor: _Tensor) -> _Tensor:
    """The tensor, flat and contiguous; as bytes if halay has no type for its elements. For data that only move."""
    flat = _plain(tensor).view(-1)
    return flat if flat.dtype in DTYPES else flat.view(torch.uint8)


def _store(target: _Tensor, data: _Tensor) -> None:
    target.detach().copy_(data.view(target.dtype).view(target.shape))


def _rows(tensor: _Tensor) -> Sequence[int]:
    """Its shape with one or two dimensions."""
    return (tensor.shape[0], math.prod(tensor.shape[1:]))


def _check_rows(what: str, request: Request, sizes: Sequence[int]) -> None:
    """An error if a rank gives more or less than this one has room for: halay takes any size. On a GPU, too, the ranks'
    sizes are known when the request has ended."""
    request.wait()
    if request.rows != list(sizes):
        raise DistBackendError(f"halay: {what}: the ranks give {request.rows} elements, the outputs have {list(sizes)}")


def _deal_out(request: Request, what: str, whole: _Tensor, sizes: Sequence[int], parts: Sequence[_Tensor]) -> None:
    _check_rows(what, request, sizes)
    for data, part in zip(whole.split(list(sizes)), parts):
        _store(part, data)


def _called_from_python() -> bool:
    """Whether torch's Python code called the collective that called the method that asks."""
    frame: Optional[types.FrameType] = sys._getframe(2)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == _C10D_MODULE


_C10D_MODULE = "torch.distributed.distributed_c10d"


class Collectives:
    """What both forms have in common. Members are counted by their number in the group, as torch does."""

    _channel: Channel
    _rank: int
    _size: int
    _batch: Optional[List[Any]] = None  # the works of a batch that torch has begun
    _is_batch_over: Callable[[], bool]  # by an exception, which torch does not report here

    def _open(self, channel: Channel, opts: Any) -> None:
        self._rank, self._size = opts.group_rank, opts.group_size
        self._channel = channel

    def _root(self, opts: Any) -> int:
        if not 0 <= opts.rootRank < self._size:
            raise ValueError(f"halay: root {opts.rootRank} is not one of the group's {self._size} ranks")
        return int(opts.rootRank)

    def _work(
        self,
        request: Request,
        outputs: Any,
        what: str,
        finish: Optional[Callable[[], Any]] = None,
        value: Optional[Callable[[], Any]] = None,
    ) -> Any:
        """The Work for a request. Called by the collectives directly: the frame above them is their caller."""
        return self._hand_over(Work(request, outputs, what, finish, value=value))

    def _hand_over(self, work: Any) -> Any:
        """What the caller gets."""
        if self._batch is not None and self._is_batch_over():
            self._batch = None
        if self._batch is not None:
            self._batch.append(work)
        return work if _called_from_python() else work.as_work_of_torch()

    # ---- reductions ----

    def allreduce(self, tensors: _Tensors, opts: Any = None) -> Any:
        tensor, kind = tensors[0], _kind(opts)
        if tensor.is_sparse:
            return self._allreduce_sparse(tensors, opts)
        _check_written(tensors)
        if kind == _XOR:
            return self._work(*self._allreduce_gathered(tensors, opts, torch.bitwise_xor))
        data = _plain(tensor)
        request = self._channel.submit(
            Collective.ALLREDUCE, data, data, (data.numel(),), _timeout(opts), reduction=_reduction(kind)
        )
        return self._work(request, tensors, "all_reduce", None if data is tensor else lambda: _store(tensor, data))

    def _allreduce_gathered(self, tensors: _Tensors, opts: Any, combine: Callable[[_Tensor, _Tensor], _Tensor]) -> Any:
        """For a reduction that halay lacks: all ranks' data, reduced here."""
        tensor = tensors[0]
        data = _plain(tensor).view(-1)
        rows = data.new_empty((self._size, data.numel()))
        request = self._channel.submit(Collective.ALLGATHER, data, rows, (data.numel(),), _timeout(opts))

        def finish() -> None:
            result = rows[0]
            for row in rows[1:]:
                result = combine(result, row)
            _store(tensor, result)

        return request, tensors, "all_reduce", finish

    def _allreduce_sparse(self, tensors: _Tensors, opts: Any) -> Any:
        """Two all-gathers, of the indices and of the values, and the sum here; entries may differ between the ranks."""
        if _kind(opts) != _kinds.SUM:
            raise ValueError("halay: an all-reduce of sparse tensors takes SUM only")
        tensor = tensors[0]
        local = tensor.coalesce()
        places, values = local.indices().t().contiguous(), local.values().contiguous()
        counts = torch.empty(self._size, dtype=torch.int64)
        own = torch.tensor([places.shape[0]])
        Work(self._channel.submit(Collective.ALLGATHER, own, counts, (1,), _timeout(opts)), None, "nnz").wait()
        of_all = int(counts.sum())
        all_places = places.new_empty((of_all, *places.shape[1:]))
        all_values = values.new_empty((of_all, *values.shape[1:]))
        works = []
        for part, whole in ((places, all_places), (values, all_values)):
            request = self._channel.submit(Collective.ALLGATHER, part, whole, _rows(part), _timeout(opts))
            works.append(Work(request, [], "all_reduce"))

        def finish() -> None:
            tensor.copy_(torch.sparse_coo_tensor(all_places.t(), all_values, tensor.shape).coalesce())

        return self._together(works, tensors, finish)

    def allreduce_coalesced(self, tensors: _Tensors, opts: Any = None) -> Any:
        _check_written(tensors)
        kind = _kind(opts)
        if kind == _XOR:
            works = [Work(*self._allreduce_gathered([t], opts, torch.bitwise_xor)) for t in tensors]
            return self._together(works, tensors)
        data = [_plain(tensor) for tensor in tensors]
        request = self._channel.submit_group(data, _timeout(opts), reduction=_reduction(kind))

        def finish() -> None:
            for tensor, result in zip(tensors, data):
                if tensor is not result:
                    _store(tensor, result)

        return self._work(request, tensors, "all_reduce_coalesced", finish)

    def reduce(self, tensors: _Tensors, opts: Any) -> Any:
        _check_written(tensors)
        tensor, here = tensors[0], self._rank == self._root(opts)
        data = _plain(tensor)
        request = self._channel.submit(
            Collective.REDUCE,
            data,
            data if here else None,
            (data.numel(),),
            _timeout(opts),
            reduction=_reduction(_kind(opts)),
            root=self._channel.ranks[opts.rootRank],
        )
        finish = None if data is tensor or not here else lambda: _store(tensor, data)
        return self._work(request, tensors, "reduce", finish)

    def reduce_scatter_single(self, output: _Tensor, input: _Tensor, opts: Any = None) -> Any:
        return self._work(*self._reduce_scatter(output, input, opts))

    def _reduce_scatter(self, output: _Tensor, input: _Tensor, opts: Any) -> Any:
        _check([input])
        _check_written([output])
        _check_alike("reduce_scatter_tensor", [output, input])
        if input.numel() != output.numel() * self._size:
            raise ValueError(
                f"halay: reduce_scatter_tensor: the input has {input.numel()} elements, and {self._size} ranks with an "
                f"output of {output.numel()} elements need {output.numel() * self._size}"
            )
        data, part = _plain(input), _plain(output)
        request = self._channel.submit(
            Collective.REDUCE_SCATTER,
            data,
            part,
            (self._size, part.numel()),
            _timeout(opts),
            reduction=_reduction(_kind(opts)),
        )
        return request, [output], "reduce_scatter", None if part is output else lambda: _store(output, part)

    def reduce_scatter(self, outputs: _Tensors, inputs: List[_Tensors], opts: Any = None) -> Any:
        _check(inputs[0])
        _check_written(outputs)
        _check_alike("reduce_scatter", outputs + inputs[0])
        _check_count("reduce_scatter", inputs[0], self._size)
        sizes = [part.numel() for part in inputs[0]]
        if outputs[0].numel() != sizes[self._rank]:
            raise ValueError("halay: reduce_scatter: the output differs in size from this rank's part of the input")
        data = torch.cat([_plain(part).view(-1) for part in inputs[0]])
        part = data.new_empty(sizes[self._rank])
        request = self._channel.submit(
            Collective.REDUCE_SCATTER,
            data,
            part,
            (data.numel(),),
            _timeout(opts),
            reduction=_reduction(_kind(opts)),
            splits=self._channel.sizes(sizes),
        )
        return self._work(request, outputs, "reduce_scatter", lambda: _store(outputs[0], part))

    def reduce_scatter_single_coalesced(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> Any:
        works = [Work(*self._reduce_scatter(output, input, opts)) for output, input in zip(outputs, inputs)]
        return self._together(works, outputs)

    # ---- data that only move ----

    def broadcast(self, tensors: _Tensors, opts: Any) -> Any:
        _check_written(tensors)
        tensor, data = tensors[0], _bytes_of(tensors[0])
        request = self._channel.submit(
            Collective.BROADCAST,
            None,
            data,
            (data.numel(),),
            _timeout(opts),
            root=self._channel.ranks[self._root(opts)],
        )
        return self._work(
            request, tensors, "broadcast", None if _is_plain(tensor) else lambda: _store(tensor, data)
        )

    def all_gather_single(self, output: _Tensor, input: _Tensor, opts: Any = None) -> Any:
        return self._work(*self._all_gather(output, input, opts))

    def _all_gather(self, output: _Tensor, input: _Tensor, opts: Any) -> Any:
        _check([input])
        _check_written([output])
        if output.numel() != input.numel() * self._size or output.dtype != input.dtype:
            raise ValueError(
                f"halay: all_gather_into_tensor: the output has {output.numel()} elements of {output.dtype}, and "
                f"{self._size} ranks give {input.numel()} elements of {input.dtype} each"
            )
        data, whole = _bytes_of(input), _bytes_of(output)
        request = self._channel.submit(Collective.ALLGATHER, data, whole, (1, data.numel()), _timeout(opts))
        finish = None if _is_plain(output) else lambda: _store(output, whole)
        return request, [output], "all_gather_into_tensor", finish

    def allgather(self, outputs: List[_Tensors], inputs: _Tensors, opts: Any = None) -> Any:
        """The value of its future is one tensor, as of NCCL, which some hooks of DDP rely on: a row for each rank."""

        def value() -> Any:
            alike = all(part.shape == outputs[0][0].shape for part in outputs[0])
            return [torch.stack(outputs[0])] if alike else outputs

        request, _, what, finish = self._all_gather_list(outputs, inputs, opts)
        return self._work(request, outputs, what, finish, value)

    def _all_gather_list(self, outputs: List[_Tensors], inputs: _Tensors, opts: Any) -> Any:
        """The tensors may differ in size between ranks."""
        parts = outputs[0]
        _check(inputs[:1])
        _check_written(parts)
        _check_alike("all_gather", parts + inputs[:1])
        if len(parts) != self._size:
            raise ValueError(f"halay: all_gather: {len(parts)} outputs for {self._size} ranks")
        data = _bytes_of(inputs[0])
        sizes = [part.numel() * part.element_size() // data.element_size() for part in parts]
        whole = data.new_empty(sum(sizes))
        request = self._channel.submit(Collective.ALLGATHER, data, whole, (data.numel(),), _timeout(opts))
        return request, outputs, "all_gather", lambda: _deal_out(request, "all_gather", whole, sizes, parts)

    def allgather_coalesced(self, outputs: List[_Tensors], inputs: _Tensors, opts: Any = None) -> Any:
        works = []
        for place, input in enumerate(inputs):
            works.append(Work(*self._all_gather_list([[row[place] for row in outputs]], [input], opts)))
        return self._together(works, outputs)

    def all_gather_single_coalesced(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> Any:
        works = [Work(*self._all_gather(output, input, opts)) for output, input in zip(outputs, inputs)]
        return self._together(works, outputs)

    def all_to_all_single(
        self, output: _Tensor, input: _Tensor, output_splits: List[int], input_splits: List[int], opts: Any = None
    ) -> Any:
        _check([input])
        _check_written([output])
        _check_alike("all_to_all_single", [output, input])
        self._check_splits("input", input, input_splits)
        self._check_splits("output", output, output_splits)
        rows = input.shape[0]
        columns = math.prod(input.shape[1:])
        data, received = _plain(input), _plain(output)
        if data.dtype not in DTYPES:
            data, received, columns = data.view(torch.uint8), received.view(torch.uint8), columns * data.element_size()
        request = self._channel.submit(
            Collective.ALLTOALL,
            data,
            received,
            (rows, columns),
            _timeout(opts),
            splits=self._channel.sizes(input_splits) if input_splits else None,
        )

        def finish() -> None:
            if output_splits:
                _check_rows("all_to_all_single", request, output_splits)
            if not _is_plain(output):
                _store(output, received)

        return self._work(request, [output], "all_to_all_single", finish)

    def _check_splits(self, what: str, tensor: _Tensor, splits: Sequence[int]) -> None:
        if not tensor.dim():
            raise ValueError(f"halay: all_to_all_single: the {what} is a scalar, which has no rows")
        rows = tensor.shape[0]
        if not splits and rows % self._size:
            raise ValueError(f"halay: all_to_all_single: {rows} rows of the {what}, {self._size} ranks, no splits")
        if splits and (len(splits) != self._size or sum(splits) != rows):
            raise ValueError(
                f"halay: all_to_all_single: splits {list(splits)} of the {what}'s {rows} rows for {self._size} ranks"
            )

    def alltoall(self, outputs: _Tensors, inputs: _Tensors, opts: Any = None) -> Any:
        _check(inputs)
        _check_written(outputs)
        _check_alike("all_to_all", outputs + inputs)
        _check_count("all_to_all", inputs, self._size)
        _check_count("all_to_all", outputs, self._size)
        data = torch.cat([_bytes_of(part) for part in inputs])
        sizes = [part.numel() * part.element_size() // data.element_size() for part in outputs]
        received = data.new_empty(sum(sizes))
        splits = [part.numel() * part.element_size() // data.element_size() for part in inputs]
        request = self._channel.submit(
            Collective.ALLTOALL, data, received, (data.numel(),), _timeout(opts), splits=self._channel.sizes(splits)
        )
        return self._work(
            request, outputs, "all_to_all", lambda: _deal_out(request, "all_to_all", received, sizes, outputs)
        )

    def gather(self, outputs: List[_Tensors], inputs: _Tensors, opts: Any) -> Any:
        """The tensors may differ in size between ranks."""
        here = self._rank == self._root(opts)
        parts = outputs[0] if here else []
        _check(inputs)
        _check_written(parts)
        _check_alike("gather", parts + inputs)
        if here:
            _check_count("gather", parts, self._size)
        data = _bytes_of(inputs[0])
        sizes = [part.numel() * part.element_size() // data.element_size() for part in parts]
        whole = data.new_empty(sum(sizes))
        root = self._channel.ranks[opts.rootRank]
        request = self._channel.submit(Collective.GATHER, data, whole, (data.numel(),), _timeout(opts), root=root)
        finish = (lambda: _deal_out(request, "gather", whole, sizes, parts)) if here else None
        return self._work(request, outputs, "gather", finish)

    def scatter(self, outputs: _Tensors, inputs: List[_Tensors], opts: Any) -> Any:
        """The tensors may differ in size between ranks."""
        here = self._rank == self._root(opts)
        parts = inputs[0] if here else []
        _check(parts)
        _check_written(outputs)
        _check_alike("scatter", parts + outputs)
        if here:
            _check_count("scatter", parts, self._size)
        part = torch.empty_like(_bytes_of(outputs[0]))
        data = [_bytes_of(each) for each in parts]
        rows = torch.cat(data) if here else part.new_empty(0)
        request = self._channel.submit(
            Collective.SCATTER,
            rows,
            part,
            (rows.numel(),),
            _timeout(opts),
            root=self._channel.ranks[opts.rootRank],
            splits=self._channel.sizes([each.numel() for each in data]) if here else None,
        )

        def finish() -> None:
            request.wait()
            request.rows = [sum(request.rows or ())]  # all of them from the root
            _check_rows("scatter", request, [part.numel()])
            _store(outputs[0], part)

        return self._work(request, outputs, "scatter", finish)

    # ---- points and barriers ----

    def send(self, tensors: _Tensors, peer: int, tag: int = 0) -> Any:
        _check(tensors)
        request = self._channel.point_to_point(Collective.SEND, _bytes_of(tensors[0]), peer, tag)
        return self._message(request, tensors, f"send to {peer}, tag {tag}")

    def recv(self, tensors: _Tensors, peer: int, tag: int = 0) -> Any:
        return self._message(*self._receive(tensors, peer, tag))

    def recv_anysource(self, tensors: _Tensors, tag: int = 0) -> Any:
        return self._message(*self._receive(tensors, None, tag))

    recvAnysource = recv_anysource

    def _receive(self, tensors: _Tensors, peer: Optional[int], tag: int) -> Any:
        _check_written(tensors)
        tensor, data = tensors[0], _bytes_of(tensors[0])
        request = self._channel.point_to_point(Collective.RECEIVE, data, peer, tag)
        finish = None if _is_plain(tensor) else lambda: _store(tensor, data)
        return request, tensors, f"receive from {'any' if peer is None else peer}, tag {tag}", finish

    def _message(self, request: Request, tensors: _Tensors, what: str, finish: Any = None) -> Any:
        return self._hand_over(Work(request, tensors, what, finish, self._channel.ranks))

    def barrier(self, opts: Any = None) -> Any:
        return self._work(self._channel.submit(Collective.BARRIER, None, None, (), _timeout(opts)), [], "barrier")

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier of its own time-out. The error names all missing ranks, with or without wait_all_ranks."""
        limit = max(1, milliseconds(timeout)) if isinstance(timeout, timedelta) else _timeout(timeout)
        Work(self._channel.submit(Collective.BARRIER, None, None, (), limit), [], "monitored_barrier").wait()

    # ---- the group ----

    def _together(self, works: List[Any], outputs: Any, finish: Optional[Callable[[], Any]] = None) -> Any:
        return self._hand_over(Together(works, outputs, finish))

    def getBackendName(self) -> str:
        return "halay"

    def name(self) -> str:
        return "halay"

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def abort(self) -> None:
        """End everything in flight on all ranks of the job, not this group's alone."""
        self._channel.engine.abort(f"the process group '{self._channel.label}' was aborted")

    def shutdown(self) -> None:
        self._channel.close()

    def _set_sequence_number_for_group(self) -> None:
        pass  # numbers are there from the start

    def _get_sequence_number_for_group(self) -> int:
        return self._channel.sequence

    def set_timeout(self, timeout: timedelta) -> None:
        """The time-out of what is submitted from now on."""
        self._channel.timeout_ms = milliseconds(timeout)

    _set_default_timeout = set_timeout

    # What earlier versions of torch call them.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single


_Backend: Any = getattr(_c10d, "Backend", object)
PYTHON_BACKENDS = hasattr(_Backend, "all_gather_single")


class DeviceGroup(Collectives, _Backend):
    """What serves one device of a group whose other devices have other backends."""

    def __init__(self, channel: Channel, opts: Any) -> None:
        _Backend.__init__(self, opts.group_rank, opts.group_size)
        self._open(channel, opts)

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return False


class Group(Collectives, dist.ProcessGroup):
    """A process group whose every device is halay's."""

    def __init__(self, channel: Channel, opts: Any) -> None:
        dist.ProcessGroup.__init__(self, opts.group_rank, opts.group_size)
        self._group_name = str(opts.group_id)
        self._description = "undefined"
        self._open(channel, opts)
        if PYTHON_BACKENDS:  # for C++ that asks a group for its backend
            kind = dist.ProcessGroup.BackendType.CUSTOM
            self._set_default_backend(kind)
            for device in ["cpu", "cuda"][:1 + torch.cuda.is_available()]:
                self._register_backend(torch.device(device), kind, DeviceGroup(channel, opts))

    def getGroupName(self) -> str:
        return self._group_name

    @property
    def group_name(self) -> str:
        """Before torch 2.6 the property of C++ does not ask getGroupName."""
        return self._group_name

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def _start_coalescing(self, *device: Any) -> None:
        """Torch begins a batch of tensors on a device. Before torch 2.1 it names none, and keeps the works itself."""
        self._batch = [] if device else None
        self._is_batch_over = _watch_block()

    def _end_coalescing(self, *device: Any) -> Any:
        """The work of all that were started since."""
        works, self._batch = self._batch, None
        return None if works is None else self._hand_over(Together(works, [work.result() for work in works]))

    # Names of C++ that torch's trampolines look for.
    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing


def _watch_block() -> Callable[[], bool]:
    """Whether the with-block is over that torch has begun as it called the method that asks: contextlib's manager of a
    block lives as long as the block."""
    try:
        frame = sys._getframe(3)
    except ValueError:  # called from the top of a module
        return lambda: False
    manager = frame.f_locals.get("self") if frame.f_globals.get("__name__") == "contextlib" else None
    if manager is None:
        return lambda: False
    alive = weakref.ref(manager)
    return lambda: alive() is None


def create(opts: Any, options: Any = None) -> Any:
    """What torch calls to make a group, or one backend of a group."""
    if PYTHON_BACKENDS and _is_one_of_several():
        return DeviceGroup(Channel(opts), opts)
    return Group(Channel(opts), opts)


def _is_one_of_several() -> bool:
    """Whether the group that is being made has another backend for another device; torch does not say so otherwise."""
    maker = sys._getframe(2)
    config = maker.f_locals.get("backend_config")
    return config is None or len(set(config.get_device_backend_map().values())) > 1
