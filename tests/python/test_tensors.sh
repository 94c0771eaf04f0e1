#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The operations on PyTorch tensors.
. "$top_srcdir/tests/python/lib.sh"
need torch numpy
job 2 tensors.py
echo "tensors: as PyTorch has it"
