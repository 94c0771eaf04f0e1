# SPDX-License-Identifier: Apache-2.0
#
# For test scripts, to be sourced: how ranks are started under mpirun here, as root in a container of two cores too.
#
#     mpi_or_skip                    ends the test with 77 and the reason if there is no module or no mpirun
#     mpi_run RANKS PROGRAM ARG...   with Open MPI or MPICH, whichever the module was built for
#     mpi_nodes N M PROGRAM ARG...   the same: N ranks of a node 'a' and M of a node 'b'
#     mpi_outlive RANKS PROGRAM ARG...  Open MPI's, where the death of a rank does not end the others; 124: it takes
#                                    longer than two minutes

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
    openmpi) "$mpirun" --oversubscribe --bind-to none -np "$ranks" "$@" ;;
    *) "$mpirun" -np "$ranks" "$@" ;;
    esac
}

# One command, since the mpirun of Open MPI 5.0.7 crashes on two that ':' separates.
mpi_nodes() {
    a_ranks=$1
    nodes_ranks=$(($1 + $2))
    shift 2
    mpi_run $nodes_ranks env A_RANKS="$a_ranks" sh -c 'HALAY_NODE=a
        [ ${OMPI_COMM_WORLD_RANK-$PMI_RANK} -lt $A_RANKS ] || HALAY_NODE=b
        export HALAY_NODE
        exec "$0" "$@"' "$@"
}

mpi_outlive() {
    outlive_ranks=$1
    shift
    timeout 120 "$mpirun" --oversubscribe --bind-to none --enable-recovery --mca orte_abort_on_non_zero_status 0 \
        -np "$outlive_ranks" "$@"
}
