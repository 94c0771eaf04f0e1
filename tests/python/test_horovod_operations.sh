#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Horovod's PyTorch API: every operation at once, in the background, in place and grouped, with its gradient, against
# plain PyTorch; process sets, objects, and the texts for misuse.
. "$top_srcdir/tests/python/lib.sh"
need torch
for size in $([ -n "${TEST_SEEDS-}" ] && echo 1 3 || echo 1 2 3); do
    job "$size" horovod_operations.py
    echo "$size ranks: as PyTorch has it"
done
