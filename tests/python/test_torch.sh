#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed over halay: every collective, in groups too, works and futures, errors, a training by DDP beside
# gloo's; and without halayrun a rank that dies and one that gives up.
. "$top_srcdir/tests/python/lib.sh"
need torch
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
for size in 1 2 3; do
    job "$size" torch_backend.py "$store/$size"
    echo "$size ranks: as torch has it"
done
"$python" "$top_srcdir/tests/python/torch_death.py"
