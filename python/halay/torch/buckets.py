# SPDX-License-Identifier: Apache-2.0
"""Gradients that travel together: parts of one flat piece of memory that the ranks of a host reduce in place, on a GPU
for gradients that are there.

A thousand gradients of 4 KB, each with a name, cost a rank 40 ms in Python; as one flat piece they cost half of one. So
the parameters of an optimizer are dealt into buckets, and each gradient is a view of its bucket's memory.
"""
from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from halay.torch import _job, ops
from halay.torch.compression import BF16Compressor, FP16Compressor, NoneCompressor
from halay.torch.plan import Place
from halay.torch.process_sets import ProcessSet

# Where exchange begins during backward: smaller buckets begin earlier, larger ones move faster. On
# processors larger buckets gain nothing from 16 MB on.
BUCKET_BYTES = 16 << 20

# Offsets of gradients in a bucket, in bytes: a cache line.
_ALIGNMENT = 64

_WIRES = {NoneCompressor: "as-is", FP16Compressor: "f16", BF16Compressor: "bf16"}


class Exchange(NamedTuple):
    """How an optimizer's gradients are to be reduced; equal on all ranks."""

    op: int
    prescale: float
    postscale: float
    compression: Any
    sparse_as_dense: bool
    process_set: ProcessSet


class Member:
    """A parameter in a bucket."""

    __slots__ = ("param", "name", "place", "node", "left", "view", "at", "address", "bucket", "sparse")

    def __init__(self, param: torch.nn.Parameter, name: str, place: Place) -> None:
        self.param = param
        self.name = name
        self.place = place
        self.node: Any = None  # of autograd, which adds to the gradient; None as long as the parameter is frozen
        self.sparse = 0  # dimensions that have indices in what travels; 0: it travels dense
        self.left = 0  # backward passes until its gradient is ready
        self.view: Optional[torch.Tensor] = None
        self.at = 0  # of the view in the bucket's memory, in elements
        self.address = 0  # of the view. The program may give it other memory: model.double(), p.grad.data = ...
        self.bucket: Optional["Bucket"] = None


def _stays_as_it_is(compression: Any, dtype: torch.dtype) -> bool:
    return compression in _WIRES and (compression is NoneCompressor or dtype != torch.float64)


def _view(flat: torch.Tensor, start: int, param: torch.Tensor) -> torch.Tensor:
    """The elements of flat from start on in the shape of a parameter, and in its layout (channels_last, ...)."""
    part = flat[start:start + param.numel()]
    order = sorted(range(param.dim()), key=param.stride, reverse=True)
    if param.permute(order).is_contiguous():
        return part.as_strided(param.shape, param.stride())
    return part.view(param.shape)


class Bucket:
    """Some parameters of an optimizer, of one type. Whoever computes calls ready() for each of them; the last one
    starts the exchange."""

    def __init__(self, members: Sequence[Member], exchange: Exchange) -> None:
        self.members = list(members)
        for member in self.members:
            member.bucket = self
        self.exchange = exchange
        self.dtype = self.members[0].param.dtype
        self.device = self.members[0].param.device
        self.formation = -1  # of the job whose ranks have agreed on this bucket
        self.suffix = ""  # sets its names apart from those of another optimizer
        self.missing = len(self.members)
        self._waits: List[Callable[[], None]] = []
        self._dense: List[Member] = []
        self._flat: Optional[torch.Tensor] = None
        self._generation = -1
        self._writes_at_start = 0  # to the flat memory
        self._streams: Dict[int, Any] = {}  # that gradients which are ready come from, on a GPU

    @property
    def has_started(self) -> bool:
        return bool(self._waits)

    def reset(self, passes: int) -> None:
        """Forget what was ready; what is under way is waited for."""
        for wait in self._waits:
            try:
                wait()
            except ops.HorovodInternalError:
                pass
        self._waits = []
        self.missing = len(self.members)
        for member in self.members:
            member.left = passes

    def sparse_grads(self) -> Dict[Place, int]:
        """The members that have sparse gradients now but travel dense, and the dimensions of those that have indices.
        """
        if self.exchange.sparse_as_dense or self.is_in_place():
            return {}
        return {m.place: m.param.grad.sparse_dim() for m in self.members
                if not m.sparse and m.param.grad is not None and m.param.grad.is_sparse}

    def note_stream(self) -> None:
        """The current stream of the GPU makes a gradient that is ready."""
        stream = torch.cuda.current_stream(self.device)
        self._streams[stream.cuda_stream] = stream

    def _follow_streams(self) -> None:
        """The exchange follows the current stream, so this one follows all that make gradients."""
        now, streams, self._streams = torch.cuda.current_stream(self.device), self._streams, {}
        for address, stream in streams.items():
            if address != now.cuda_stream:
                now.wait_stream(stream)

    def start(self) -> None:
        """Exchange the gradients that there are; a missing one counts as 0."""
        if self._streams:
            self._follow_streams()
        if self.is_in_place():
            self._start_flat(self._dense)
        else:
            self._start_each()
        self._writes_at_start = self._writes()

    def _writes(self) -> int:
        """PyTorch's count of its writes to the gradients that are in place. The engine's are not among them, nor are
        those of GradScaler.unscale_(), through .data, or through NumPy."""
        return 0 if self._flat is None or self._flat.is_inference() else self._flat._version

    def has_changed(self) -> bool:
        """Whether the program has written to gradients since the exchange began, as far as PyTorch counts it."""
        return self.has_started and self._writes() != self._writes_at_start

    def _start_each(self) -> None:
        dense = []
        for member in self.members:
            if member.sparse:
                self._start_sparse(member, member.param.grad)
            elif member.param.dtype != self.dtype or not _stays_as_it_is(self.exchange.compression, self.dtype):
                self._start_compressed(member)
            else:
                dense.append(member)
        if dense:
            self._start_flat(dense)

    def is_in_place(self) -> bool:
        """Whether the gradients of all members are where they are exchanged. This is so from the second step on, if the
        program leaves them there; to look is cheaper than anything else that is done with each of a thousand."""
        if self._generation != _job.generation() or len(self._dense) != len(self.members):
            return False
        for member in self.members:
            grad = member.param.grad
            if grad is None or grad is not member.view or grad.data_ptr() != member.address:
                return False
        return True

    def forget_layout(self) -> None:
        """A member's parameter is another one, or travels otherwise."""
        self._dense = []

    def zero(self) -> None:
        """All gradients are 0. They are in place, and not under way."""
        self._flat.zero_()

    def finish(self) -> None:
        """Wait until every gradient is the reduced one. The first error is raised when all have ended."""
        error = None
        for wait in self._waits:
            try:
                wait()
            except ops.HorovodInternalError as e:
                error = error or e
        self._waits = []
        if error:
            raise error

    def _start_sparse(self, member: Member, grad: Optional[torch.Tensor]) -> None:
        exchange, param = self.exchange, member.param
        if grad is None:
            rows = torch.empty((0, *param.shape[member.sparse:]), dtype=param.dtype, device=param.device)
            grad = torch.sparse_coo_tensor(torch.empty((member.sparse, 0), dtype=torch.int64, device=param.device),
                                           rows, param.shape)
        elif not grad.is_sparse or grad.sparse_dim() != member.sparse:
            grad = (grad.to_dense() if grad.is_sparse else grad).to_sparse(member.sparse)
        handle = ops.sparse_allreduce_async(grad, member.name + self.suffix, exchange.op, exchange.process_set)

        def wait() -> None:
            param.grad = handle()
        self._waits.append(wait)

    def _start_compressed(self, member: Member) -> None:
        exchange, param = self.exchange, member.param
        grad = torch.zeros_like(param) if param.grad is None else param.grad
        ops.keep_for_reader(grad)
        small, ctx = exchange.compression.compress(grad.to_dense() if grad.is_sparse else grad)
        handle = ops.allreduce_async(small.contiguous(), name=member.name + self.suffix, op=exchange.op,
                                     prescale_factor=exchange.prescale, postscale_factor=exchange.postscale,
                                     process_set=exchange.process_set)

        def wait() -> None:
            reduced = ops.synchronize(handle)
            ops.keep_for_reader(reduced)
            param.grad = exchange.compression.decompress(reduced, ctx)
        self._waits.append(wait)

    def _lay_out(self, dense: List[Member]) -> None:
        """Memory for these, and for each its view."""
        dtype, self.device = dense[0].param.dtype, dense[0].param.device
        step = max(_ALIGNMENT // dense[0].param.element_size(), 1)
        starts, end = [], 0
        for member in dense:
            starts.append(end)
            end += -(-member.param.numel() // step) * step
        flat = _job.alloc(max(end, 1), dtype, self.device)
        flat.zero_()
        for member, at in zip(dense, starts):
            member.at = at
            self._place_view(member, flat)
        self._flat, self._dense, self._generation = flat, dense, _job.generation()

    @staticmethod
    def _place_view(member: Member, flat: torch.Tensor) -> None:
        member.view = _view(flat, member.at, member.param)
        member.address = member.view.data_ptr()

    def _collect(self, member: Member) -> None:
        """The gradient of a parameter is where its view is."""
        if member.view.data_ptr() != member.address:
            self._place_view(member, self._flat)
        param, view = member.param, member.view
        grad = param.grad
        if grad is None:
            view.zero_()
        elif grad.is_sparse or grad.data_ptr() != view.data_ptr():
            ops.keep_for_reader(grad)
            view.copy_(grad.to_dense() if grad.is_sparse else grad)
        if param.device == view.device and not (grad is not None and grad.is_sparse):
            param.grad = view

    def _start_flat(self, dense: List[Member]) -> None:
        exchange = self.exchange
        if self._generation != _job.generation() or self._dense != dense or self.device != dense[0].param.device:
            self._lay_out(dense)
        elsewhere = []
        for member in dense:
            if member.param.grad is not member.view or member.view.data_ptr() != member.address:
                self._collect(member)
                if member.param.grad is not member.view:
                    elsewhere.append(member)
        name = dense[0].name if len(dense) == 1 else "%s+%d" % (dense[0].name, len(dense) - 1)
        handle = ops.start_flat(self._flat, name + self.suffix, exchange.op, exchange.prescale, exchange.postscale,
                                _WIRES[exchange.compression], exchange.process_set)

        def wait() -> None:
            ops.synchronize(handle)
            for member in elsewhere:
                self._give_back(member, member.param.grad)
        self._waits.append(wait)

    @staticmethod
    def _give_back(member: Member, grad: Optional[torch.Tensor]) -> None:
        """The reduced gradient of a parameter whose gradient is not a view: it is on another device, or sparse."""
        if grad is not None and grad.is_sparse:
            member.param.grad = member.view.to_sparse()
        elif grad is None:
            member.param.grad = member.view.to(member.param.device)
        else:
            grad.copy_(member.view)


def deal(members: Sequence[Member], exchange: Exchange) -> List[Bucket]:
    """Buckets of BUCKET_BYTES for these parameters, the last first, as backward finishes them."""
    buckets: List[Bucket] = []
    by_type: dict = {}
    for member in reversed(members):
        by_type.setdefault((member.param.dtype, member.param.device), []).append(member)
    for same in by_type.values():
        part: List[Member] = []
        size = 0
        for member in same:
            part.append(member)
            size += member.param.numel() * member.param.element_size()
            if size >= BUCKET_BYTES:
                buckets.append(Bucket(part, exchange))
                part, size = [], 0
        if part:
            buckets.append(Bucket(part, exchange))
    return buckets
