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

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct halay_relay);
}

static void start(struct halay_coll *c)
{
    struct halay_relay *s = c->state;
    int n = c->t->size, next = (c->t->rank + 1) % n;

    s->parent = c->t->rank == c->root ? -1 : (c->t->rank + n - 1) % n;
    if (next != c->root)
        s->child[s->children++] = next;
    halay_relay_start(c, s);
}

static enum halay_status progress(struct halay_coll *c)
{
    return halay_relay_progress(c, c->state);
}

static void cancel(struct halay_coll *c)
{
    halay_relay_cancel(c, c->state);
}

const struct halay_algorithm_ops halay_broadcast_chain = {
    .tags = HALAY_RELAY_WINDOW,
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
