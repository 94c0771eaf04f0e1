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
 * Large data go in chunks: a rank sends a chunk on as soon as it has it, so that the levels of the tree overlap.
 *
 * Cost: ceil(log2 N) steps for one chunk; the root sends at most log2(N) S bytes. No memory. Any number of ranks, any count.
 */
#include "collectives/channel.h"

enum { CHILDREN_MAX = 31, WINDOW = 4 };

struct state {
    int parent; /* rank; -1: the root */
    int child[CHILDREN_MAX];
    int children;
    size_t bytes, chunk, chunks;
    size_t received; /* chunks that are here */
    size_t sent;     /* chunks that all children were given and have taken */
    size_t posted;   /* receives posted */
    size_t giving;   /* sends posted */
    struct halay_transfer recv[WINDOW];               /* by chunk modulo WINDOW */
    struct halay_transfer send[WINDOW][CHILDREN_MAX];
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

/* Largest subtree first. */
static void find_family(struct halay_coll *c)
{
    struct state *s = c->state;
    int n = c->t->size, me = (c->t->rank - c->root + n) % n, low = me ? me & -me : 1;

    while (!me && low < n)
        low *= 2;
    s->parent = me ? (me - low + c->root) % n : -1;
    for (int distance = low >> 1; distance; distance >>= 1)
        if (me + distance < n)
            s->child[s->children++] = (me + distance + c->root) % n;
}

static size_t chunk_bytes(const struct state *s, size_t k)
{
    size_t left = s->bytes - k * s->chunk;

    return left < s->chunk ? left : s->chunk;
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    find_family(c);
    s->bytes = c->out.count * c->element;
    s->chunk = c->group->world->config.ring_segment_bytes;
    s->chunk = s->chunk ? s->chunk : s->bytes;
    s->chunks = halay_segment_count(s->bytes, s->chunk);
    if (s->parent < 0)
        s->received = s->posted = s->chunks;
}

static void receive(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->posted < s->chunks && s->posted < s->received + WINDOW; s->posted++)
        coll_recv(c, s->parent, 0, coll_out(c) + s->posted * s->chunk, chunk_bytes(s, s->posted),
                  &s->recv[s->posted % WINDOW]);
    for (; s->received < s->posted && coll_is_settled(&s->recv[s->received % WINDOW]); s->received++)
        coll_advanced(c);
}

static int is_taken(struct state *s, size_t k)
{
    for (int i = 0; i < s->children; i++)
        if (!coll_is_settled(&s->send[k % WINDOW][i]))
            return 0;
    return 1;
}

static void give(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->sent < s->giving && is_taken(s, s->sent); s->sent++)
        coll_advanced(c);
    for (; s->giving < s->received && s->giving < s->sent + WINDOW; s->giving++) {
        for (int i = 0; i < s->children; i++)
            coll_send(c, s->child[i], 0, coll_out(c) + s->giving * s->chunk, chunk_bytes(s, s->giving),
                      &s->send[s->giving % WINDOW][i]);
        coll_advanced(c);
    }
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->parent >= 0)
        receive(c);
    give(c);
    return s->sent == s->chunks ? HALAY_OK : HALAY_IN_PROGRESS;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int k = 0; k < WINDOW; k++) {
        coll_take_back(c, &s->recv[k]);
        for (int i = 0; i < s->children; i++)
            coll_take_back(c, &s->send[k][i]);
    }
}

const struct halay_algorithm_ops halay_broadcast_binomial = {
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
