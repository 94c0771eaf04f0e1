#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# halay-perf under mpirun: beside MPI_Allreduce in one run, and the engine.
. "${top_srcdir:?}/tests/perf/perf.sh"
# What MPI or UCX leave allocated is theirs, and the leak checker itself crashes on UCX's threads.
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export ASAN_OPTIONS
has_mpi || skip "no MPI in this build, or no mpirun"
json=$scratch/report.json

for buffers in shared private; do
    expect 0 mpirun -np 2 "$perf" allreduce -b 4 -e 64K -n 5 -w 1 --buffers $buffers --versus mpi --json "$json"
    says out ' ratio$'
    holds "$json" ranks=2 buffers=$buffers results.0.wrong=0 results.7.wrong=0 results.7.versus.0.name=string \
        results.7.versus.0.time_us=positive results.7.versus.0.ratio=positive results.7.versus.0.wrong=0
done
expect 0 mpirun -np 3 "$perf" allreduce -b 1K -e 4K -n 3 -d i64 -o min --versus mpi --json "$json"
holds "$json" ranks=3 results.0.wrong=0 results.0.versus.0.wrong=0
for operation in reduce reduce-scatter broadcast all-gather alltoall; do
    root=
    case $operation in reduce | broadcast) root='--root 2' ;; esac
    # shellcheck disable=SC2086 # a list of words
    expect 0 mpirun -np 3 "$perf" $operation -b 4 -e 4K -f 1000 -n 3 -w 1 $root --versus mpi --json "$json"
    holds "$json" op=$operation ranks=3 results.1.wrong=0 results.1.versus.0.time_us=positive \
        results.1.versus.0.ratio=positive results.1.versus.0.wrong=0
done
expect 0 mpirun -np 2 "$perf" barrier -n 10 --versus mpi --json "$json"
holds "$json" op=barrier results.0.versus.0.time_us=positive
expect 0 mpirun -np 2 "$perf" allreduce -b 1K -e 1K -n 3 --versus both --json "$json"
holds "$json" results.0.versus.0.wrong=0 results.0.versus.1.name=naive results.0.versus.1.wrong=0
# Data that are only moved may have any type.
expect 0 mpirun -np 2 "$perf" broadcast -b 4K -e 4K -n 3 -d f16 --versus mpi --json "$json"
holds "$json" results.0.dtype=f16 results.0.versus.0.wrong=0

# A type or reduction that MPI lacks is an error, not skipped.
expect 2 mpirun -np 2 "$perf" allreduce -e 4K -n 3 -d bf16 --versus mpi
says err 'MPI has no 16-bit floating type'
expect 2 mpirun -np 2 "$perf" allreduce -e 4K -n 3 -o average --versus mpi
says err 'MPI has no average'

expect 0 mpirun -np 2 "$perf" engine -n 3 --idle 0.1 --model tft-electricity -s 2 --versus mpi --json "$json"
says out 'one call a bucket'
holds "$json" ranks=2 latency_us.p50=positive versus.0.name=string versus.0.step_ms=positive versus.1.ratio=positive
expect 0 mpirun -np 2 "$perf" doctor
says out 'started by an MPI launcher: 2 ranks'
perf_end
