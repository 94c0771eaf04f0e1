/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot all-reduce over shared memory: one exchange and no barrier.
 *
 *     slot of A   | 7 | a a a a a a a |  a a a ...          7: the number of this exchange, stored last; in front of it and
 *     slot of B   | 7 | b b b b b b b |  b b b ...          in the same cache line as the first data, so that 56 bytes
 *     slot of C   | 6 | not there yet                       travel with it
 *
 *     every rank: write own data and number; for each other rank wait for its number; add a, b, c along the tree
 *
 * Slots alternate: exchange k uses slot k mod 2. A rank writes exchange k + 2 after it has seen everybody's k + 1, and who
 * has written k + 1 had read all of k: nobody is overtaken, without a barrier. By the same token the slot of exchange k + 1
 * is nobody's any more when k is over, and its lines are fetched back then, so that the next write finds them here.
 *
 * Cost: one exchange of N lines and more; each rank reads N S bytes. Any number of ranks, any count (more than a slot
 * holds goes in turns), in and out of place, lists of pieces. Everybody adds the same along the same tree: the same bits
 * on all ranks; f16 and bf16 are rounded once.
 */
#include "base/memory.h"
#include "base/prefetch.h"
#include "collectives/shared.h"

/* Of the next slot: as much as is fetched without holding up the return. */
enum { FETCHED_MOST = 1024 };

struct state {
    size_t at;       /* elements done */
    size_t count;    /* elements of this exchange */
    uint64_t number; /* of this exchange */
    int rank;        /* all below have written */
    struct halay_cursor in, out;
    const void *src[]; /* c->t->size of them */
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * sizeof(void *);
}

static struct halay_oneshot_slot *slot_of(const struct halay_coll *c, int rank)
{
    const struct state *s = c->state;

    return &shared_area(c, rank)->oneshot[s->number & 1];
}

static void write_slot(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t most = HALAY_ONESHOT_BYTES / c->element, left = c->out.count - s->at;

    s->count = left < most ? left : most;
    s->number = ++c->channel->numbers.oneshots;
    s->rank = 0;
    struct halay_oneshot_slot *slot = slot_of(c, c->t->rank);
    halay_vector_pack(&c->in, &s->in, s->at, s->count, slot->data);
    shared_publish(c, &slot->number, s->number);
}

static void add_all(struct halay_coll *c)
{
    struct state *s = c->state;
    _Alignas(HALAY_CACHE_LINE) unsigned char block[HALAY_BLOCK_BYTES];
    int n = c->t->size;

    for (size_t done = 0, run; done < s->count; done += run) {
        size_t most = s->count - done;
        void *dst = block;
        if (!c->out.is_converted)
            dst = halay_vector_run(&c->out, &s->out, s->at + done, most, &run);
        else
            run = most < sizeof block / c->element ? most : sizeof block / c->element;
        for (int r = 0; r < n; r++)
            s->src[r] = slot_of(c, r)->data + done * c->element;
        c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, n, run, c->divisor);
        if (c->out.is_converted)
            halay_vector_unpack(&c->out, &s->out, s->at + done, run, block);
    }
    s->at += s->count;
}

/* The peers have read the other slot: they have written this exchange. */
static void fetch_next_slot(const struct halay_coll *c)
{
    const struct state *s = c->state;
    const unsigned char *slot = (const unsigned char *)&shared_mine(c)->oneshot[(s->number + 1) & 1];
    size_t bytes = sizeof s->number + s->count * c->element;

    for (size_t at = 0; at < bytes && at < FETCHED_MOST; at += HALAY_CACHE_LINE)
        halay_prefetch_write(slot + at);
}

static void start(struct halay_coll *c)
{
    write_slot(c);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->rank < c->t->size; s->rank++)
        if (!shared_has_reached(&slot_of(c, s->rank)->number, s->number))
            return HALAY_IN_PROGRESS;
    add_all(c);
    coll_advanced(c);
    if (s->at == c->out.count) {
        fetch_next_slot(c);
        return HALAY_OK;
    }
    write_slot(c);
    return HALAY_IN_PROGRESS;
}

const struct halay_algorithm_ops halay_allreduce_oneshot = {
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
};
