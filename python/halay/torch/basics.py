# SPDX-License-Identifier: Apache-2.0
"""init(), shutdown(), the timeline, and what a build of Horovod would say of itself."""
from __future__ import annotations

import os
from typing import Optional, Sequence, Union

import torch

from halay.torch import _job
from halay.torch.process_sets import ProcessSet, _begin
from halay.torch.timeline import Recording

_recording: Optional[Recording] = None


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Join the job that halayrun or mpirun has started; alone, this is a job of one. Nothing happens at a second call.

    comm: None, or the list of all ranks. process_sets: sets to be made, the same on all ranks; "dynamic", which Horovod
    wants before it lets add_process_set() be called, is understood.
    """
    if comm is not None and not isinstance(comm, (list, tuple, range)):
        raise ValueError("halay.torch.init takes no MPI communicator: start the job on the ranks that it is to have")
    is_new = _job.open_context()
    try:
        if comm and sorted(comm) != list(range(_job.size())):
            raise ValueError(f"comm must be the list of all {_job.size()} ranks: use process sets for some of them")
        _begin(process_sets if is_new else None)
    except ValueError:
        if is_new:
            _job.close_context()
        raise


def shutdown() -> None:
    """Leave the job. init() joins it again."""
    global _recording
    _recording = None
    _job.close_context()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Record what happens until stop_timeline(), which writes the file. Rank 0's is in the form of Horovod's. Nothing
    happens if a recording is on. mark_cycles: also what wakes the engine; it has no cycles."""
    global _recording
    if not _job.is_initialized():
        raise ValueError(_job.NOT_INITIALIZED)
    if _recording is None:
        _recording = Recording(_job.context(), file_path, mark_cycles)


def stop_timeline() -> None:
    """End the recording and write the file."""
    global _recording
    if not _job.is_initialized():
        raise ValueError(_job.NOT_INITIALIZED)
    recording, _recording = _recording, None
    if recording is not None:
        recording.stop()


def mpi_enabled() -> bool:
    """Whether MPI has started this job."""
    return "HALAY_RANK" not in os.environ and any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"))


def mpi_built() -> bool:
    """Whether halay has joined this job through MPI: what a build has is of no interest to a program."""
    return mpi_enabled()


def mpi_threads_supported() -> bool:
    """Whether mpi4py may be used from several threads. ValueError: MPI has not started this job."""
    if not mpi_enabled():
        raise ValueError('Horovod MPI is not enabled; Please make sure it\'s installed and enabled.')
    _job.context()
    return True


def gloo_enabled() -> bool:
    """Whether the job needs no MPI: what Horovod calls Gloo is halay's own start."""
    return not mpi_enabled()


def gloo_built() -> bool:
    """True: halay needs no MPI."""
    return True


def nccl_built() -> int:
    """0: halay moves data itself, on GPUs, too."""
    return 0


def ddl_built() -> bool:
    """False."""
    return False


def ccl_built() -> bool:
    """False."""
    return False


def cuda_built() -> bool:
    """Whether tensors on GPUs are reduced there, or moved by the engine: False before init()."""
    return _job.is_initialized() and torch.cuda.is_available() and \
        _job.reaches(torch.device("cuda", torch.cuda.current_device()))


def rocm_built() -> bool:
    """False."""
    return False
