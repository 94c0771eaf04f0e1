#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Random schedules from several threads, in two contexts; callbacks, coroutines; many steps in flat memory.
. "$top_srcdir/tests/python/lib.sh"
need numpy
for size in $([ -n "${TEST_SEEDS-}" ] && echo 1 3 || echo 1 2 3); do
    seed=${TEST_RANDOM-$$}-$size
    job "$size" threads.py "$seed" || { echo "$size ranks, seed $seed"; exit 1; }
done
job 2 memory.py "${TEST_STEPS:-5000}"
