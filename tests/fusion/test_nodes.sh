#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The engine over several nodes, which HALAY_NODE makes of this one: its messages over TCP, data over UCX, or as
# HALAY_TRANSPORT says (test_tcp.sh). Random programs (seeds printed), the deterministic modes, a rank that is killed,
# one that leaves early, steps with replay and deviations, random ones, a death in such steps, contexts one after the
# other and two at once.
# What UCX leaves allocated is its own, and the leak checker itself crashes on its threads.
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
job=$top_builddir/tests/fusion/job
HALAY_TRANSPORT=${HALAY_TRANSPORT-ucx} HALAY_MODULE_PATH=$top_builddir/.libs
export HALAY_TRANSPORT HALAY_MODULE_PATH ASAN_OPTIONS
layouts='01 0011 00101'
[ -z "${TEST_BRIEF-}${TEST_SEEDS-}" ] || layouts=00101 # the gate: elsewhere all
for layout in $layouts; do
    "$job" --spawn ${#layout} --nodes $layout programs || exit $?
done
for mode in run ranks; do
    HALAY_DETERMINISTIC=$mode HALAY_FUSION_THRESHOLD=20K "$job" --spawn 3 --nodes 011 deterministic || exit $?
done
for what in again two die leave making; do
    "$job" --spawn 4 --nodes 0011 $what || { echo "$what"; exit 1; }
done
for what in steady broken; do
    HALAY_REPLAY=1 "$job" --spawn 6 --nodes 001122 $what || { echo "$what"; exit 1; }
done
"$top_builddir/tests/fusion/test_random_steps" --spawn 3 --nodes 001 --count 30 || { echo "random steps"; exit 1; }
HALAY_STALL_CHECK_TIME=0.05 "$job" --spawn 3 --nodes 001 observe || exit $?
