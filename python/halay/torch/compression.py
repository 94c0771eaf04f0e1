# SPDX-License-Identifier: Apache-2.0
"""Compression of gradients: what they travel as.

`Compression.none`, `fp16` and `bf16` are understood by the engine itself: float32 travels and is reduced as the smaller
type and is float32 again where it arrives, without a copy in Python. A class of your own with the two static methods of
`Compressor` works too; its tensors are then reduced one by one.
"""
from __future__ import annotations

from typing import Any, Tuple

import torch


class Compressor:
    """What a class of your own has to offer."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """The tensor to send, and whatever decompress() needs to undo it."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The received tensor in its own type again."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _HalfCompressor(Compressor):
    dtype: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        small = tensor.to(cls.dtype) if tensor.dtype.is_floating_point else tensor
        return small, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx) if ctx.is_floating_point else tensor


class FP16Compressor(_HalfCompressor):
    """Floating-point tensors travel as float16."""

    dtype = torch.float16


class BF16Compressor(_HalfCompressor):
    """Floating-point tensors travel as bfloat16: float32's range, 8 bits of precision. Horovod has no such type."""

    dtype = torch.bfloat16


class Compression:
    """The compressions to choose from."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
