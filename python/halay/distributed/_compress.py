# SPDX-License-Identifier: Apache-2.0
"""DDP's gradients on the wire in half their bytes."""

from typing import Any, Callable

import torch
import torch.distributed as dist

from ..constants import Collective, Reduction, Wire
from ._group import Collectives
from ._work import Work

_WIRES = {"bf16": Wire.BF16, "f16": Wire.F16}


def compress_hook(wire: str = "bf16") -> Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]:
    """
    A communication hook for DDP: model.register_comm_hook(None, compress_hook("bf16")). None: or a group of halay's.

    Float32 gradients travel and are summed as wire ("bf16" or "f16") and are averaged in float32; others as they are.
    f16 is finer, and its sums overflow at 65504.
    """
    if wire not in _WIRES:
        raise ValueError(f"halay: there is no wire type {wire!r}: there are {', '.join(map(repr, _WIRES))}")

    def hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        group = _ours(dist.group.WORLD if group is None else group)
        data = bucket.buffer()
        request = group._channel.submit(
            Collective.ALLREDUCE,
            data,
            data,
            (data.numel(),),
            reduction=Reduction.AVERAGE,
            wire=_WIRES[wire] if data.dtype == torch.float32 else Wire.AS_IS,
        )
        return Work(request, data, "all_reduce of a bucket").get_future()

    return hook


def _ours(group: Any) -> Collectives:
    """The group itself, or its backend for main memory."""
    if not isinstance(group, Collectives):
        group = group._get_backend(torch.device("cpu"))
    if not isinstance(group, Collectives):
        raise ValueError('halay: compress_hook needs a group of the backend "halay"')
    return group
