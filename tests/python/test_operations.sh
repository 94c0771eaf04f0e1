#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every operation with every type and reduction from Python, compared with NumPy, on odd numbers of ranks.
. "$top_srcdir/tests/python/lib.sh"
need numpy
for size in 1 2 3 5; do
    job "$size" operations.py
    echo "$size ranks: as NumPy has it"
done
