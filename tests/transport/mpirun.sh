# SPDX-License-Identifier: Apache-2.0
#
# For test scripts, to be sourced: how ranks are started under mpirun here, as root in a container of two cores too.
#
#     mpi_or_skip                    ends the test with 77 and the reason if there is no module or no mpirun
#     mpi_run RANKS PROGRAM ARG...   with Open MPI or MPICH, whichever the module was built for

mpi_or_skip() {
    mpi_module=$top_builddir/.libs/libhalay-mpi.so
    test -f "$mpi_module" || { echo "skipped: built without MPI"; exit 77; }
    mpi_flavour=openmpi
    ldd "$mpi_module" | grep -q libmpich && mpi_flavour=mpich
    # Where several are installed, the plain name belongs to one of them.
    mpirun=
    for name in "mpirun.$mpi_flavour" mpirun; do
        command -v "$name" >/dev/null 2>&1 && { mpirun=$name; break; }
    done
    test -n "$mpirun" || { echo "skipped: no mpirun"; exit 77; }
}

# Ranks that wait for a processor give it up; no complaint about the network of a container.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism-cma}"
export OMPI_MCA_orte_tmpdir_base="${TMPDIR:-/tmp}"

# An MPI that was never to be finalised leaves what it allocated; with the address sanitizer that is not our fault.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

mpi_run() {
    ranks=$1
    shift
    case $mpi_flavour in
    openmpi) "$mpirun" --oversubscribe --bind-to none -np "$ranks" $mpi_options "$@" ;;
    *) "$mpirun" -np "$ranks" $mpi_options "$@" ;;
    esac
}
