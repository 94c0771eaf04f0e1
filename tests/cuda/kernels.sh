#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The trainer's CUDA kernels on the processor, in each order: every kernel beside its twin, then whole training steps.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
"$top_srcdir/tests/cuda/orders" "${TEST_SEEDS:-20}" "$top_builddir/tests/cuda/test_kernels"
"$top_srcdir/tests/cuda/orders" 1 "$top_builddir/tests/cuda/test_model"
