#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Horovod's PyTorch API in an elastic job: a rank is killed, another takes its place, and the training ends with the
# weights of an undisturbed one.
. "$top_srcdir/tests/python/lib.sh"
need torch
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$top_builddir/launcher/halayrun" -np 2 --min-np 1 --max-np 2 "$python" "$top_srcdir/tests/python/horovod_elastic.py" \
    "$scratch/killed" > "$scratch/said" 2>&1 || { cat "$scratch/said"; exit 1; }
[ -f "$scratch/killed" ] && grep -q "undisturbed run after" "$scratch/said" || { cat "$scratch/said"; exit 1; }
echo "a killed rank is replaced, and the weights are right"
