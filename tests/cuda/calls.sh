#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What calls of CUDA and cuBLASLt answer (test_calls.c), in each order.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
"$top_srcdir/tests/cuda/orders" 5 "$top_builddir/tests/cuda/test_calls"
