#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The mpi module under mpirun: the cases of module_cases.c on several numbers of ranks, with whole and with tiny parts,
# and the death of a rank where mpirun lets the others live.
. "$top_srcdir/tests/transport/mpirun.sh"
mpi_or_skip
failed=0

check() {
    "$@" || { echo "failed: $*"; failed=1; }
}

for ranks in $([ -n "${TEST_BRIEF-}${TEST_SEEDS-}" ] && echo 1 5 || echo 1 2 3 4 5 7 8); do
    check mpi_run $ranks "$top_builddir/tests/transport/mpi_cases" conform
done
check mpi_run 3 "$top_builddir/tests/transport/mpi_cases"
check mpi_run 4 "$top_builddir/tests/transport/mpi_cases_parts"
check mpi_run 3 "$top_builddir/tests/transport/mpi_cases_parts" conform

# The victim's own status makes mpirun's: what counts is that every survivor says "no failed check".
if test $mpi_flavour = openmpi; then
    out=$(mktemp)
    mpi_outlive 3 "$top_builddir/tests/transport/mpi_cases" die >"$out" 2>&1
    test "$(grep -c ' checks passed, 0 failed' "$out")" = 2 || { cat "$out"; echo "failed: death of a rank"; failed=1; }
    rm -f "$out"
fi
exit $failed
