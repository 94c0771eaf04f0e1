/* SPDX-License-Identifier: Apache-2.0
 *
 * All-gather over shared memory, even and ragged: everybody copies everybody's part.
 *
 *     A   publishes a      copies   b c        done; waits until B and C are
 *     B   publishes b      copies a   c        done
 *     C   publishes c      copies a b          done
 *
 * A part in private memory goes through slots of its owner's area, in chunks. Shared and private parts mix.
 *
 * Cost: 2 exchanges; S bytes read and written by each rank (its own part only out of place; private: it once more). Any
 * number of ranks, any counts, zero included; in and out of place. shared_copy.c does the work.
 */
#include "collectives/shared/shared_copy.h"

static void start(struct halay_coll *c)
{
    struct shared_copy *s = c->state;

    for (int r = 0; r < c->t->size; r++) {
        s->giver[r].start = c->starts[r];
        s->giver[r].length = c->starts[r + 1] - c->starts[r];
    }
    shared_copy_start(c);
}

const struct halay_algorithm_ops halay_allgather_shared = {
    .state_bytes = shared_copy_state_bytes,
    .start = start,
    .progress = shared_copy_progress,
};
