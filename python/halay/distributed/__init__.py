# SPDX-License-Identifier: Apache-2.0
"""
torch.distributed's backend "halay".

    import torch.distributed as dist
    import halay.distributed  # torch 2.15 and later find it without

    dist.init_process_group("halay")  # tensors in main memory, and on CUDA's GPUs

docs/guides/pytorch.md lists what it has and what differs from gloo.
"""

try:
    import torch
except ModuleNotFoundError as failure:
    raise ModuleNotFoundError("halay.distributed needs PyTorch: pip install torch", name=failure.name) from None

import torch.distributed as dist

from ._compile import keep_out
from ._compress import compress_hook
from ._group import create

__all__ = ["compress_hook", "register"]


def register() -> None:
    """Make the backend known to torch. An import of this module does it; torch calls it for the entry point."""
    if "HALAY" in dist.Backend._plugins:
        return
    if int(torch.__version__.split(".")[0]) < 2:
        dist.Backend.register_backend("halay", create, extended_api=True)
    else:
        dist.Backend.register_backend("halay", create, extended_api=True, devices=["cpu", "cuda"])


register()
keep_out()
