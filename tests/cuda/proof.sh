#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The programs of test_proof.c, in each order: on devices of one process, and in three processes.
set -eu
: "${top_srcdir:?}" "${top_builddir:?}"
EMU_DEVICES=2 "$top_srcdir/tests/cuda/orders" "${TEST_SEEDS:-20}" "$top_builddir/tests/cuda/test_proof"
EMU_DEVICES=2 EMU_QUEUES=1 "$top_srcdir/tests/cuda/orders" 3 "$top_builddir/tests/cuda/test_proof"
"$top_srcdir/tests/cuda/orders" 10 "$top_builddir/tests/cuda/test_proof" processes
