#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The trainer's CUDA kernels on the processor, in each order: every kernel beside its twin, then whole training steps.
# Where there is much to do no thread does much of it. The gate, which limits seeds, takes one, and runs the steps in
# one order: as late as may be. A GPU need not round a product's f32 factors where it may: bf16 and tf32 pass without
# that, too.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
seeds=${TEST_SEEDS:+1}
"$top_srcdir/tests/cuda/orders" "${seeds:-20}" "$top_builddir/tests/cuda/test_kernels"
EMU_ORDER=0 "$top_builddir/tests/cuda/test_kernels" wide
EMU_ALIGNMENT=16 EMU_ORDER=0 "$top_builddir/tests/cuda/test_model" aligned
EMU_ROUNDS=0 EMU_ORDER=0 "$top_builddir/tests/cuda/test_model" products
if [ -n "${TEST_SEEDS-}" ]; then
    EMU_ORDER=2 "$top_builddir/tests/cuda/test_model"
else
    "$top_srcdir/tests/cuda/orders" 1 "$top_builddir/tests/cuda/test_model"
fi
