/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot reduction over shared memory: all but the root write their data, the root adds all along the tree
 * (oneshot.h).
 *
 *     A (root)   waits for b and c, adds a b c
 *     B          writes b, returns
 *     C          writes c, returns
 *
 * Cost: one exchange; the root reads N S bytes. Any number of ranks, any count, in and out of place; f16 and bf16 are
 * rounded once.
 */
#include "collectives/shared/oneshot.h"

static const struct oneshot_operation operation = {
    .gives = oneshot_not_root, .takes = oneshot_root, .put = oneshot_put_array, .take = oneshot_reduce_arrays
};

ONESHOT_ALGORITHM(halay_reduce_oneshot, c->in.count, 1);
