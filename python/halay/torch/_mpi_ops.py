# SPDX-License-Identifier: Apache-2.0
"""What scripts import from horovod.torch.mpi_ops, horovod.common.exceptions and horovod.common.util."""
from halay.torch._job import *  # noqa: F401,F403
from halay.torch.basics import *  # noqa: F401,F403
from halay.torch.compression import Compression  # noqa: F401
from halay.torch.ops import *  # noqa: F401,F403
from halay.torch.process_sets import (ProcessSet, add_process_set, global_process_set,  # noqa: F401
                                      remove_process_set)
