/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing through shared memory. Numbers and slots are those of shared.h; the protocol is that of the two-shot
 * (allreduce_twoshot.c), with one destination instead of all ranks' buffers.
 *
 *     slice     reduce-scatter: this rank's part. reduce: an N-th of the elements, cut at cache lines
 *     goes to   reduce-scatter: this rank's out.  reduce: the root's out
 *
 *   arrive  where this rank's in lies (and the root's out), then its number
 *   reduce  when all have arrived: own slice, in chunks, along the tree over ranks; f16 and bf16 rounded once
 *   done    the collective is over when everybody has done all chunks: nobody reads or writes here any more
 *
 * A rank whose buffer is private takes part through its slots, chunk by chunk and pipelined:
 *
 *     fill    its part of everybody else's slice into its slot, one place an owner; number filled
 *     reduce  the owner reads it there; what goes to a root's private out it writes back to the root's slot
 *     drain   when all owners have done the chunk: the slot may be filled again; the root copies the sums out of it first
 *
 * Its own slice a rank takes from and, if it is for itself, puts into its own buffers directly.
 */
#include "collectives/shared_reduce.h"
#include "base/memory.h"

enum { SLOTS = 4, CHUNK_BYTES = 1 << 18 };

size_t shared_reduce_state_bytes(int size)
{
    return sizeof(struct shared_reduce) + (size_t)size * (sizeof(struct shared_reduce_peer) + sizeof(void *));
}

static struct halay_span slice_of(const struct halay_coll *c, int owner)
{
    if (c->operation == HALAY_REDUCE_SCATTER)
        return (struct halay_span){ .start = c->starts[owner], .length = c->starts[owner + 1] - c->starts[owner] };
    return halay_aligned_span(c->in.count, c->t->size, owner, HALAY_CACHE_LINE / c->element);
}

static struct halay_span slice_chunk(const struct halay_coll *c, int owner, size_t k)
{
    const struct shared_reduce *s = c->state;

    return halay_segment_span(slice_of(c, owner), s->chunk, k);
}

/* Where in a private rank's slots chunk k of the owner's slice lies. */
static unsigned char *slot_place(const struct halay_coll *c, int rank, int owner, size_t k)
{
    const struct shared_reduce *s = c->state;
    size_t index = (size_t)(owner < rank ? owner : owner - 1);

    return shared_slots(c, rank) + (k % SLOTS * (size_t)(c->t->size - 1) + index) * s->place;
}

/* Others write into this rank's out. */
static int is_sink(const struct halay_coll *c, int rank)
{
    return c->operation == HALAY_REDUCE && rank == c->root;
}

/* ---- arrive ---- */

static int is_slotted(const struct shared_reduce_peer *p)
{
    return p->in_private || p->out_private;
}

static void arrive(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;
    struct halay_area *area = shared_mine(c);
    struct shared_reduce_peer *me = &s->peer[c->t->rank];
    size_t bytes = c->in.count * c->element;

    area->in_table = 0;
    area->in_offset = c->t->ops->locate(c->t, coll_in(c), bytes);
    area->out_offset = HALAY_PRIVATE;
    if (is_sink(c, c->t->rank))
        area->out_offset = coll_out(c) == coll_in(c) ? area->in_offset : c->t->ops->locate(c->t, coll_out(c), bytes);
    me->in_private = area->in_offset == HALAY_PRIVATE;
    me->out_private = is_sink(c, c->t->rank) && area->out_offset == HALAY_PRIVATE;
    s->slotted = is_slotted(me);
    shared_publish(c, &area->arrived, s->base + 1);
}

void shared_reduce_start(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;
    size_t n = (size_t)c->t->size, most = HALAY_SLOTS_BYTES / (SLOTS * (n - 1)) / HALAY_CACHE_LINE * HALAY_CACHE_LINE;

    s->place = most < CHUNK_BYTES ? most : CHUNK_BYTES;
    s->chunk = s->place / c->element;
    for (int r = 0; r < c->t->size; r++) {
        size_t chunks = halay_segment_count(slice_of(c, r).length, s->chunk);
        s->chunks = chunks > s->chunks ? chunks : s->chunks;
    }
    s->base = c->channel->numbers.chunks;
    c->channel->numbers.chunks += s->chunks;
    s->src = (const void **)(void *)&s->peer[n];
    arrive(c);
}

static enum halay_status meet(struct halay_coll *c, int rank)
{
    struct shared_reduce *s = c->state;
    const struct halay_area *area = shared_area(c, rank);
    struct shared_reduce_peer *p = &s->peer[rank];
    size_t bytes = c->in.count * c->element;

    p->in_private = area->in_offset == HALAY_PRIVATE;
    p->out_private = is_sink(c, rank) && area->out_offset == HALAY_PRIVATE;
    s->slotted |= is_slotted(p);
    if (!p->in_private) {
        p->in = c->t->ops->reach(c->t, rank, area->in_offset, bytes);
        if (!p->in)
            return shared_reach_failed(c, rank);
    }
    if (is_sink(c, rank) && !p->out_private) {
        p->out = c->t->ops->reach(c->t, rank, area->out_offset, bytes);
        if (!p->out)
            return shared_reach_failed(c, rank);
    }
    return HALAY_OK;
}

static enum halay_status meet_all(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;

    for (; s->arrived < c->t->size; s->arrived++) {
        if (s->arrived == c->t->rank)
            continue;
        if (!shared_has_reached(&shared_area(c, s->arrived)->arrived, s->base + 1))
            return HALAY_IN_PROGRESS;
        enum halay_status status = meet(c, s->arrived);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* ---- a rank with private buffers: fill and drain ---- */

static void fill(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;

    for (int owner = 0; owner < c->t->size && s->peer[c->t->rank].in_private; owner++) {
        struct halay_span span = slice_chunk(c, owner, s->filled);
        if (owner != c->t->rank && span.length)
            halay_vector_pack(&c->in, &s->filling, span.start, span.length,
                              slot_place(c, c->t->rank, owner, s->filled));
    }
    s->filled++;
    shared_publish(c, &shared_mine(c)->filled, s->base + s->filled);
    coll_advanced(c);
}

static void drain(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;

    for (int owner = 0; owner < c->t->size && s->peer[c->t->rank].out_private; owner++) {
        struct halay_span span = slice_chunk(c, owner, s->drained);
        if (owner != c->t->rank && span.length)
            halay_vector_unpack(&c->out, &s->draining, span.start, span.length,
                                slot_place(c, c->t->rank, owner, s->drained));
    }
    s->drained++;
    coll_advanced(c);
}

/* ---- reduce ---- */

static int all_have_filled(const struct halay_coll *c)
{
    const struct shared_reduce *s = c->state;

    for (int r = 0; r < c->t->size && s->slotted; r++)
        if (r != c->t->rank && is_slotted(&s->peer[r]) &&
            !shared_has_reached(&shared_area(c, r)->filled, s->base + s->reduced + 1))
            return 0;
    return 1;
}

/* Where the sum of this rank's slice from element `start` on goes. */
static unsigned char *destination(const struct halay_coll *c, size_t start)
{
    const struct shared_reduce *s = c->state;

    if (c->operation == HALAY_REDUCE_SCATTER)
        return coll_out(c) + (start - c->starts[c->t->rank]) * c->element;
    if (c->root == c->t->rank)
        return coll_out(c) + start * c->element;
    if (s->peer[c->root].out_private)
        return slot_place(c, c->root, c->t->rank, s->reduced);
    return s->peer[c->root].out + start * c->element;
}

static void reduce_span(struct halay_coll *c, struct halay_span span)
{
    struct shared_reduce *s = c->state;
    void *dst = destination(c, span.start);

    for (int r = 0; r < c->t->size; r++) {
        if (r == c->t->rank)
            s->src[r] = coll_in(c) + span.start * c->element;
        else if (s->peer[r].in_private)
            s->src[r] = slot_place(c, r, c->t->rank, s->reduced);
        else
            s->src[r] = s->peer[r].in + span.start * c->element;
    }
    c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, c->t->size, span.length, c->divisor);
}

static void reduce_chunk(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;
    struct halay_span span = slice_chunk(c, c->t->rank, s->reduced);

    if (!shared_enter(c)) /* who has given up waits for those who read its memory, as for those who write there */
        return;
    if (span.length)
        reduce_span(c, span);
    shared_leave(c);
    s->reduced++;
    if (s->slotted || s->reduced == s->chunks) /* nobody waits for the others */
        shared_publish(c, &shared_mine(c)->done, s->base + s->reduced);
    coll_advanced(c);
}

enum halay_status shared_reduce_progress(struct halay_coll *c)
{
    struct shared_reduce *s = c->state;
    int mine = is_slotted(&s->peer[c->t->rank]);

    if (mine && s->filled < s->chunks && s->filled < s->drained + SLOTS)
        fill(c);
    if (s->arrived < c->t->size) {
        enum halay_status status = meet_all(c);
        if (status != HALAY_OK)
            return status;
    }
    if (s->reduced < s->chunks && all_have_filled(c))
        reduce_chunk(c);
    if (mine && s->drained < s->chunks && shared_all_have_done(c, s->base + s->drained + 1))
        drain(c);
    return s->reduced == s->chunks && (!mine || s->drained == s->chunks) && shared_all_have_done(c, s->base + s->chunks)
               ? HALAY_OK
               : HALAY_IN_PROGRESS;
}
