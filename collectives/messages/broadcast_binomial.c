/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial broadcast: those who have the data send them on at distance 1/2, 1/4, ... of the ranks.
 *
 *     five ranks, root A (ranks count from the root)
 *
 *     A ----------> E          A's children: E B C in order of the size of what hangs below them: C (with D), B, E
 *     A ----> C                the child of r at bit k is r + 2^k, for all k below r's lowest one bit
 *     A -> B   C -> D
 *
 * Large data go in chunks: relay.c.
 *
 * Cost: ceil(log2 N) steps for one chunk; the root sends at most log2(N) S bytes. No memory. Any number of ranks, any
 * count.
 */
#include "collectives/messages/relay.h"

/* Largest subtree first. */
static void start(struct halay_coll *c)
{
    struct relay *s = c->state;
    int n = c->t->size, me = (c->t->rank - c->root + n) % n, low = me ? me & -me : 1;

    while (!me && low < n)
        low *= 2;
    s->parent = me ? (me - low + c->root) % n : -1;
    for (int distance = low >> 1; distance; distance >>= 1)
        if (me + distance < n)
            s->child[s->children++] = (me + distance + c->root) % n;
    relay_start(c);
}

const struct halay_algorithm_ops halay_broadcast_binomial = {
    .tags = RELAY_WINDOW,
    .state_bytes = relay_state_bytes,
    .start = start,
    .progress = relay_progress,
    .cancel = relay_cancel,
};
