# SPDX-License-Identifier: Apache-2.0
"""A sampler that deals a data set out anew when the ranks change."""
from __future__ import annotations

import random
from typing import Any, Dict, Iterator, List, Sized

import torch.utils.data

from halay.torch import _job


class ElasticSampler(torch.utils.data.Sampler):
    """Deals the indices of a data set to the ranks, those only that this epoch has not used yet.

    Give it to a TorchState; call record_batch() after each batch and set_epoch() at the end of each epoch, which
    forgets what was used. All ranks give the same seed. The last ranks get a few indices twice where the number does
    not come out even.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin this epoch: all indices are to be had again, in another order if they are shuffled."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Each rank has used batch_size more samples. They are left out from the next reset on."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Deal out what is left to the ranks that there are now."""
        self.num_replicas = _job.size()
        self.rank = _job.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices: List[int] = indices[self.processed_num:]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        self.indices = [left[i % len(left)] for i in range(self.rank, self.total_size, self.num_replicas)]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
