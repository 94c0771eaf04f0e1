#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Contexts and groups of a program's own MPI communicators, with each MPI that modules were built for; and the example.
. "$top_srcdir/tests/transport/mpirun.sh"
mpi_or_skip
export HALAY_MODULE_PATH="$top_builddir/.libs"

# passed COUNT WORDS COMMAND...: all ranks say so.
passed() {
    count=$1 words=$2
    shift 2
    out=$("$@" 2>&1) || { echo "$out"; echo "failed: $*"; exit 1; }
    [ "$(echo "$out" | grep -c "$words")" = "$count" ] || { echo "$out"; echo "not $count times '$words': $*"; exit 1; }
}

passed 3 'multiple passed' mpi_run 3 "$top_builddir/tests/fusion/communicator" multiple
passed 3 'funneled passed' mpi_run 3 "$top_builddir/tests/fusion/communicator" funneled
passed 3 '3 ranks in all' mpi_run 3 "$top_builddir/examples/communicator"
passed 1 'process 1 of 3: .* 1 with numbers as odd as mine' mpi_run 3 "$top_builddir/examples/communicator"

if ! grep -q '^#define HALAY_HAVE_MPICH 1' "$top_builddir/config.h" || ! command -v mpirun.mpich >/dev/null 2>&1; then
    echo "skipped: no MPICH beside the MPI"
    exit
fi
mpirun=mpirun.mpich mpi_flavour=mpich
passed 3 'multiple passed' mpi_run 3 "$top_builddir/tests/fusion/communicator-mpich" multiple
passed 3 'funneled passed' mpi_run 3 "$top_builddir/tests/fusion/communicator-mpich" funneled
passed 3 '3 ranks in all' mpi_run 3 "$top_builddir/examples/communicator-mpich"
