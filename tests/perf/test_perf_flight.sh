#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The flight recorder and halay-perf flight: the files explain a job in which a rank was killed while the others waited
# for a tensor that it did not submit; a job that succeeded has no difference.
. "${top_srcdir:?}/tests/perf/perf.sh"
job=$top_builddir/tests/fusion/job

expect 0 env HALAY_TRANSPORT=shm HALAY_FLIGHT="$scratch/killed.%r" "$job" --spawn 3 flight
expect 1 "$perf" flight show "$scratch/killed.0" "$scratch/killed.1" "$scratch/killed.2"
says out "^first difference: tensor 'w', submission 1: submitted by ranks 0, 1; not by rank 2$"
says out "^rank 2 \(.*, process [0-9]+\): waits for nothing, started 'go' last; [0-9]+ records, the last "
says out "^rank 1 .*(submitted|started) '(w|go)' last; failed: rank 2 has died; "
expect 1 "$perf" flight show "$scratch/killed.2" "$scratch/killed.0"
says out '^2 of 3 ranks: the others. files are missing$'
expect 0 "$perf" flight dump "$scratch/killed.2"
says out "finished  'go' collective 1 broadcast f32 4 bytes after [0-9.]+ s$"

# The cause of a failure is kept whole, however long it is.
for limit in 1 5 25; do # until one of them is enough for two ranks to come, on this machine
    expect 0 env HALAY_STALL_CHECK_TIME=0.5 HALAY_STALL_SHUTDOWN_TIME=$limit HALAY_FLIGHT="$scratch/stalled.%r" "$job" \
        --spawn 3 stop
    expect 1 "$perf" flight show "$scratch"/stalled.*
    ! grep -q 'submitted by ranks 0, 1, missing' "$scratch/out" || break
done
says out "^rank 0 .*; failed: stalled for .* s: tensor 'w': submitted by ranks 0, 1, missing: rank 2; [0-9]+ records"

# Tensors have no records of their own: the tests of 1,000 of them fit.
expect 0 "$halayrun" -np 2 --flight "$scratch/all.%r" "$perf" engine -n 2 --idle 0 --model many-small -s 20
expect 0 "$perf" flight show "$scratch/all.0" "$scratch/all.1"
says out '^rank 0 .*; [0-9]{2,4} records, the last '
expect 0 "$halayrun" -np 2 --flight "$scratch/well.dat" --flight-bytes 16K "$perf" engine -n 2 --idle 0 \
    --model many-small -s 1
[ "$(wc -c <"$scratch/well.0.dat")" -eq $((16384 + 4096)) ] || wrong "the file is not as large as it was to be"
expect 0 "$perf" flight show "$scratch"/well.*.dat
says out '^no difference: '
says out 'records that are left, '

expect 1 "$perf" flight show "$scratch/absent"
says err "cannot open '$scratch/absent'"
expect 1 "$perf" flight dump "$0"
says err 'is not a flight'
expect 2 "$perf" flight show "$scratch/well.0.dat" "$scratch/killed.1"
says err 'of several jobs'
expect 2 "$perf" flight show
says err "write 'halay-perf flight show FILE...'"
expect 2 "$perf" flight look "$scratch/well.0.dat"
expect 2 env HALAY_FLIGHT_BYTES=much "$perf" engine
says err 'HALAY_FLIGHT_BYTES'
expect 1 env HALAY_FLIGHT="$scratch/no/where" "$perf" engine
says err "cannot create '$scratch/no/where.0'"
perf_end
