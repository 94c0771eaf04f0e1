# SPDX-License-Identifier: Apache-2.0
"""
A backend of torchcomms, PyTorch's communication API: torchcomms.new_comm("halay", torch.device("cpu"), "name").

torchcomms finds it by the entry point of halay's wheel; elsewhere `import halay.torchcomms` makes it known. Rank and
size are those of RANK and WORLD_SIZE, as halayrun and torchrun set them. Communicators meet over the store in their
options, or over one at MASTER_ADDR and MASTER_PORT. Windows and batches are not offered: torchcomms has none for
backends in Python.
"""

from __future__ import annotations

import os
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import torch.distributed as dist

try:
    import torchcomms
except ModuleNotFoundError as failure:
    raise ModuleNotFoundError("halay.torchcomms needs torchcomms: pip install torchcomms", name=failure.name) from None

from .distributed._engine import Channel
from .distributed._group import Collectives

NAME = "halay"
_REDUCTIONS = {"SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"}
_stores: Dict[str, Any] = {}  # by address: a process serves one, or is a client of it


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise ValueError(f"halay: {name} is not set: start the ranks with halayrun or torchrun")
    return value


def _store(rank: int, size: int, timeout: timedelta) -> Any:
    """The store at MASTER_ADDR and MASTER_PORT, which rank 0 serves."""
    host, port = _variable("MASTER_ADDR"), int(_variable("MASTER_PORT"))
    address = f"{host}:{port}"
    if address not in _stores:
        _stores[address] = dist.TCPStore(host, port, size, rank == 0, timeout)
    return _stores[address]


def _reduction(op: Any) -> Any:
    kind = str(op.type).rsplit(".", 1)[-1]
    if kind not in _REDUCTIONS:
        raise ValueError(f"halay: unknown reduction {kind}; expected {', '.join(sorted(_REDUCTIONS))}")
    return getattr(dist.ReduceOp, kind)


def _given(**values: Any) -> Any:
    """Options as torch.distributed has them."""
    return SimpleNamespace(timeout=None, **values)


def _ended(work: Any, is_async: bool) -> Any:
    """What torchcomms gets: a work that is under way, or None."""
    if is_async:
        return work
    work.wait()
    return None


class Backend(torchcomms.TorchCommBackend):  # type: ignore[misc, name-defined]
    """A communicator."""

    def __init__(self) -> None:
        super().__init__()
        self._group: Any = None
        self._store: Any = None
        self._name = ""

    def init(self, device: Any, name: str, options: Any) -> None:
        rank, size = int(_variable("RANK")), int(_variable("WORLD_SIZE"))
        self._open(rank, size, name, options.store or _store(rank, size, options.timeout), options)

    def _open(self, rank: int, size: int, name: str, store: Any, options: Any) -> None:
        self._name, self._store = name, dist.PrefixStore(f"halay/{name}", store)
        group = SimpleNamespace(store=self._store, group_rank=rank, group_size=size, group_id=name,
                                global_ranks_in_group=list(range(size)), timeout=options.timeout)  # fmt: skip
        self._group = Collectives()
        self._group._open(Channel(group), group)

    def finalize(self) -> None:
        if self._group is not None:
            self._group.shutdown()
            self._group = None

    def split(self, ranks: List[int], name: str, options: Any) -> Optional[Backend]:
        """A communicator of these ranks, or None on the others. All ranks call it."""
        if self._group.rank() not in ranks:
            return None
        made = Backend()
        made._open(ranks.index(self._group.rank()), len(ranks), name, self._store, options)
        return made

    def get_rank(self) -> int:
        return int(self._group.rank())

    def get_size(self) -> int:
        return int(self._group.size())

    def get_backend_name(self) -> str:
        return NAME

    def get_comm_name(self) -> str:
        return self._name

    def set_timeout(self, timeout: timedelta) -> None:
        self._group.set_timeout(timeout)

    # ---- collectives ----

    def send(self, tensor: Any, dst: int, async_op: bool) -> Any:
        return _ended(self._group.send([tensor], dst), async_op)

    def recv(self, tensor: Any, src: int, async_op: bool) -> Any:
        return _ended(self._group.recv([tensor], src), async_op)

    def broadcast(self, tensor: Any, root: int, async_op: bool) -> Any:
        return _ended(self._group.broadcast([tensor], _given(rootRank=root)), async_op)

    def all_reduce(self, tensor: Any, op: Any, async_op: bool) -> Any:
        return _ended(self._group.allreduce([tensor], _given(reduceOp=_reduction(op))), async_op)

    def reduce(self, tensor: Any, root: int, op: Any, async_op: bool) -> Any:
        given = _given(rootRank=root, reduceOp=_reduction(op))
        return _ended(self._group.reduce([tensor], given), async_op)

    def all_gather(self, tensor_list: List[Any], tensor: Any, async_op: bool) -> Any:
        return _ended(self._group.allgather([tensor_list], [tensor], _given()), async_op)

    all_gather_v = all_gather

    def all_gather_single(self, output: Any, input: Any, async_op: bool) -> Any:
        return _ended(self._group.all_gather_single(output, input, _given()), async_op)

    def reduce_scatter(self, output: Any, input_list: List[Any], op: Any, async_op: bool) -> Any:
        given = _given(reduceOp=_reduction(op))
        return _ended(self._group.reduce_scatter([output], [input_list], given), async_op)

    reduce_scatter_v = reduce_scatter

    def reduce_scatter_single(self, output: Any, input: Any, op: Any, async_op: bool) -> Any:
        given = _given(reduceOp=_reduction(op))
        return _ended(self._group.reduce_scatter_single(output, input, given), async_op)

    def all_to_all_single(self, output: Any, input: Any, async_op: bool) -> Any:
        return _ended(self._group.all_to_all_single(output, input, [], [], _given()), async_op)

    def all_to_all_v_single(
        self, output: Any, input: Any, output_splits: List[int], input_splits: List[int], async_op: bool
    ) -> Any:
        work = self._group.all_to_all_single(output, input, list(output_splits), list(input_splits), _given())
        return _ended(work, async_op)

    def all_to_all(self, outputs: List[Any], inputs: List[Any], async_op: bool) -> Any:
        return _ended(self._group.alltoall(outputs, inputs, _given()), async_op)

    def barrier(self, async_op: bool) -> Any:
        return _ended(self._group.barrier(_given()), async_op)

    def scatter(self, output: Any, inputs: List[Any], root: int, async_op: bool) -> Any:
        return _ended(self._group.scatter([output], [inputs], _given(rootRank=root)), async_op)

    def gather(self, outputs: List[Any], input: Any, root: int, async_op: bool) -> Any:
        return _ended(self._group.gather([outputs], [input], _given(rootRank=root)), async_op)


torchcomms.register_backend(NAME, Backend)
