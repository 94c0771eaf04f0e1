# SPDX-License-Identifier: Apache-2.0
"""DDP's gradients on the wire in half their bytes."""

from typing import Any, Callable

import torch
import torch.distributed as dist

from ..constants import Collective, Reduction, Wire
from ._group import Collectives
from ._work import Work

_WIRES = {"bf16": Wire.BF16, "f16": Wire.F16}
_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def compress_hook(wire: str = "bf16") -> Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]:
    """
    A communication hook for DDP: model.register_comm_hook(None, compress_hook("bf16")). None: or a group of halay's.

    Float32 gradients travel and are summed as wire ("bf16" or "f16") and are averaged in float32; others as they are.
    f16 is finer, and its sums overflow at 65504. Buckets on a GPU are converted there, and averages rounded to wire.
    """
    if wire not in _WIRES:
        raise ValueError(f"halay: unknown wire type {wire!r}; expected {', '.join(map(repr, _WIRES))}")

    def hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        group = _ours(dist.group.WORLD if group is None else group, bucket.buffer().device)
        data = bucket.buffer()
        has_wire, on_device = data.dtype == torch.float32, data.device.type == "cuda"
        small = data.to(_TYPES[wire]) if has_wire and on_device else data  # the engine converts in main memory
        request = group._channel.submit(
            Collective.ALLREDUCE,
            small,
            small,
            (data.numel(),),
            reduction=Reduction.AVERAGE,
            wire=_WIRES[wire] if has_wire and not on_device else Wire.AS_IS,
        )
        finish = None if small is data else lambda: data.copy_(small)
        return Work(request, data, "all_reduce of a bucket", finish).get_future()

    return hook


def _ours(group: Any, device: torch.device) -> Collectives:
    """The group itself, or its backend for the device."""
    if not isinstance(group, Collectives):
        group = group._get_backend(device)
    if not isinstance(group, Collectives):
        raise ValueError('halay: compress_hook needs a group of the backend "halay"')
    return group
