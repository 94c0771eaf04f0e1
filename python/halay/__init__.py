# SPDX-License-Identifier: Apache-2.0
"""
halay for Python: named arrays, reduced over all ranks of a job in the background.

    import numpy
    import halay

    with halay.Context() as ctx:
        mine = numpy.full(4, ctx.rank, numpy.float32)
        print(ctx.allreduce(mine, name="ranks"))

Run it by `halayrun -np 2 python program.py`. Importing halay imports neither NumPy nor PyTorch.
"""

from ._library import VERSION as __version__
from ._run import run
from .constants import ANY_RANK, Collective, DType, Reduction, Status, Wire
from .context import Context, ProcessSet
from .errors import (
    ArgumentError,
    AuthError,
    CanceledError,
    ClosedError,
    ConfigError,
    DuplicateError,
    FormatError,
    HalayError,
    LibraryError,
    MismatchError,
    NoMemoryError,
    PeerError,
    TimeoutError,
    UnsupportedError,
    VersionError,
)
from .rendezvous import Rendezvous
from .request import Request, Tensor, wait_all, wait_any
from .start import unique_id

__all__ = [
    "ANY_RANK",
    "ArgumentError",
    "AuthError",
    "CanceledError",
    "ClosedError",
    "Collective",
    "ConfigError",
    "Context",
    "DType",
    "DuplicateError",
    "FormatError",
    "HalayError",
    "LibraryError",
    "MismatchError",
    "NoMemoryError",
    "PeerError",
    "ProcessSet",
    "Reduction",
    "Rendezvous",
    "Request",
    "Status",
    "Tensor",
    "TimeoutError",
    "UnsupportedError",
    "VersionError",
    "Wire",
    "__version__",
    "run",
    "unique_id",
    "wait_all",
    "wait_any",
]
