#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The ucx module of a package takes the system's UCX, or without that the one of pip's package beside it; without either
# the error has what to install. Here the module is a copy that wants UCX by a name which no system has.
. "$top_srcdir/tests/python/lib.sh"
need halay
module=$top_builddir/.libs/libhalay-ucx.so
[ -f "$module" ] || skip "no UCX was found to build with"
ucx=$(ldd "$module" | sed -n 's/.*libucp\.so\.0 => \([^ ]*\).*/\1/p')
[ -n "$ucx" ] || skip "the module was linked with another libucp than libucp.so.0"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r "$top_srcdir/python" "$scratch/site"
mkdir -p "$scratch/site/halay/lib"
cp "$HALAY_LIBRARY" "$scratch/site/halay/lib/"
unset HALAY_LIBRARY HALAY_MODULE_PATH
PYTHONPATH=$scratch/site
LC_ALL=C sed 's/libucp\.so\.0/libnop.so.0/g' "$module" >"$scratch/site/halay/lib/libhalay-ucx.so"

ucx_job() {
    "$top_builddir/launcher/halayrun" -np 2 -x HALAY_TRANSPORT=ucx "$python" -c '
import halay
with halay.Context():
    print([line.split()[-1] for line in open("/proc/self/maps") if "libucp" in line][0])
' >"$scratch/out" 2>"$scratch/err"
}
check() {
    text=$1
    shift
    "$@" || { echo "$text"; cat "$scratch/out" "$scratch/err"; exit 1; }
}
fails() { ! "$@"; }

check "a job over UCX runs without UCX" fails ucx_job
check "the error does not name the library" grep -q 'libnop.so.0: cannot open' "$scratch/err"
check "the error has nothing to install" grep -q 'it needs UCX (Debian: libucx0, .* pip: libucx-cu12)' "$scratch/err"

mkdir -p "$scratch/site/libucx/lib"
LC_ALL=C sed 's/libucp\.so\.0/libnop.so.0/g' "$ucx" >"$scratch/site/libucx/lib/libucp.so.0"
check "a job over pip's UCX fails" ucx_job
check "pip's UCX was not taken" [ "$(grep -c "$scratch/site/libucx/lib/libucp.so.0" "$scratch/out")" = 2 ]

cp "$module" "$scratch/site/halay/lib/libhalay-ucx.so"
check "a job over the system's UCX fails" ucx_job
check "pip's UCX was taken before the system's" fails grep -q "$scratch/site" "$scratch/out"
echo "the package takes the system's UCX, or pip's"
