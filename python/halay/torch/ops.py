# SPDX-License-Identifier: Apache-2.0
"""The collectives: at once, in the background (`_async`), in place (`_`), and of several tensors (`grouped_`).

Those that return a tensor are functions that autograd knows. A name is of its operation and process set; all ranks give
the same, or none: then the order of such calls must be the same on all ranks.
"""
from __future__ import annotations

import warnings
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from halay import buffers
from halay.torch import _job
from halay.torch._job import HorovodInternalError
from halay.torch.compression import Compression
from halay.torch.process_sets import ProcessSet, global_process_set

Average, Sum, Adasum, Min, Max, Product = range(6)
REDUCTIONS = {Average: "average", Sum: "sum", Adasum: "adasum", Min: "min", Max: "max", Product: "product"}

_WIRE_TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}

Splits = Union[None, torch.Tensor, Sequence[int]]


class Handle:
    """What an asynchronous call returns: for poll() and synchronize()."""

    __slots__ = ("_requests", "_finish", "_device")

    def __init__(self, requests: Sequence[Any], finish: Callable[[], Any], device: Optional[torch.device] = None
                 ) -> None:
        self._requests = requests
        self._finish: Optional[Callable[[], Any]] = finish
        self._device = device  # whose current stream follows the result, not the host

    def poll(self) -> bool:
        return all(request.poll() for request in self._requests)

    def wait(self) -> Any:
        finish, self._finish = self._finish, None
        if finish is None:
            return None
        error = None
        for request in self._requests:
            try:
                _job.wait(request, self._device)
            except HorovodInternalError as e:
                error = error or e
        if error:
            raise error
        return finish()


def _check_handle(handle: Any) -> Handle:
    if not isinstance(handle, Handle):
        raise ValueError("a handle is what an asynchronous call returns, not %r" % (handle,))
    return handle


def poll(handle: Handle) -> bool:
    """Whether it has ended, well or not: synchronize() would not block."""
    return _check_handle(handle).poll()


def synchronize(handle: Handle) -> Any:
    """Wait for an asynchronous call and return its result: a tensor, a list of them, or a tuple. None: it was waited
    for before. HorovodInternalError: it failed; the text names the tensor and the ranks.

    A result on a GPU may still be under way there when this returns: the current stream follows it."""
    return _check_handle(handle).wait()


def _choose_op(op: Optional[int], average: Optional[bool]) -> int:
    if op is not None:
        if average is not None:
            raise ValueError('The op parameter supersedes average. Please provide only one of them.')
        return op
    if average is not None:
        warnings.warn('Parameter `average` has been replaced with `op` and will be removed in v1.0', DeprecationWarning)
        return Average if average else Sum
    return Average


def check_kind(*tensors: torch.Tensor) -> None:
    """TypeError or ValueError if their elements are not what the engine takes, on any device."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("a tensor is expected, not %r" % type(tensor).__name__)
        fault = buffers.torch_fault(tensor)
        if tensor.dtype not in _job.TYPES or fault:
            kind = str(tensor.dtype) if fault else tensor.type()
            raise ValueError('Tensor type %s is not supported%s' % (kind, ": " + fault if fault else "."))
        if tensor.device.type == "meta":
            raise ValueError("the tensor is on 'meta', which holds no data")


def check(*tensors: torch.Tensor) -> None:
    """The same, before anything is sent, if they are not what the engine takes."""
    check_kind(*tensors)
    if not all(tensor.is_contiguous() for tensor in tensors):
        raise ValueError('Tensor is required to be contiguous.')


def reachable(tensor: torch.Tensor) -> torch.Tensor:
    """The data where the engine reaches them: the tensor itself, or a copy in main memory."""
    return tensor.detach() if _job.reaches(tensor.device) else tensor.detach().cpu()


def _on_device(like: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    device = like.device
    return (lambda t: t) if _job.reaches(device) else (lambda t: t.to(device))


def _device(*tensors: torch.Tensor) -> Optional[torch.device]:
    """The GPU that the engine works on, if there is one."""
    return next((tensor.device for tensor in tensors if tensor.device.type == "cuda"), None)


def _whole(op: int, prescale: float, postscale: float, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether this is an average of integers, which the engine does not have and a double would round."""
    return op == Average and prescale == postscale == 1 and \
        any(not t.dtype.is_floating_point and t.dtype != torch.bool for t in tensors)


def _addends(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Of an average of integers over this number of ranks: what is to be summed, so that nothing overflows. int64 is
    split into quotients and remainders, others travel in a wider type."""
    if tensor.dtype.is_floating_point:
        return tensor.clone()
    if tensor.dtype == torch.int64:
        return torch.stack([tensor.div(size, rounding_mode="floor"), tensor.remainder(size)], -1)
    return tensor.to(torch.int32 if tensor.element_size() <= 2 and size < 1 << 15 else torch.int64)


def _average(sums: torch.Tensor, dtype: torch.dtype, size: int) -> torch.Tensor:
    """The average, of the sums of such addends, cut towards zero."""
    keep_for_reader(sums)
    if dtype.is_floating_point:
        return sums / size
    if dtype != torch.int64:
        return sums.div(size, rounding_mode="trunc").to(dtype)
    quotient, rest = sums.unbind(-1)
    quotient = quotient + rest.div(size, rounding_mode="floor")
    return quotient + ((quotient < 0) & (rest.remainder(size) != 0)).to(dtype)


# ---- all-reduce -----------------------------------------------------------------------------------------------------

def _reduction(op: int, prescale: float, postscale: float, tensors: Sequence[torch.Tensor], process_set: ProcessSet,
               for_what: str) -> dict:
    """The engine's reduction and factors. It averages no integers: they are summed, and scaled after it (but see
    _whole)."""
    if op not in REDUCTIONS:
        raise ValueError("%s: unknown reduction %r" % (for_what, op))
    if op == Adasum and process_set.process_set_id != 0:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    if op == Average and any(t.dtype == torch.bool for t in tensors):
        raise ValueError("%s: bool has no average; Max is \"or\" and Min is \"and\"" % for_what)
    if op == Average and any(not t.dtype.is_floating_point for t in tensors):
        op, postscale = Sum, postscale / process_set.size()
    return dict(reduction=REDUCTIONS[op], prescale=prescale, postscale=postscale)


def keep_for_reader(tensor: torch.Tensor) -> None:
    """The current stream reads a tensor that another may have allocated, and the caller drops it: on a GPU its memory
    is given out again after that, not at once in the other stream."""
    if tensor.device.type == "cuda":
        for part in (tensor._indices(), tensor._values()) if tensor.is_sparse else (tensor,):
            part.record_stream(torch.cuda.current_stream(tensor.device))


def _put(output: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    keep_for_reader(data)
    output.detach().copy_(data)
    return output


def _start_allreduce(tensor: torch.Tensor, output: torch.Tensor, name: Optional[str], op: int, prescale: float,
                     postscale: float, process_set: ProcessSet) -> Handle:
    check(tensor)
    how = _reduction(op, prescale, postscale, [tensor], process_set, "allreduce")
    source = reachable(tensor)
    if _whole(op, prescale, postscale, [tensor]):
        size = process_set.size() or 1
        sums = _addends(source, size)
        request = _job.submit("allreduce", name, process_set, sums, sums, **_reduction(Sum, 1, 1, [], process_set, ""))
        return Handle([request], lambda: _put(output, _average(sums, tensor.dtype, size)), _device(sums))
    target = source if output is tensor else output if _job.reaches(output.device) else torch.empty_like(source)
    request = _job.submit("allreduce", name, process_set, source, target, **how)
    if target.data_ptr() == output.data_ptr():
        return Handle([request], lambda: output, _device(source))
    return Handle([request], lambda: _put(output, target))


def start_flat(flat: torch.Tensor, name: str, op: int, prescale: float, postscale: float, wire: str,
               process_set: ProcessSet) -> Handle:
    """A bucket of gradients, in place. wire: what float32 travels as. On a GPU it is converted there: the engine does
    so in main memory."""
    how = _reduction(op, prescale, postscale, [flat], process_set, "allreduce")
    wire = wire if flat.dtype == torch.float32 else "as-is"
    if flat.device.type == "cuda" and wire != "as-is":
        small = flat.to(_WIRE_TYPES[wire])
        request = _job.submit("allreduce", name, process_set, small, small, **how)

        def finish() -> torch.Tensor:
            return _put(flat, small)
        return Handle([request], finish, flat.device)
    request = _job.submit("allreduce", name, process_set, flat, flat, wire=wire, **how)
    return Handle([request], lambda: flat, _device(flat))


def allreduce_async(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                    op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Begin to reduce a tensor over all ranks. op: Average (the default), Sum, Adasum, Min, Max, Product. Each rank's
    elements are multiplied by prescale_factor before, the result by postscale_factor after it. An average of integers
    is exact and cut towards zero; with factors it is computed in float64, of a sum that may wrap around. average: of
    before Horovod 0.19; use op."""
    check(tensor)
    return _start_allreduce(tensor, torch.empty_like(tensor), name, _choose_op(op, average), prescale_factor,
                            postscale_factor, process_set)


def allreduce_async_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
                     op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """The same in place: the tensor must not be touched until synchronize() has returned."""
    return _start_allreduce(tensor, tensor, name, _choose_op(op, average), prescale_factor, postscale_factor,
                            process_set)


def allreduce_(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
               op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Reduce a tensor in place."""
    return synchronize(allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set))


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, prescale: float, postscale: float,
                process_set: ProcessSet) -> torch.Tensor:
        ctx.how = (op, prescale, postscale, process_set)
        ctx.name = name if name is None else name + ".gradient"
        return synchronize(allreduce_async(tensor, None, name, *ctx.how))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple:
        op, prescale, postscale, process_set = ctx.how
        return allreduce(grad.contiguous(), name=ctx.name, op=op, prescale_factor=prescale,
                         postscale_factor=postscale, process_set=process_set), None, None, None, None, None


def allreduce(tensor: torch.Tensor, average: Optional[bool] = None, name: Optional[str] = None,
              compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensor, reduced over all ranks; allreduce_async() has the meaning of the arguments."""
    check(tensor)
    small, ctx = compression.compress(tensor)
    reduced = _Allreduce.apply(small, name, _choose_op(op, average), prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, ctx)


def _start_group(tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], name: Optional[str], op: int,
                 prescale: float, postscale: float, process_set: ProcessSet) -> Handle:
    check(*tensors)
    how = _reduction(op, prescale, postscale, tensors, process_set, "grouped_allreduce")
    sources = [reachable(t) for t in tensors]
    if _whole(op, prescale, postscale, tensors):
        size = process_set.size() or 1
        sums = [_addends(source, size) for source in sources]
        how.update(_reduction(Sum, 1, 1, [], process_set, "grouped_allreduce"))
        request = _job.submit("allreduce", name, process_set, members=list(zip(sums, sums)), kind="grouped_allreduce",
                              **how)
        return Handle([request], lambda: [_put(o, _average(part, t.dtype, size))
                                          for o, part, t in zip(outputs, sums, tensors)], _device(*sums))
    targets = [s if o is t else o if _job.reaches(o.device) else torch.empty_like(s)
               for s, o, t in zip(sources, outputs, tensors)]
    request = _job.submit("allreduce", name, process_set, members=list(zip(sources, targets)), kind="grouped_allreduce",
                          **how)

    def finish() -> List[torch.Tensor]:
        return [o if o.data_ptr() == t.data_ptr() else _put(o, t) for o, t in zip(outputs, targets)]
    return Handle([request], finish, _device(*sources))


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                            op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """Begin to reduce several tensors as one: they start when all ranks have submitted all, and end together."""
    check(*tensors)
    return _start_group(tensors, [torch.empty_like(t) for t in tensors], name, _choose_op(op, average), prescale_factor,
                        postscale_factor, process_set)


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None,
                             name: Optional[str] = None, op: Optional[int] = None, prescale_factor: float = 1.0,
                             postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> Handle:
    """The same in place."""
    return _start_group(tensors, tensors, name, _choose_op(op, average), prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                       op: Optional[int] = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """Reduce several tensors as one, in place."""
    return synchronize(grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor,
                                                process_set))


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet,
                *tensors: torch.Tensor) -> Tuple:
        ctx.how = (op, prescale, postscale, process_set)
        return tuple(synchronize(grouped_allreduce_async(tensors, None, name, *ctx.how)))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple:
        op, prescale, postscale, process_set = ctx.how
        return (None, None, None, None, None,
                *grouped_allreduce([g.contiguous() for g in grads], op=op, prescale_factor=prescale,
                                   postscale_factor=postscale, process_set=process_set))


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: Optional[bool] = None, name: Optional[str] = None,
                      compression: Any = Compression.none, op: Optional[int] = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """The tensors, reduced as one over all ranks."""
    check(*tensors)
    small = [compression.compress(t) for t in tensors]
    reduced = _GroupedAllreduce.apply(name, _choose_op(op, average), prescale_factor, postscale_factor, process_set,
                                      *(t for t, _ in small))
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(reduced, small)]


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: int,
                           process_set: ProcessSet = global_process_set) -> Callable[[], torch.Tensor]:
    """Begin to reduce a sparse tensor (Average or Sum): indices and values of all ranks are gathered. What is returned
    is called to wait and gives the sparse sum, in which an index may be there several times."""
    if op not in (Average, Sum):
        raise ValueError("sparse tensors are reduced with Average or Sum only")
    indices = allgather_async(tensor._indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(tensor._values().contiguous(), f"{name}.values", process_set)

    def wait() -> torch.Tensor:
        all_values, all_indices = synchronize(values), synchronize(indices)
        keep_for_reader(all_values)
        keep_for_reader(all_indices)
        if op == Average and all_values.dtype.is_floating_point:
            all_values = all_values / process_set.size()
        total = torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.size())
        if op == Average and not all_values.dtype.is_floating_point:  # of the sum, not of each part of it
            total = total.coalesce()
            cut = total.values().div(process_set.size(), rounding_mode="trunc")
            return torch.sparse_coo_tensor(total.indices(), cut, tensor.size())
        return total
    return wait


# ---- all-gather -----------------------------------------------------------------------------------------------------

def _start_allgather(tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet,
                     kind: str = "allgather") -> Tuple[Any, Callable[[], torch.Tensor]]:
    source, to_device = reachable(tensor), _on_device(tensor)
    request = _job.submit("allgather", name, process_set, source, kind=kind)
    return request, lambda: to_device(_job.result(request)[0])


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Begin to gather the rows of all ranks, one rank's after the other's. Ranks may give different numbers of rows;
    the other dimensions are equal."""
    check(tensor)
    request, finish = _start_allgather(tensor, name, process_set)
    return Handle([request], finish)


def _part_of_this_rank(grad: torch.Tensor, rows: int, process_set: ProcessSet) -> torch.Tensor:
    all_rows = allgather(torch.tensor([rows]), process_set=process_set).tolist()
    return grad.narrow(0, sum(all_rows[:process_set.rank()]), rows)


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], process_set: ProcessSet) -> torch.Tensor:
        ctx.rows, ctx.process_set = tensor.shape[0] if tensor.dim() else 0, process_set
        return synchronize(allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple:
        grad = allreduce(grad.contiguous(), op=Average, process_set=ctx.process_set)
        return _part_of_this_rank(grad, ctx.rows, ctx.process_set), None, None


def allgather(tensor: torch.Tensor, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The rows of all ranks. The gradient is averaged over the ranks, as in Horovod."""
    check(tensor)
    return _Allgather.apply(tensor, name, process_set)


def _many(name: Optional[str], kind: str, count: int, process_set: ProcessSet) -> List[str]:
    base = name if name is not None else _job.next_name(kind, process_set)
    return ["%s_%dof%d" % (base, i + 1, count) for i in range(count)]


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                            process_set: ProcessSet = global_process_set) -> Handle:
    """Begin to gather several tensors."""
    check(*tensors)
    names = _many(name, "grouped_allgather", len(tensors), process_set)
    started = [_start_allgather(t, n, process_set) for t, n in zip(tensors, names)]
    return Handle([request for request, _ in started], lambda: [finish() for _, finish in started])


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor) -> Tuple:
        ctx.rows, ctx.process_set = [t.shape[0] if t.dim() else 0 for t in tensors], process_set
        return tuple(synchronize(grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple:
        reduced = grouped_allreduce([g.contiguous() for g in grads], op=Average, process_set=ctx.process_set)
        return (None, None, *(_part_of_this_rank(g, rows, ctx.process_set) for g, rows in zip(reduced, ctx.rows)))


def grouped_allgather(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                      process_set: ProcessSet = global_process_set) -> List[torch.Tensor]:
    """The rows of all ranks, of several tensors."""
    check(*tensors)
    return list(_GroupedAllgather.apply(name, process_set, *tensors))


# ---- broadcast ------------------------------------------------------------------------------------------------------

def _start_broadcast(tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: Optional[str],
                     process_set: ProcessSet) -> Handle:
    check(tensor)
    if process_set.ranks is not None and root_rank not in process_set.ranks:
        raise ValueError("broadcast received invalid root rank %s for provided process set" % root_rank)
    data = reachable(output)
    request = _job.submit("broadcast", name, process_set, data, data, root=root_rank)
    if data.data_ptr() == output.data_ptr():
        return Handle([request], lambda: output, _device(data))
    return Handle([request], lambda: _put(output, data))


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                    process_set: ProcessSet = global_process_set) -> Handle:
    """Begin to give every rank the root's tensor. root_rank is a rank of the job, in a process set too."""
    check(tensor)
    return _start_broadcast(tensor, tensor.detach().clone(), root_rank, name, process_set)


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Handle:
    """The same in place."""
    return _start_broadcast(tensor, tensor, root_rank, name, process_set)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """Set the tensor to the root's."""
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: Optional[str],
                process_set: ProcessSet) -> torch.Tensor:
        ctx.root_rank, ctx.process_set = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple:
        grad = allreduce(grad.contiguous(), op=Average, process_set=ctx.process_set)
        return grad if _job.rank() == ctx.root_rank else torch.zeros_like(grad), None, None, None


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The root's tensor. The root's gradient is averaged over the ranks, as in Horovod; the others' is 0."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


# ---- all-to-all -----------------------------------------------------------------------------------------------------

def _splits(tensor: torch.Tensor, splits: Splits, process_set: ProcessSet) -> Optional[List[int]]:
    if splits is None:
        if not tensor.dim() or tensor.shape[0] % process_set.size():
            raise ValueError("splits not provided, but first dimension of tensor is not an even multiple of the number "
                             "of workers.")
        return None
    if isinstance(splits, torch.Tensor):
        if splits.dtype != torch.int32:
            raise ValueError("alltoall expects splits to contain 32-bit integer elements.")
        if splits.dim() != 1:
            raise ValueError("alltoall expects a 1D splits tensor")
    given = [int(n) for n in splits]
    if len(given) != process_set.size():
        raise ValueError("Number of entries in splits does not equal number of workers.")
    if sum(given) > (tensor.shape[0] if tensor.dim() else 0):
        raise ValueError("Sum of splits entries is greater than the first dimension of tensor.")
    return given


def alltoall_async(tensor: torch.Tensor, splits: Splits = None, name: Optional[str] = None,
                   process_set: ProcessSet = global_process_set) -> Handle:
    """Begin to send rows to every rank: splits has how many to each (32-bit integers), by default the same number.
    synchronize() gives the received rows, in order of rank, and how many each rank sent."""
    check(tensor)
    request = _job.submit("alltoall", name, process_set, reachable(tensor),
                          splits=_splits(tensor, splits, process_set))
    to_device = _on_device(tensor)
    like = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)

    def finish() -> Tuple[torch.Tensor, torch.Tensor]:
        data, rows = _job.result(request)
        return to_device(data), torch.tensor(rows, dtype=like.dtype, device=like.device)
    return Handle([request], finish)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Splits, name: Optional[str],
                process_set: ProcessSet) -> Tuple:
        output, received = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set, ctx.rows = received, process_set, tensor.shape[0]
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> Tuple:
        grad, _ = alltoall(grad.contiguous(), ctx.received, process_set=ctx.process_set)
        if grad.shape[0] < ctx.rows:  # rows that no rank got
            grad = torch.cat([grad, grad.new_zeros((ctx.rows - grad.shape[0], *grad.shape[1:]))])
        return grad, None, None, None


def alltoall(tensor: torch.Tensor, splits: Splits = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """The rows that the ranks have sent to this one; with splits also how many each of them sent."""
    check(tensor)
    output, received = _Alltoall.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)


# ---- reduce-scatter -------------------------------------------------------------------------------------------------

def _start_reducescatter(tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, prescale: float,
                         postscale: float) -> Tuple[Any, Callable[[], torch.Tensor]]:
    """The request, and what makes the result of its out, which is there."""
    if op not in (Average, Sum):
        raise HorovodInternalError("Reducescatter currently only supports AVERAGE and SUM.")
    how = _reduction(op, prescale, postscale, [tensor], process_set, "reducescatter")
    source, to_device = reachable(tensor), _on_device(tensor)
    if _whole(op, prescale, postscale, [tensor]) and tensor.dim():
        size = process_set.size() or 1
        how.update(_reduction(Sum, 1, 1, [], process_set, "reducescatter"))
        request = _job.submit("reducescatter", name, process_set, _addends(source, size), **how)
        return request, lambda: to_device(_average(request.out, tensor.dtype, size))
    request = _job.submit("reducescatter", name, process_set, source, **how)
    return request, lambda: to_device(request.out)


def reducescatter_async(tensor: torch.Tensor, name: Optional[str] = None, op: int = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> Handle:
    """Begin to reduce a tensor (Average or Sum) and to deal out its rows: the first ranks get one more where the number
    does not come out even."""
    check(tensor)
    request, finish = _start_reducescatter(tensor, name, op, process_set, prescale_factor, postscale_factor)
    return Handle([request], finish, _device(request.out))


def _scatter_factor(op: int, prescale: float, postscale: float, process_set: ProcessSet) -> float:
    return prescale * postscale * (process_set.size() if op == Sum else 1)


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, prescale: float,
                postscale: float) -> torch.Tensor:
        ctx.factor, ctx.process_set = _scatter_factor(op, prescale, postscale, process_set), process_set
        return synchronize(reducescatter_async(tensor, name, op, process_set, prescale, postscale))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tuple:
        return allgather((grad * ctx.factor).contiguous(), process_set=ctx.process_set), None, None, None, None, None


def reducescatter(tensor: torch.Tensor, name: Optional[str] = None, compression: Any = Compression.none,
                  op: int = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """This rank's rows of the reduced tensor."""
    check(tensor)
    small, ctx = compression.compress(tensor)
    part = _Reducescatter.apply(small, name, op, process_set, prescale_factor, postscale_factor)
    return compression.decompress(part, ctx)


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: Optional[str] = None, op: int = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> Handle:
    """Begin to reduce and deal out several tensors."""
    check(*tensors)
    names = _many(name, "grouped_reducescatter", len(tensors), process_set)
    started = [_start_reducescatter(t, n, op, process_set, prescale_factor, postscale_factor)
               for t, n in zip(tensors, names)]
    requests = [request for request, _ in started]
    return Handle(requests, lambda: [finish() for _, finish in started], _device(*(r.out for r in requests)))


class _GroupedReducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: Optional[str], op: int, process_set: ProcessSet, prescale: float, postscale: float,
                *tensors: torch.Tensor) -> Tuple:
        ctx.factor, ctx.process_set = _scatter_factor(op, prescale, postscale, process_set), process_set
        return tuple(synchronize(grouped_reducescatter_async(tensors, name, op, process_set, prescale, postscale)))

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Tuple:
        return (None, None, None, None, None,
                *grouped_allgather([(g * ctx.factor).contiguous() for g in grads], process_set=ctx.process_set))


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: Optional[str] = None,
                          compression: Any = Compression.none, op: int = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> List[torch.Tensor]:
    """This rank's rows of several reduced tensors."""
    check(*tensors)
    small = [compression.compress(t) for t in tensors]
    parts = _GroupedReducescatter.apply(name, op, process_set, prescale_factor, postscale_factor,
                                        *(t for t, _ in small))
    return [compression.decompress(t, ctx) for t, (_, ctx) in zip(parts, small)]


# ---- join, barrier --------------------------------------------------------------------------------------------------

def join(device: int = -1) -> int:
    """This rank has no more data: until all ranks have joined it takes part in the others' all-reduces with elements
    that change nothing. Returns the rank that joined last. device: ignored."""
    return _job.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return when all ranks (of the set) have called it."""
    _job.wait(_job.submit("barrier", "barrier", process_set))
