#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ranks that are Ray's actors; with a stand-in where there is no Ray.
. "$top_srcdir/tests/python/lib.sh"
need halay
"$python" -c 'import ray' 2>/dev/null || export PYTHONPATH="$PYTHONPATH:$top_srcdir/tests/python/stand_ins"
"$python" "$top_srcdir/tests/python/ray_executor.py"
