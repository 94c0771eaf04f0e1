#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# More than 2^31 elements, once by each kind of data path: 4.3 GB in two ranks, so only where it is asked for.
[ "${TEST_HUGE:-0}" = 1 ] || { echo "skipped: needs 10 GB of memory; TEST_HUGE=1 runs it"; exit 77; }
least=$((10 * 1024 * 1024))
available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
if [ "${available:-0}" -lt $least ] || { [ "$limit" != max ] && [ "$limit" -lt $((least * 1024)) ]; }; then
    echo "skipped: less than 10 GB of memory"
    exit 77
fi
HALAY_TRANSPORT=shm "$top_builddir/tests/coll/job" --spawn 2 huge
