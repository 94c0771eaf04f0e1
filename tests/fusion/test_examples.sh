#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples, alone and in a job; and the library loaded at run time from Python, where that is.
set -e
hello=$top_builddir/examples/hello linear=$top_builddir/examples/linear run=$top_builddir/launcher/halayrun
"$hello" | grep -q 'hello from rank 0 of 1: the numbers of all ranks add up to 0'
"$linear" >/dev/null
folder=$(mktemp -d)
for rank in 0 1 2; do
    "$top_builddir/examples/own_start" $rank 3 "$folder" >"$folder/out.$rank" &
done
wait
out=$(cat "$folder"/out.*)
rm -rf "$folder"
[ "$(echo "$out" | grep -c 'of 3: the numbers of all ranks add up to 3')" = 3 ] || { echo "$out"; exit 1; }
[ -x "$run" ] || { echo "skipped: no halayrun"; exit 77; }
out=$("$run" -np 3 "$hello")
[ "$(echo "$out" | grep -c 'of 3: the numbers of all ranks add up to 3')" = 3 ] || { echo "$out"; exit 1; }
"$run" -np 2 "$linear"
# The guide shows the example as it is.
awk '/^```/ { if (on) exit; inside = 0 } inside && /SPDX/ { on = 1 } on { print } /^```c$/ { inside = 1 }' \
    "$top_srcdir/docs/guides/library.md" |
    cmp - "$top_srcdir/examples/linear.c" || { echo "docs/guides/library.md shows another linear.c"; exit 1; }
command -v python3 >/dev/null 2>&1 || { echo "skipped: no python3 that loads the library"; exit 0; }
ldd "$top_builddir/.libs/libhalay.so" | grep -q -e libasan -e libtsan && exit 0 # must be loaded first
cat >loaded.$$.py <<'END'
import ctypes, sys
halay = ctypes.CDLL(sys.argv[1])
class Info(ctypes.Structure):  # struct halay_tensor_info as it was first: the functions with plain arguments fill it in
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("collective", ctypes.c_int),
                ("dtype", ctypes.c_int), ("dimensions", ctypes.c_int), ("shape", ctypes.c_size_t * 8),
                ("in_", ctypes.c_void_p), ("out", ctypes.c_void_p), ("reduction", ctypes.c_int), ("root", ctypes.c_int)]
ctx = ctypes.c_void_p()
assert halay.halay_init(None, ctypes.byref(ctx)) == 0
halay.halay_fini.argtypes = [ctypes.c_void_p]
data = (ctypes.c_float * 3)(1, 2, 3)
info = Info(ctypes.sizeof(Info), b"x", dimensions=1, shape=(3,), out=ctypes.addressof(data))
assert halay.halay_run(ctx, ctypes.byref(info), None, None) == 0
assert list(data) == [2, 4, 6], list(data)
halay.halay_fini(ctx)
END
status=0
"$run" -np 2 python3 loaded.$$.py "$top_builddir/.libs/libhalay.so" || status=$?
rm -f loaded.$$.py
exit $status
