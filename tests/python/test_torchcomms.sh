#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The backend of torchcomms; with a stand-in where there is none.
. "$top_srcdir/tests/python/lib.sh"
need torch
"$python" -c 'import torchcomms' 2>/dev/null || export PYTHONPATH="$PYTHONPATH:$top_srcdir/tests/python/stand_ins"
for size in 1 3; do
    job $size torchcomms_backend.py
done
