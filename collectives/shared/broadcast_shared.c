/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcast over shared memory: everybody copies from the root's memory.
 *
 *     A (root)   publishes where its data lie           waits until B, C are done
 *     B                    copies                       done
 *     C                    copies                       done
 *
 * Two ranks share the work: B copies one half, A writes the other half into B's memory, where that is shared.
 *
 * If the root's data are private, it copies them into slots of the shared area, in chunks, and everybody copies from
 * there.
 *
 * Cost: 2 exchanges; S bytes read and written by each rank (private: the root once more). Any number of ranks, any
 * count, lists of pieces. shared_copy.c does the work.
 */
#include "collectives/shared/shared_copy.h"

enum { PUSH_BYTES = 16384 }; /* below, waiting for the other's arrival costs more than half of the copy */

static void start(struct halay_coll *c)
{
    struct shared_copy *s = c->state;

    s->giver[c->root].length = c->out.count;
    s->pushes = c->t->size == 2 && !c->is_list && c->out.count * c->element >= PUSH_BYTES;
    shared_copy_start(c);
}

const struct halay_algorithm_ops halay_broadcast_shared = {
    .state_bytes = shared_copy_state_bytes,
    .start = start,
    .progress = shared_copy_progress,
};
