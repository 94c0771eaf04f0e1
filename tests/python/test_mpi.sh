#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Python over MPI, which halay initialises: a program that ends well has status 0 under mpirun and `halayrun --mpi`,
# with Open MPI and with MPICH, since what initialised MPI also finalises it; one that fails has not.
. "$top_srcdir/tests/python/lib.sh"
. "$top_srcdir/tests/transport/mpirun.sh"
need numpy
[ -f "$top_builddir/.libs/libhalay-mpi.so" ] || skip "built without MPI"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export HALAY_TRANSPORT=mpi HALAY_MODULE_PATH="$top_builddir/.libs"

# over WHAT STATUS COMMAND...: ends.py WHAT on two ranks that COMMAND starts
over() {
    what=$1 wanted=$2
    shift 2
    status=0
    "$@" "$python" "$top_srcdir/tests/python/ends.py" "$what" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$wanted" = failed ] && [ $status != 0 ] || [ "$status" = "$wanted" ] || {
        echo "$* $what: status $status, not $wanted"
        cat "$dir/out" "$dir/err"
        exit 1
    }
}

for mpi_flavour in openmpi mpich; do
    mpirun=$(command -v mpirun.$mpi_flavour) &&
        ls "$HALAY_MODULE_PATH" | grep -q "^libhalay-mpi$(test $mpi_flavour = openmpi || echo -mpich).so$" || {
        echo "skipped: no mpirun.$mpi_flavour, or no module for it"
        continue
    }
    for what in forgotten fork flight outlived; do
        over $what 0 mpi_run 2
    done
    over raise failed mpi_run 2
    mkdir "$dir/$mpi_flavour"
    printf '#!/bin/sh\nexec %s "$@"\n' "$mpirun" >"$dir/$mpi_flavour/mpirun"
    chmod +x "$dir/$mpi_flavour/mpirun"
    PATH=$dir/$mpi_flavour:$PATH
    over forgotten 0 "$top_builddir/launcher/halayrun" --mpi -np 2
    "$top_builddir/launcher/halayrun" --mpi -np 2 "$python" -c '
import halay, os
job = halay.Context()
ours = [job.rank, job.size, job.local_rank, job.local_size]
names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"]
assert ours == [int(os.environ[name]) for name in names], ours
assert os.environ["MASTER_ADDR"] == "127.0.0.1" and int(os.environ["MASTER_PORT"]) >= 20000
' >"$dir/out" 2>&1 || {
        echo "torchrun's variables"
        cat "$dir/out"
        exit 1
    }
    echo "$mpi_flavour: as it should"
done
