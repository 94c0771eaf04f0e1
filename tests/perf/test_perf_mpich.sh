#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Modules for two MPIs side by side: under MPICH's launcher the job starts, moves data and compares with MPICH, although
# the first MPI is another. test_perf_versus.sh shows that the other is still used under its own launcher.
. "${top_srcdir:?}/tests/perf/perf.sh"
ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
export ASAN_OPTIONS
grep -q '^#define HALAY_HAVE_MPICH 1' "$top_builddir/config.h" || skip "no MPICH beside another MPI in this build"
command -v mpirun.mpich >/dev/null 2>&1 || skip "no mpirun.mpich"
json=$scratch/report.json

expect 0 mpirun.mpich -np 2 "$perf" allreduce -b 4 -e 64K -f 64 -n 5 -w 1 --versus mpi --json "$json"
holds "$json" ranks=2 versions.mpich=string results.0.wrong=0 results.2.wrong=0 results.2.versus.0.name=mpich \
    results.2.versus.0.time_us=positive results.2.versus.0.wrong=0
expect 0 mpirun.mpich -np 3 "$perf" reduce-scatter -b 4K -e 4K -n 3 --transport mpi --versus mpi --json "$json"
holds "$json" ranks=3 results.0.transport=mpi results.0.wrong=0 results.0.versus.0.name=mpich results.0.versus.0.wrong=0
expect 0 mpirun.mpich -np 2 "$perf" doctor
says out 'started by an MPI launcher: 2 ranks'
says out '^  mpi +loads: .*libhalay-mpi-mpich.so'

# Without a launcher the first MPI's module is used, and both load into one process.
expect 0 "$perf" doctor
says out '^  mpi +loads: .*libhalay-mpi.so'
says out '^  mpi-mpich +loads: .*libhalay-mpi-mpich.so'
perf_end
