# SPDX-License-Identifier: Apache-2.0
"""What the tests of launchers' lines start as a training: each rank says who it is, and that all ranks have met."""

import array
import os
import socket
import sys

import halay

with halay.Context() as ctx:
    total = array.array("f", [ctx.rank])
    ctx.allreduce(total, name="ranks", out=total)
    right = total[0] == ctx.size * (ctx.size - 1) / 2
    names = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"
    words = (
        f"rank {ctx.rank} of {ctx.size} on {socket.gethostname()} {'met' if right else 'got ' + str(total[0])}:",
        *(os.environ.get(name, "-") for name in names),
        "master" if os.environ.get("MASTER_ADDR") and os.environ.get("MASTER_PORT") else "no master",
    )
    # One write: mpirun mixes what ranks write in pieces, as print does where output is not buffered.
    sys.stdout.write(" ".join(words) + "\n")
