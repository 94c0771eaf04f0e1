# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks."""
from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from halay.torch import _job
from halay.torch.ops import Sum, allreduce


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d, with mean and variance of the samples of all ranks. Ranks may have different
    numbers of samples. Gradients of weight and bias are this rank's part: an optimizer reduces them as all others. A
    layer's sums are named by the number of layers made before it, so every rank makes the same layers in the same
    order; a copy of a layer has its names."""

    _numbers = itertools.count()
    _number = 0  # of layers that were pickled before they had one

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._number = next(self._numbers)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError('expected at least 2D input (got {}D input)'.format(input.dim()))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not self.training and self.track_running_stats or _job.size() == 1:
            if self.training and self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
            return self._normalise_alone(input)
        return self._normalise_together(input)

    def _factor(self) -> float:
        if self.momentum is None:
            return 1.0 / float(self.num_batches_tracked)
        return self.momentum

    def _normalise_alone(self, input: torch.Tensor) -> torch.Tensor:
        uses_batch = self.training or not self.track_running_stats
        factor = self._factor() if self.training and self.track_running_stats else 0.0
        return torch.nn.functional.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias,
                                              uses_batch, factor, self.eps)

    def _normalise_together(self, input: torch.Tensor) -> torch.Tensor:
        x = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        others = [d for d in range(x.dim()) if d != 1]
        shape = [1, -1] + [1] * (x.dim() - 2)
        sums = torch.cat([x.sum(others), x.new_full((1,), x.numel() // x.shape[1])])
        sums = allreduce(sums, op=Sum, name=f"sync_batch_norm.{self._number}.sums")
        count = sums[-1].detach()
        mean = sums[:-1] / count
        centred = x - mean.view(shape)
        squares = allreduce((centred * centred).sum(others), op=Sum, name=f"sync_batch_norm.{self._number}.squares")
        variance = squares / count
        if self.training and self.track_running_stats:
            self._remember(mean.detach(), variance.detach(), count)
        result = centred * torch.rsqrt(variance + self.eps).view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(input.dtype)

    @torch.no_grad()
    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
        self.num_batches_tracked.add_(1)
        factor = self._factor()
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_((variance * (count / (count - 1).clamp(min=1))).to(self.running_var.dtype), factor)
