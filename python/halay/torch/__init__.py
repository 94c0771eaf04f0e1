# SPDX-License-Identifier: Apache-2.0
"""Horovod's PyTorch API on halay's engine.

    import halay.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

All names of Horovod 0.28.1's `horovod.torch` that its tests and examples use are here, with its semantics and the texts
of its errors. `docs/guides/from-horovod.md` lists what is different; `python -m halay.horovod script.py` runs a script
with `import horovod.torch`.

Objects (broadcast_object, allgather_object, elastic states) travel pickled between the ranks of one job, all of which
have proved that they know its secret: a process that can be a rank can run code on the others.
"""
try:
    import torch  # noqa: F401
except ModuleNotFoundError as failure:
    raise ModuleNotFoundError("halay.torch needs PyTorch: pip install torch", name=failure.name) from None

from halay.torch import elastic
from halay.torch._job import (HorovodInternalError, HostsUpdatedInterrupt, cross_rank, cross_size, is_homogeneous,
                              is_initialized, local_rank, local_size, rank, size)
from halay.torch.basics import (ccl_built, cuda_built, ddl_built, gloo_built, gloo_enabled, init, mpi_built,
                                mpi_enabled, mpi_threads_supported, nccl_built, rocm_built, shutdown, start_timeline,
                                stop_timeline)
from halay.torch.compression import Compression
from halay.torch.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                   broadcast_parameters)
from halay.torch.ops import (Adasum, Average, Max, Min, Product, Sum, allgather, allgather_async, allreduce, allreduce_,
                             allreduce_async, allreduce_async_, alltoall, alltoall_async, barrier, broadcast,
                             broadcast_, broadcast_async, broadcast_async_, grouped_allgather, grouped_allgather_async,
                             grouped_allreduce, grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_,
                             grouped_reducescatter, grouped_reducescatter_async, join, poll, reducescatter,
                             reducescatter_async, sparse_allreduce_async, synchronize)
from halay.torch.optimizer import DistributedOptimizer
from halay.torch.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from halay.torch.sync_batch_norm import SyncBatchNorm
