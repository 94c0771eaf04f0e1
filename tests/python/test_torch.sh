#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# torch.distributed over halay: every collective, works and futures, errors, and a training by DDP beside gloo's.
. "$top_srcdir/tests/python/lib.sh"
need torch
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
for size in 1 2 3; do
    job "$size" torch_backend.py "$store/$size"
    echo "$size ranks: as torch has it"
done
