# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
#
# Shared by the tests of halay-perf, which read it with `. perf.sh`. Sets scratch, perf, halayrun, check_json.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
# shellcheck disable=SC2034 # used by the tests
perf=$top_builddir/perf/halay-perf
# shellcheck disable=SC2034
halayrun=$top_builddir/launcher/halayrun
check_json=$top_builddir/tests/perf/check_json

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
faults=0
checks=0

# The settings of an outer job or of the user must not reach the programs under test.
for name in $(env | sed -n 's/^\(\(HALAY\|HOROVOD\)_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

wrong() {
    echo "$*"
    faults=$((faults + 1))
}

# expect STATUS COMMAND...: run it, its output to $scratch/out and $scratch/err.
expect() {
    expected=$1
    shift
    checks=$((checks + 1))
    status=0
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    [ "$status" -eq "$expected" ] && return
    wrong "exit status $status instead of $expected: $*"
    cat "$scratch/out" "$scratch/err"
}

# says FILE PATTERN: the last command wrote a line that matches the extended regular expression.
says() {
    checks=$((checks + 1))
    grep -qE -e "$2" "$scratch/$1" && return
    wrong "nothing in its $1 matches '$2':"
    cat "$scratch/$1"
}

# holds FILE PATH=TYPE...
holds() {
    checks=$((checks + 1))
    "$check_json" "$@" || wrong "the JSON is not as it must be: $1"
}

skip() {
    echo "skipped: $*"
    exit 77
}

has_mpi() {
    grep -q '^#define HALAY_HAVE_MPI 1' "$top_builddir/config.h" && command -v mpirun >/dev/null 2>&1
}

perf_end() {
    echo "$checks checked, $faults wrong"
    [ "$faults" -eq 0 ] && [ "$checks" -gt 0 ]
}
