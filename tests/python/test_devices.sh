#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Arrays on a CUDA device, emulated, with __cuda_array_interface__ and with DLPack.
. "$top_srcdir/tests/python/lib.sh"
need numpy
emulation=$top_builddir/tests/cuda/.libs/libemu.so
[ -f "$emulation" ] || skip "CUDA is not emulated here"
HALAY_MODULE_PATH=$top_builddir/tests/cuda/module/.libs
export HALAY_MODULE_PATH
for EMU_ORDER in 0 1 2; do
    export EMU_ORDER
    for size in 1 3; do
        EMU_DEVICES=1 job $size devices.py "$emulation"
    done
done
echo "devices: as NumPy has it"
