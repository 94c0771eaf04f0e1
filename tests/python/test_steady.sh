#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Steps that repeat, with others among them, with replay and without: the NumPy level, DistributedOptimizer,
# torch.distributed and DDP compute the same.
. "$top_srcdir/tests/python/lib.sh"
need numpy torch
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
seed=${TEST_RANDOM-$$}
for replay in 1 0; do
    export HALAY_REPLAY=$replay
    for size in $([ -n "${TEST_SEEDS-}" ] && echo 3 || echo 1 2 3); do
        job "$size" steady.py "$seed" &&
            job "$size" steady_torch.py "$seed" "$store/$replay.$size" || {
            echo "$size ranks, seed $seed, HALAY_REPLAY=$replay"
            exit 1
        }
    done
done
