#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collectives over shared memory: one job a rank count runs all its cases; then one in the checking mode; then a rank is
# killed, and one stopped.
job=$top_builddir/tests/coll/job
HALAY_TRANSPORT=shm HALAY_RING_SEGMENT=16K HALAY_SPIN_US=20 # the machine may be busy
export HALAY_TRANSPORT HALAY_RING_SEGMENT HALAY_SPIN_US
counts='1 2 3 4 5 7 8'
[ -z "${TEST_SEEDS-}" ] || counts='1 2 3 5 8'
[ -z "${TEST_BRIEF-}" ] || counts='1 3 8'
for n in $counts; do
    what=quick
    case $n,${TEST_SEEDS-} in
    3,* | 2, | 5, | 8,) what=matrix ;; # in the gate (TEST_SEEDS) the others are test_fake's: see its whole()
    esac
    "$job" --spawn $n $what || exit $?
done
"$job" --spawn 3 allocations || [ $? = 77 ] || exit 1
HALAY_CHECK=1 "$job" --spawn 3 checking || exit $?
"$job" --spawn 3 withdrawals || exit $?
HALAY_PEER_TIMEOUT=0.2 "$job" --spawn 3 stop & # mostly waits
stops=$!
"$job" --spawn 3 die || { wait; echo "a death"; exit 1; }
"$job" --spawn 4 members || { wait; echo "groups without the dead"; exit 1; }
wait $stops || { echo "a stopped rank"; exit 1; }
