#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Horovod's PyTorch API: the distributed optimizer trains as one process does on the joint batch. And the example.
. "$top_srcdir/tests/python/lib.sh"
need torch
if grep -rnE --include='*.py' '^ *assert ' "$top_srcdir/python/halay"; then
    echo "these errors vanish under python -O"
    exit 1
fi
for size in $([ -n "${TEST_SEEDS-}" ] && echo 1 3 || echo 1 2 3); do
    job "$size" horovod_optimizer.py
    echo "$size ranks: the weights of one process"
done
"$top_builddir/launcher/halayrun" -np 2 "$python" "$top_srcdir/examples/python/torch_training.py"
