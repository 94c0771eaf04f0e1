/* SPDX-License-Identifier: Apache-2.0
 *
 * Chain broadcast: from the root to the next rank, from there to the next, and so on; in chunks that follow each other.
 *
 *     four ranks, root B, chunks 1 2 3
 *
 *     time      0    1    2    3    4
 *     B -> C    1    2    3
 *     C -> D         1    2    3
 *     D -> A              1    2    3
 *
 * A rank sends a chunk on while it receives the next one (relay.c), so that all links are busy at once.
 *
 * Cost: N - 2 + K steps for K chunks; each rank sends and receives S bytes once, whatever N: the least for large data.
 * No memory. Any number of ranks, any count.
 *
 * Source: van de Geijn and Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997, section on
 * pipelined broadcast around a ring.
 */
#include "collectives/messages/relay.h"

static void start(struct halay_coll *c)
{
    struct relay *s = c->state;
    int n = c->t->size, next = (c->t->rank + 1) % n;

    s->parent = c->t->rank == c->root ? -1 : (c->t->rank + n - 1) % n;
    if (next != c->root)
        s->child[s->children++] = next;
    relay_start(c);
}

const struct halay_algorithm_ops halay_broadcast_chain = {
    .tags = RELAY_WINDOW,
    .state_bytes = relay_state_bytes,
    .start = start,
    .progress = relay_progress,
    .cancel = relay_cancel,
};
