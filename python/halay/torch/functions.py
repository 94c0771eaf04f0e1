# SPDX-License-Identifier: Apache-2.0
"""Parameters, optimizers' states and Python objects from one rank to all.

Objects travel pickled (cloudpickle if it is installed). Unpickling runs code that the sender chose: that is as safe as
the ranks are to each other, which are processes of one job that have proved to know its secret.
"""
from __future__ import annotations

import pickle
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple, Union

import torch

from halay.torch import _job
from halay.torch.ops import allgather, broadcast_, broadcast_async_, synchronize
from halay.torch.process_sets import ProcessSet, global_process_set

try:
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle

Parameters = Union[Dict[str, torch.Tensor], Iterable[torch.Tensor], Iterable[Tuple[str, torch.Tensor]]]


def _to_bytes(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(_pickler.dumps(obj)), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Any:
    return pickle.loads(bytes(data.tolist()) if data.numel() < 64 else memoryview(data.numpy()))


def broadcast_parameters(params: Parameters, root_rank: int) -> None:
    """Give every rank the root's values, in place.

    params: a state_dict(), named_parameters(), parameters() or a list of tensors. What is no tensor is left alone.
    """
    if isinstance(params, dict):
        pairs: List[Any] = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, (torch.Tensor, str, bytes)):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError('invalid params of type: %s' % type(params))
    handles = []
    for name, tensor in pairs:
        if not isinstance(tensor, torch.Tensor):
            continue
        target = tensor.data if tensor.is_contiguous() else tensor.data.contiguous()
        handles.append((tensor, target, broadcast_async_(target, root_rank, name)))
    for tensor, target, handle in handles:
        synchronize(handle)
        if target.data_ptr() != tensor.data_ptr():
            tensor.data.copy_(target)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The root's object, on every rank (of the set); the root gets obj itself back. See the module about pickling."""
    name = name or type(obj).__name__
    is_root = _job.rank() == root_rank
    data = _to_bytes(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([data.numel()], dtype=torch.int64)
    broadcast_(length, root_rank, name + ".length", process_set)
    if not is_root:
        data = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, name + ".bytes", process_set)
    return obj if is_root else _from_bytes(data)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """The objects of all ranks, in order of rank. See the module about pickling."""
    name = name or type(obj).__name__
    data = _to_bytes(obj)
    lengths = allgather(torch.tensor([data.numel()], dtype=torch.int64), name + ".length", process_set).tolist()
    parts = allgather(data, name + ".bytes", process_set).split(lengths)
    return [_from_bytes(part) for part in parts]


class _Shape(NamedTuple):
    """Stands for a tensor in a description of an optimizer's state."""

    shape: Tuple[int, ...]
    dtype: torch.dtype


def _is_dense(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_sparse


def _describe(state: Dict[Any, Dict[str, Any]]) -> Dict[Any, Dict[str, Any]]:
    """The same with a _Shape for each dense tensor."""
    return {number: {key: _Shape(tuple(value.shape), value.dtype) if _is_dense(value) else value
                     for key, value in values.items()} for number, values in state.items()}


def _adopt(state: Dict[Any, Dict[str, Any]], wanted: Dict[Any, Dict[str, Any]]) -> Dict[Any, Dict[str, Any]]:
    """A state of the wanted form, with the tensors of this rank's own where they fit."""
    def fill(number: Any, key: str, value: Any) -> Any:
        if not isinstance(value, _Shape):
            return value
        own = state.get(number, {}).get(key)
        if _is_dense(own) and tuple(own.shape) == value.shape and own.dtype == value.dtype:
            return own
        return torch.empty(value.shape, dtype=value.dtype)
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
    options, wanted = broadcast_object(
        ([{k: v for k, v in group.items() if k != "params"} for group in own["param_groups"]], _describe(own["state"])),
        root_rank, "optimizer")
    state = _adopt(own["state"], wanted)
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
