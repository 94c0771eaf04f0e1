#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed over halay: every collective, in groups too, works and futures, errors, a training by DDP beside
# gloo's; and without halayrun a rank that dies, one that gives up, and a start by each MPI's mpirun.
. "$top_srcdir/tests/python/lib.sh"
need torch
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
job 3 torch_backend.py "$store/collectives" # also in worlds of one and two of the ranks
"$python" "$top_srcdir/tests/python/torch_death.py"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
for mpirun in mpirun.openmpi mpirun.mpich; do
    if command -v "$mpirun" >/dev/null 2>&1; then
        "$mpirun" -np 2 "$python" "$top_srcdir/tests/python/torch_start.py" "$store/$mpirun"
    else
        echo "skipped: no $mpirun"
    fi
done
