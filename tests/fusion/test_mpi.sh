#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine under mpirun, data over MPI: random schedules, the deterministic modes, contexts one after the other, an early
# end; and a death where mpirun lets the others live.
# What MPI or UCX leave allocated is theirs, and the leak checker itself crashes on UCX's threads.
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export ASAN_OPTIONS
job=$top_builddir/tests/fusion/job
command -v mpirun >/dev/null 2>&1 || { echo "skipped: no mpirun"; exit 77; }
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 HALAY_TRANSPORT=mpi HALAY_MODULE_PATH=$top_builddir/.libs
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM HALAY_TRANSPORT HALAY_MODULE_PATH
over=; mpirun --version 2>/dev/null | grep -q 'Open MPI' && over='--oversubscribe --bind-to none'
seed=$(date +%s); echo "seed $seed"
for n in 2 3; do
    mpirun $over -np $n "$job" schedules $seed || exit $?
done
HALAY_DETERMINISTIC=run HALAY_FUSION_THRESHOLD=20K mpirun $over -np 2 "$job" deterministic $seed || exit $?
mpirun $over -np 2 "$job" again $seed || exit $?
mpirun $over -np 2 "$job" leave || exit $?
if [ -n "$over" ]; then
    out=$(timeout 120 mpirun $over --mca orte_abort_on_non_zero_status 0 --enable-recovery -np 3 "$job" die 2>&1)
    [ $? -ne 124 ] || { echo "$out"; echo "a death: the others did not end"; exit 1; }
    [ "$(echo "$out" | grep -c 'die passed')" = 2 ] || { echo "$out"; echo "a death"; exit 1; }
fi
