#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Timelines: each rank writes one JSON object, by either name of the variable; halay-perf timeline-merge joins them and
# flight recorders' files, and shifts ranks with other clocks.
. "${top_srcdir:?}/tests/perf/perf.sh"

expect 0 "$halayrun" -np 2 --timeline "$scratch/t.json" --flight "$scratch/f" "$perf" engine -n 20 --idle 0
for rank in 0 1; do
    holds "$scratch/t.$rank.json" traceEvents.0.name=process_name traceEvents.0.pid=$rank traceEvents.9.ph=string \
        otherData.rank=$rank otherData.size=2 otherData.dropped=0 otherData.boot_id=string otherData.wall_us=positive
    for what in '"cat":"tensor","id":[0-9]*,"name":"perf[.]worst"' '"cat":"collective","name":"perf[.]small' \
        '"name":"wait perf'; do
        grep -q "$what" "$scratch/t.$rank.json" || wrong "rank $rank's timeline has no $what"
    done
done
expect 0 "$perf" timeline-merge -o "$scratch/all.json" "$scratch/t.0.json" "$scratch/t.1.json"
holds "$scratch/all.json" traceEvents.0.pid=0 otherData.ranks.0.aligned_by=clock otherData.ranks.1.rank=1 \
    otherData.ranks.1.shift_us=number otherData.ranks.2=absent
expect 0 "$perf" timeline-merge "$scratch/t.0.json" "$scratch/f.1"
holds "$scratch/out" otherData.ranks.1.rank=1 otherData.ranks.1.aligned_by=clock

# The same file as if from another host: the common collectives bring it close.
sed 's/"boot_id":"[^"]*"/"boot_id":"another"/' "$scratch/t.1.json" >"$scratch/other.json"
expect 0 "$perf" timeline-merge -o "$scratch/all.json" "$scratch/t.0.json" "$scratch/other.json"
says err "other.json' is shifted by -?[0-9.]+ ms, by collectives$"
holds "$scratch/all.json" otherData.ranks.1.aligned_by=collectives otherData.ranks.1.within_us=positive

# Bounded: little memory keeps the newest records and counts the dropped ones. Horovod's variable and its value are
# accepted.
expect 0 env HOROVOD_TIMELINE="$scratch/small.json" HALAY_TIMELINE_BYTES=16K "$perf" engine -n 200 --idle 0
holds "$scratch/small.0.json" otherData.dropped=positive otherData.size=1
[ "$(wc -c <"$scratch/small.0.json")" -lt 65536 ] || wrong "a timeline of 128 records is too long"
expect 0 env HOROVOD_TIMELINE=DYNAMIC "$perf" engine -n 2 --idle 0
[ ! -e DYNAMIC.0 ] || wrong "HOROVOD_TIMELINE=DYNAMIC wrote a file"

expect 2 "$perf" timeline-merge "$scratch/t.0.json" "$scratch/t.0.json"
says err 'are both of rank 0'
expect 2 "$perf" timeline-merge
expect 1 "$perf" timeline-merge "$0"
expect 1 "$perf" timeline-merge "$scratch/absent"
echo '{"traceEvents": []}' >"$scratch/foreign.json"
expect 1 "$perf" timeline-merge "$scratch/foreign.json"
says err 'is not the timeline of a halay rank'
perf_end
