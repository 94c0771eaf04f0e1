#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Collectives over TCP: one job a rank count runs all its cases; then a rank is killed in mid-operation.
job=$top_builddir/tests/coll/job
HALAY_TRANSPORT=tcp HALAY_RING_SEGMENT=16K HALAY_SPIN_US=20 # the machine may be busy
export HALAY_TRANSPORT HALAY_RING_SEGMENT HALAY_SPIN_US
counts='1 2 3 4 5 7 8' layouts='0011 0001 00111'
[ -z "${TEST_BRIEF-}${TEST_SEEDS-}" ] || counts='1 3' layouts=00111 # others: test_fake, test_shm.sh
for n in $counts; do
    what=quick
    [ $n != 3 ] || [ -n "${TEST_BRIEF-}${TEST_SEEDS-}" ] || what=matrix # elsewhere test_fake's will do
    "$job" --spawn $n $what || exit $?
done
"$job" --spawn 3 allocations || [ $? = 77 ] || exit 1
"$job" --spawn 4 0011 allocations || [ $? = 77 ] || exit 1
HALAY_CHECK=1 "$job" --spawn 4 0001 checking || exit $?
for layout in $layouts; do
    "$job" --spawn ${#layout} $layout quick || exit $?
done
"$job" --spawn 3 withdrawals || exit $?
"$job" --spawn 5 00111 withdrawals || exit $?
HALAY_PEER_TIMEOUT=0.2 "$job" --spawn 3 stop & # mostly waits
stops=$!
"$job" --spawn 3 die || { wait; echo "a death"; exit 1; }
"$job" --spawn 4 0011 die || { wait; echo "a death on one of two nodes"; exit 1; }
"$job" --spawn 4 members || { wait; echo "groups without the dead"; exit 1; }
wait $stops || { echo "a stopped rank"; exit 1; }
