#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine in processes over shared memory: random programs (seeds printed), the deterministic modes, a rank that is
# killed, one that leaves early, steps with replay and deviations, random ones, a death in such steps, contexts one
# after the other, many times, two at once, in a child of fork, aborted and started again, memory that outlives its
# context, what the engine tells about itself; ranks that are configured unlike, one that is killed while a process set
# is made.
# HALAY_TRANSPORT may name another transport (test_ucx.sh).
job=$top_builddir/tests/fusion/job
HALAY_TRANSPORT=${HALAY_TRANSPORT-shm} HALAY_MODULE_PATH=$top_builddir/.libs
export HALAY_TRANSPORT HALAY_MODULE_PATH
for n in $([ -n "${TEST_BRIEF-}" ] && echo 3 || echo 1 2 3 4); do
    "$job" --spawn $n programs || exit $?
done
HALAY_PROCESS_SETS="0,2;1-2" HALAY_FUSION_THRESHOLD=4K "$job" --spawn 3 programs || exit $?
for mode in run ranks; do
    HALAY_DETERMINISTIC=$mode HALAY_FUSION_THRESHOLD=20K "$job" --spawn 3 deterministic || exit $?
done
for what in again two memory $([ "$HALAY_TRANSPORT" = shm ] && echo often fork); do # ucx keeps things, and minds a fork
    "$job" --spawn 2 $what || { echo "$what"; exit 1; }
done
"$job" --spawn 3 abort || { echo "a job that is aborted and starts again"; exit 1; }
run=$top_builddir/launcher/halayrun
[ ! -x "$run" ] || "$run" -np 3 "$job" abort || { echo "an abort under halayrun"; exit 1; }
"$job" --spawn 3 unlike || { echo "ranks that cannot start together"; exit 1; }
"$job" --spawn 4 making || { echo "a death while a process set is made"; exit 1; }
for n in 2 4; do
    HALAY_REPLAY=1 "$job" --spawn $n steady || { echo "steps with replay"; exit 1; }
done
"$top_builddir/tests/fusion/test_random_steps" --spawn 3 --count 40 || { echo "random steps"; exit 1; }
HALAY_REPLAY=1 "$job" --spawn 3 broken || { echo "a death in steps with replay"; exit 1; }
HALAY_STALL_CHECK_TIME=0.05 "$job" --spawn 3 observe || exit $?
HALAY_STALL_CHECK_TIME=0.5 HALAY_STALL_SHUTDOWN_TIME=1 "$job" --spawn 3 stop || { echo "a rank that is stopped"; exit \
    1; }
for n in 2 4; do
    export HALAY_PROCESS_SETS=0-$((n - 1))
    "$job" --spawn $n die || { echo "a death"; exit 1; }
    "$job" --spawn $n leave || { echo "an early end"; exit 1; }
done
