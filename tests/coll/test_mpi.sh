#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collectives over MPI point-to-point under mpirun: one launch a rank count runs all its cases. A death in mid-operation is
# tried where mpirun lets the others live.
# What MPI or UCX leave allocated is theirs, and the leak checker itself crashes on UCX's threads.
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export ASAN_OPTIONS
job=$top_builddir/tests/coll/job
command -v mpirun >/dev/null 2>&1 || { echo "skipped: no mpirun"; exit 77; }
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HALAY_TRANSPORT=mpi HALAY_RING_SEGMENT=16K
HALAY_MODULE_PATH=$top_builddir/.libs
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM HALAY_TRANSPORT HALAY_RING_SEGMENT HALAY_MODULE_PATH
# Open MPI wants to be told; others have never heard of it.
over=; mpirun --version 2>/dev/null | grep -q 'Open MPI' && over='--oversubscribe --bind-to none'
for n in 1 2 3 4 5 7 8; do
    mpirun $over -np $n "$job" matrix || exit $?
done
mpirun $over -np 3 "$job" allocations || [ $? = 77 ] || exit 1
HALAY_CHECK=1 mpirun $over -np 3 "$job" checking || exit $?
if [ -n "$over" ]; then
    for sizes in '2 2' '3 1' '2 3'; do
        set -- $sizes
        mpirun $over -np $1 -x HALAY_NODE=a "$job" quick : -np $2 -x HALAY_NODE=b "$job" quick || exit $?
    done
    out=$(timeout 120 mpirun $over --mca orte_abort_on_non_zero_status 0 --enable-recovery -np 4 "$job" members 2>&1)
    [ "$(echo "$out" | grep -c 'over mpi: passed')" = 2 ] || { echo "$out"; echo "groups without the dead"; exit 1; }
    for how in 'allreduce ring' 'adasum direct' 'reduce binomial' 'reduce-scatter ring' 'broadcast chain' \
        'allgather bruck' 'alltoall pairwise' 'barrier dissemination'; do
        out=$(timeout 120 mpirun $over --mca orte_abort_on_non_zero_status 0 --enable-recovery -np 3 "$job" die $how 2>&1)
        [ $? -ne 124 ] || { echo "$out"; echo "a death in $how: the others did not end"; exit 1; }
        [ "$(echo "$out" | grep -c 'over mpi: passed')" = 2 ] || { echo "$out"; echo "a death in $how"; exit 1; }
    done
fi
