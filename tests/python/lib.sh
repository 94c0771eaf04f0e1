# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
#
# What the tests of the Python package share; they read it with `. lib.sh`. Sets python, an interpreter that has NumPy,
# and makes it find the package of the tree and the library of the build.
#
# need MODULE...: skips the test if no interpreter has all of them.
# job N SCRIPT ARGUMENT...: runs a script of this folder on N ranks.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
HALAY_LIBRARY=$top_builddir/.libs/libhalay.so.1
PYTHONPATH=$top_srcdir/python:$top_srcdir/tests/python
export HALAY_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE=1
# What a test's ranks compute with apart from halay is little: one thread each.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset HALAY_RANK HALAY_SIZE

skip() {
    echo "skipped: $*"
    exit 77
}

need() {
    # One that comes first in PATH may lack what the distribution's has. Nothing is imported: that takes seconds.
    for python in python3 /usr/bin/python3; do
        ! "$python" -c 'import importlib.util, sys
sys.exit(None in map(importlib.util.find_spec, sys.argv[1:]))' "$@" 2>/dev/null || return 0
    done
    skip "no python3 has $(echo "$*" | tr ' ' ',')"
}

job() {
    ranks=$1 script=$2
    shift 2
    "$top_builddir/launcher/halayrun" -np "$ranks" "$python" "$top_srcdir/tests/python/$script" "$@"
}
[ -f "$HALAY_LIBRARY" ] || skip "no shared library was built"
! ldd "$HALAY_LIBRARY" | grep -q -e libasan -e libtsan || skip "an interpreter cannot load a sanitizer's library"
