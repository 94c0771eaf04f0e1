#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collectives over MPI point-to-point under mpirun: one launch a rank count runs all its cases. A death in mid-operation
# is tried where mpirun lets the others live. In the gate (TEST_SEEDS) the matrix is that of test_fake and test_shm.sh.
. "$top_srcdir/tests/transport/mpirun.sh"
mpi_or_skip
job=$top_builddir/tests/coll/job
export HALAY_TRANSPORT=mpi HALAY_RING_SEGMENT=16K HALAY_SPIN_US=20 HALAY_MODULE_PATH="$top_builddir/.libs"

# all RANKS ARG...: each rank says that it passed, as one of so many: under another MPI's mpirun each would be alone.
all() {
    ranks=$1
    shift
    out=$(mpi_run "$ranks" "$job" "$@" 2>&1)
    status=$?
    [ $status = 77 ] && return 77
    [ $status = 0 ] && [ "$(echo "$out" | grep -c "of $ranks over mpi: passed")" = "$ranks" ] && return 0
    echo "$out"
    echo "failed: $ranks ranks: $*"
    exit 1
}
for n in $([ -n "${TEST_SEEDS-}" ] && echo 1 3 || echo 1 2 3 4 5 7 8); do
    if [ $n = 3 ] && [ -z "${TEST_BRIEF-}${TEST_SEEDS-}" ]; then
        all $n matrix # the same at all sizes, and with sanitizers: test_fake, test_shm.sh
    else
        all $n quick
    fi
done
all 3 allocations
all 3 withdrawals
HALAY_CHECK=1 all 3 checking
for sizes in '2 2' '3 1' '2 3'; do
    mpi_nodes $sizes "$job" quick || exit $?
done
if [ $mpi_flavour = openmpi ]; then
    out=$(mpi_outlive 4 "$job" members 2>&1)
    [ "$(echo "$out" | grep -c 'over mpi: passed')" = 2 ] || { echo "$out"; echo "groups without the dead"; exit 1; }
    for how in 'allreduce ring' 'adasum direct' 'reduce binomial' 'reduce-scatter ring' 'broadcast chain' \
        'allgather bruck' 'alltoall pairwise' 'barrier dissemination'; do
        out=$(mpi_outlive 3 "$job" die $how 2>&1)
        [ $? -ne 124 ] || { echo "$out"; echo "a death in $how: the others did not end"; exit 1; }
        [ "$(echo "$out" | grep -c 'over mpi: passed')" = 2 ] || { echo "$out"; echo "a death in $how"; exit 1; }
        [ -z "${TEST_BRIEF-}${TEST_SEEDS-}" ] || break
    done
fi
