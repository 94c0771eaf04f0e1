# SPDX-License-Identifier: Apache-2.0
"""A start by a launcher that does not set torch's variables: mpirun or srun. torch_start.py FILE, where the ranks
meet."""

import os
import sys

import torch
import torch.distributed as dist

import halay.distributed  # noqa: F401 (the backend's name)

rank, size = (int(next(os.environ[name] for name in names if name in os.environ))
              for names in (("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
                            ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")))
dist.init_process_group("halay", init_method="file://" + sys.argv[1], rank=rank, world_size=size)
ones = torch.ones(1000)
dist.all_reduce(ones)
assert ones.eq(size).all()
dist.destroy_process_group()
print(f"rank {rank} of {size} met", flush=True)
