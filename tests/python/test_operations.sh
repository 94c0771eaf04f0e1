#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every operation with every type and reduction from Python, compared with NumPy, on odd numbers of ranks.
. "$top_srcdir/tests/python/lib.sh"
need numpy

# The guide's first program, in a folder of its own: Python imports what lies beside a program.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
program=$scratch/program.py
awk '/^```/ { inside = 0 } inside { print } /^```python$/ && !n++ { inside = 1 }' "$top_srcdir/docs/guides/python.md" \
    >"$program"
"$top_builddir/launcher/halayrun" -np 2 "$python" "$program" | grep -q 'rank 1 of 2: \[1. 1. 1. 1.\]'
for size in 1 2 3 5; do
    job "$size" operations.py
    echo "$size ranks: as NumPy has it"
done
