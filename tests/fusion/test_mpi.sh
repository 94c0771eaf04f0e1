#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine under mpirun, data over MPI: random programs, the deterministic modes, contexts one after the other, an
# early end, steps with replay and deviations, random ones; and a death where mpirun lets the others live.
. "$top_srcdir/tests/transport/mpirun.sh"
mpi_or_skip
job=$top_builddir/tests/fusion/job
export HALAY_PROCESS_SETS="0;0-1" HALAY_TRANSPORT=mpi HALAY_MODULE_PATH="$top_builddir/.libs"
seed=$(date +%s); echo "seed $seed"
for n in 2 3; do
    out=$(mpi_run $n "$job" programs $seed 2>&1) || { echo "$out"; exit 1; }
    # Under another MPI's mpirun each rank would be alone.
    [ "$(echo "$out" | grep -c "of $n: programs passed")" = $n ] || { echo "$out"; echo "not $n ranks"; exit 1; }
done
# Two nodes: the address and the key of the engine's connections travel by MPI.
out=$(mpi_nodes 2 1 "$job" programs $seed 2>&1) || { echo "$out"; echo "two nodes"; exit 1; }
[ "$(echo "$out" | grep -c "of 3: programs passed")" = 3 ] || { echo "$out"; echo "not 3 ranks"; exit 1; }
HALAY_DETERMINISTIC=run HALAY_FUSION_THRESHOLD=20K mpi_run 2 "$job" deterministic $seed || exit $?
mpi_run 2 "$job" again $seed || exit $?
mpi_run 2 "$job" memory || exit $?
HALAY_PROCESS_SETS=0-1 mpi_run 2 "$job" leave || exit $?
HALAY_REPLAY=1 mpi_run 3 "$job" steady $seed || exit $?
HALAY_PROCESS_SETS='' mpi_run 3 "$top_builddir/tests/fusion/test_random_steps" --rank --count 40 --seed $seed || exit $?
[ $mpi_flavour = openmpi ] || exit 0
for what in die broken; do
    out=$(HALAY_REPLAY=1 HALAY_PROCESS_SETS=0-2 mpi_outlive 3 "$job" $what $seed 2>&1)
    [ $? -ne 124 ] || { echo "$out"; echo "$what: the others did not end"; exit 1; }
    [ "$(echo "$out" | grep -c "$what passed")" = 2 ] || { echo "$out"; echo "$what"; exit 1; }
done
