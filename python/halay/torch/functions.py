# SPDX-License-Identifier: Apache-2.0
"""Parameters, optimizers' states and Python objects from one rank to all.

Objects travel pickled (cloudpickle if it is installed). Unpickling runs code that the sender chose: that is as safe as
the ranks are to each other, which are processes of one job that have proved to know its secret.
"""
from __future__ import annotations

import hashlib
import pickle
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from halay import buffers
from halay.torch import _job, ops
from halay.torch.ops import allgather, allreduce_, broadcast_, broadcast_async_, synchronize
from halay.torch.process_sets import ProcessSet, global_process_set

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle

Parameters = Union[Dict[str, torch.Tensor], Iterable[torch.Tensor], Iterable[Tuple[str, torch.Tensor]]]


# The first byte of what travels.
_OBJECT, _FAILURE = 0, 1


def _to_bytes(obj: Any) -> torch.Tensor:
    """The object pickled, or why it cannot be: the other ranks wait for one or the other."""
    made = bytearray([_OBJECT])
    try:
        made += _pickler.dumps(obj)
    except Exception as failure:
        made = bytearray([_FAILURE]) + f"{type(failure).__name__}: {failure}".encode()
    return torch.frombuffer(made, dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Any:
    return pickle.loads(bytes(data[1:].tolist()) if data.numel() < 64 else memoryview(data.numpy())[1:])


def _check_bytes(data: torch.Tensor, rank: int) -> None:
    if int(data[0]) == _FAILURE:
        raise TypeError(f"the object of rank {rank} cannot be pickled: {bytes(data[1:].tolist()).decode()}")


def broadcast_parameters(params: Parameters, root_rank: int) -> None:
    """Give every rank the root's values, in place.

    params: a state_dict(), named_parameters(), parameters() or a list of tensors. What has a name and is not a tensor
    is left alone. ValueError, on every rank: names, shapes or types differ between ranks. TypeError: something without
    a name is not a tensor.
    """
    if isinstance(params, dict):
        pairs: List[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (torch.Tensor, str, bytes)):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError('invalid params of type: %s' % type(params))
    others = [f"one of {type(value).__qualname__}" for name, value in pairs
              if name is None and not isinstance(value, torch.Tensor)]
    pairs = [(name, tensor) for name, tensor in pairs if isinstance(tensor, torch.Tensor)]
    agree("broadcast_parameters", "parameters", [describe_tensor(name, tensor) for name, tensor in pairs] + others)
    if others:
        raise TypeError(f"params has {others[0]}; expected tensors")
    for name, tensor in pairs:
        ops.check_kind(tensor)
        if buffers.is_expanded(tensor):
            raise ValueError(f"the parameter {name} is expanded, its elements share memory: pass .clone() of it")
    targets = [tensor.data if tensor.is_contiguous() else tensor.data.contiguous() for _, tensor in pairs]
    handles = [(tensor, target, broadcast_async_(target, root_rank, name))
               for (name, tensor), target in zip(pairs, targets)]
    for tensor, target, handle in handles:
        synchronize(handle)
        if target.data_ptr() != tensor.data_ptr():
            tensor.data.copy_(target)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The root's object, on every rank (of the set); the root gets obj itself back. See the module about pickling.
    TypeError, on every rank: it cannot be pickled."""
    name = name or "broadcast_object"
    is_root = _job.rank() == root_rank
    data = _to_bytes(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([data.numel()], dtype=torch.int64)
    broadcast_(length, root_rank, name + ".length", process_set)
    if not is_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, name + ".bytes", process_set)
    _check_bytes(data, root_rank)
    return obj if is_root else _from_bytes(data)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks, in order of rank. See the module about pickling. TypeError, on every rank: one of them
    cannot be pickled."""
    name = name or "allgather_object"
    data = _to_bytes(obj)
    lengths = allgather(torch.tensor([data.numel()], dtype=torch.int64), name + ".length", process_set).tolist()
    parts = allgather(data, name + ".bytes", process_set).split(lengths)
    for rank, part in zip(process_set.ranks or (), parts):
        _check_bytes(part, rank)
    return [_from_bytes(part) for part in parts]


def describe_tensor(name: Optional[str], tensor: torch.Tensor) -> str:
    """What ranks have to agree about."""
    kind = str(tensor.dtype).replace("torch.", "")
    if getattr(tensor, "is_nested", False):
        return f"'{name}' of {kind}, nested"
    layout = "" if tensor.layout == torch.strided else " " + str(tensor.layout).replace("torch.", "")
    return f"'{name}' of {kind} {list(tensor.shape)}{layout}" if name else f"one of {kind} {list(tensor.shape)}{layout}"


def tell(obj: Any, name: str, process_set: ProcessSet = global_process_set) -> Dict[int, Any]:
    """The objects of the ranks that have not joined, by rank. An all-gather would end with an error if one has joined;
    so it is a sum, of which each rank gives a row of its own."""
    data, size = _to_bytes(obj), process_set.size() or 1
    length = torch.tensor([data.numel()], dtype=torch.int64)
    allreduce_(length, op=ops.Max, name=name + ".length", process_set=process_set)
    rows = torch.zeros((size, int(length)), dtype=torch.uint8)
    lengths = torch.zeros(size, dtype=torch.int64)
    own = process_set.rank() or 0
    rows[own, :data.numel()], lengths[own] = data, data.numel()
    allreduce_(lengths, op=ops.Sum, name=name + ".lengths", process_set=process_set)
    allreduce_(rows, op=ops.Sum, name=name + ".rows", process_set=process_set)
    return {rank: _from_bytes(row[:count]) for rank, row, count in zip(process_set.ranks or (), rows, lengths.tolist())
            if count}


def _differ(what: str, rank: int, mine: Sequence[str], other: int, theirs: Sequence[str]) -> str:
    place = next((i for i, pair in enumerate(zip(mine, theirs)) if pair[0] != pair[1]), min(len(mine), len(theirs)))
    has = [f"rank {who} has {of[place] if place < len(of) else 'none'}" for who, of in ((rank, mine), (other, theirs))]
    return f"the ranks' {what} differ: of number {place}, {has[0]}, {has[1]}"


def agree(name: str, what: str, mine: Sequence[str], process_set: ProcessSet = global_process_set) -> None:
    """Return if all ranks call it with the same; ValueError on each of them otherwise."""
    digest = torch.frombuffer(bytearray(hashlib.sha256("\n".join(mine).encode()).digest()), dtype=torch.uint8)
    both = allreduce_(torch.stack([digest, 255 - digest]), op=ops.Max, name=name + ".digest", process_set=process_set)
    if torch.equal(both[0], 255 - both[1]):  # the largest is the smallest
        return
    everyone = tell(list(mine), name + ".differ", process_set)
    first = min(everyone)
    other = next(rank for rank, theirs in everyone.items() if theirs != everyone[first])
    raise ValueError(_differ(what, first, everyone[first], other, everyone[other]))


class _Shape(NamedTuple):
    """Stands for a tensor in a description of an optimizer's state."""

    shape: Tuple[int, ...]
    dtype: torch.dtype
    device: str  # its kind


def _is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout == torch.strided


def _describe(state: Dict[Any, Dict[str, Any]]) -> Dict[Any, Dict[str, Any]]:
    """The same with a _Shape for each dense tensor."""
    return {number: {key: _Shape(tuple(value.shape), value.dtype, value.device.type) if _is_dense(value) else value
                     for key, value in values.items()} for number, values in state.items()}


def _adopt(state: Dict[Any, Dict[str, Any]], wanted: Dict[Any, Dict[str, Any]],
           params: Sequence[torch.Tensor]) -> Dict[Any, Dict[str, Any]]:
    """A state of the wanted form, with the tensors of this rank's own where they fit; new ones are where their
    parameter is, if that is on a device of their kind."""
    def fill(number: Any, key: str, value: Any) -> Any:
        if not isinstance(value, _Shape):
            return value
        own = state.get(number, {}).get(key)
        if _is_dense(own) and _Shape(tuple(own.shape), own.dtype, own.device.type) == value:
            return own
        device = params[number].device if number in range(len(params)) else None
        if device is None or device.type != value.device:
            device = torch.device(value.device)
        return torch.empty(value.shape, dtype=value.dtype, device=device)
    return {number: {key: fill(number, key, value) for key, value in values.items()}
            for number, values in wanted.items()}


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int,
                              model: Optional[torch.nn.Module] = None) -> None:
    """Give every rank's optimizer the root's options and moments.

    Parameters without a gradient get one of 0, as in Horovod, except those that are known to have sparse ones: those of
    SparseAdam, and of the Embedding(sparse=True) of model.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError('cannot broadcast torch.optim.LBFGS state')
    sparse = {id(p) for m in (model.modules() if model else ())
              if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and m.sparse for p in m.parameters()}
    own = optimizer.state_dict()
    agree("broadcast_optimizer_state", "groups of parameters",
          [f"{len(group['params'])} parameters" for group in own["param_groups"]])
    options, wanted = broadcast_object(
        ([{k: v for k, v in group.items() if k != "params"} for group in own["param_groups"]], _describe(own["state"])),
        root_rank, "optimizer")
    state = _adopt(own["state"], wanted, [p for group in optimizer.param_groups for p in group["params"]])
    broadcast_parameters([("optimizer.%s.%s" % (number, key), value) for number, values in state.items()
                          for key, value in values.items() if _is_dense(value)], root_rank)
    if _job.rank() != root_rank:
        groups = [dict(group, **given) for group, given in zip(own["param_groups"], options)]
        optimizer.load_state_dict({"state": state, "param_groups": groups})
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad and p.grad is None and id(p) not in sparse and \
                    not isinstance(optimizer, torch.optim.SparseAdam):
                p.grad = torch.zeros_like(p)
