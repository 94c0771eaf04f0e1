/* SPDX-License-Identifier: Apache-2.0
 *
 * Two-shot all-reduce over shared memory: each rank reduces its slice of all buffers, in place, into all of them.
 *
 *     three ranks, slices 0 1 2
 *
 *             arrive           reduce                                    done
 *     A's     0 1 2            0 = 0A+0B+0C  by A, written               0 1 2
 *     B's     0 1 2            1 = 1A+1B+1C  by B, into all three        0 1 2
 *     C's     0 1 2            2 = 2A+2B+2C  by C                        0 1 2
 *
 *   arrive  where this rank's buffers lie, then its number (shared.h)
 *   reduce  when all have arrived: own slice, in chunks, along the tree over ranks; f16 and bf16 rounded once
 *   done    after each chunk; the collective is over when everybody has done all chunks
 *
 * A rank whose buffer is private takes part through its slots, chunk by chunk and pipelined:
 *
 *     fill    its part of everybody else's slice into its slot, one place an owner; number filled
 *     reduce  the owner reads it there like any other buffer and writes the sum back to it
 *     drain   when all owners have done the chunk: out of the slot into its buffer
 *
 *     chunk      0      1      2      3          SLOTS chunks may be filled and not yet drained
 *     fill       t0     t1     t2     t3
 *     reduce            t1     t2     t3
 *     drain                    t2     t3
 *
 * Its own slice it reduces directly. in and out may differ in this: what is shared is used in place. Ranks with shared and
 * with private buffers mix freely: which is which travels with the arrival.
 *
 * Slices are cut at cache lines. Cost: 2 exchanges; each rank reads and writes S bytes in all (private: 3 S). No memory but
 * the slots. Any number of ranks, any count, in and out of place, lists of pieces (in place).
 */
#include "base/memory.h"
#include "base/prefetch.h"
#include "collectives/shared.h"
#include <string.h>

/* A ring of slots this small stays in the second-level cache beside the data. Without slots there is nothing to keep. */
enum { SLOTS = 4, CHUNK_BYTES = 1 << 16, CHUNKS_AT_ONCE = 4, STEP_BYTES = 2048 };

/* What a rank said when it arrived. */
struct peer {
    const unsigned char *in; /* its buffer here; NULL: private, or a list of pieces */
    unsigned char *out;
    int in_table; /* a list of pieces in shared memory: see the table of its area */
    int in_private, out_private;
};

struct state {
    uint64_t base; /* chunks of this channel before this collective */
    size_t chunks; /* of the longest slice; the same on all ranks */
    size_t chunk;  /* elements */
    size_t place;  /* bytes of one owner's place in a slot */
    int arrived;   /* ranks below have */
    int slotted;   /* some rank uses slots */
    size_t filled, reduced, drained; /* chunks of this rank */
    struct halay_cursor filling, reducing_in, reducing_out, draining;
    const void **src; /* behind the peers: size */
    void **dst;       /* size */
    struct peer peer[];
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * (sizeof(struct peer) + 2 * sizeof(void *));
}

static struct halay_span slice_chunk(const struct halay_coll *c, int owner, size_t k)
{
    const struct state *s = c->state;

    return halay_segment_span(
        halay_aligned_span(c->out.count, c->t->size, owner, HALAY_CACHE_LINE / c->element), s->chunk, k);
}

/* Where in a private rank's slots chunk k of the owner's slice lies. */
static unsigned char *slot_place(const struct halay_coll *c, int rank, int owner, size_t k)
{
    const struct state *s = c->state;
    size_t index = (size_t)(owner < rank ? owner : owner - 1);

    return shared_slots(c, rank) + (k % SLOTS * (size_t)(c->t->size - 1) + index) * s->place;
}

/* ---- arrive ---- */

static int is_slotted(const struct peer *p)
{
    return p->in_private || p->out_private;
}

static void arrive(struct halay_coll *c)
{
    struct state *s = c->state;
    struct halay_area *area = shared_mine(c);
    struct peer *me = &s->peer[c->t->rank];
    size_t bytes = c->out.count * c->element;

    area->in_table = 0;
    area->in_offset = area->out_offset = HALAY_PRIVATE;
    if (c->in.piece_count > 1) {
        area->in_table = (uint32_t)shared_publish_table(c, area);
        me->in_private = me->out_private = !area->in_table;
    } else {
        area->in_offset = c->t->ops->locate(c->t, coll_in(c), bytes);
        area->out_offset = coll_out(c) == coll_in(c) ? area->in_offset : c->t->ops->locate(c->t, coll_out(c), bytes);
        me->in_private = area->in_offset == HALAY_PRIVATE;
        me->out_private = area->out_offset == HALAY_PRIVATE;
    }
    s->slotted = is_slotted(me);
    shared_publish(c, &area->arrived, s->base + 1);
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t n = (size_t)c->t->size, unit = HALAY_CACHE_LINE;
    size_t most = HALAY_SLOTS_BYTES / (SLOTS * (n - 1)) / unit * unit;

    s->place = most < CHUNK_BYTES ? most : CHUNK_BYTES;
    s->chunk = s->place / c->element;
    s->chunks = halay_segment_count(halay_aligned_span(c->out.count, c->t->size, 0, unit / c->element).length, s->chunk);
    s->base = c->channel->numbers.chunks;
    c->channel->numbers.chunks += s->chunks;
    s->src = (const void **)(void *)&s->peer[n];
    s->dst = (void **)(void *)(s->src + n);
    arrive(c);
}

static enum halay_status meet(struct halay_coll *c, int rank)
{
    struct state *s = c->state;
    const struct halay_area *area = shared_area(c, rank);
    struct peer *p = &s->peer[rank];
    size_t bytes = c->out.count * c->element;

    p->in_table = (int)area->in_table;
    if (p->in_table)
        return HALAY_OK;
    p->in_private = area->in_offset == HALAY_PRIVATE;
    p->out_private = area->out_offset == HALAY_PRIVATE;
    p->in = p->in_private ? NULL : c->t->ops->reach(c->t, rank, area->in_offset, bytes);
    p->out = p->out_private ? NULL : c->t->ops->reach(c->t, rank, area->out_offset, bytes);
    s->slotted |= is_slotted(p);
    return (p->in || p->in_private) && (p->out || p->out_private) ? HALAY_OK : shared_reach_failed(c, rank);
}

static enum halay_status meet_all(struct halay_coll *c)
{
    struct state *s = c->state;

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
    struct state *s = c->state;

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

/* The owner wrote the sum, so its lines are in the owner's cache. They are fetched for writing: the next fill of this place
 * then finds them here. */
static void copy_and_keep(unsigned char *to, const unsigned char *from, size_t bytes)
{
    for (size_t at = 0, length; at < bytes; at += length) {
        length = bytes - at < STEP_BYTES ? bytes - at : STEP_BYTES;
        for (size_t line = at ? at + STEP_BYTES : 0; line < bytes && line < at + 2 * STEP_BYTES;
             line += HALAY_CACHE_LINE)
            halay_prefetch_write(from + line);
        memcpy(to + at, from + at, length);
    }
}

static void drain_span(struct halay_coll *c, struct halay_span span, const unsigned char *from)
{
    struct state *s = c->state;

    for (size_t done = 0, length; done < span.length; done += length) {
        void *to = halay_vector_run(&c->out, &s->draining, span.start + done, span.length - done, &length);
        copy_and_keep(to, from + done * c->element, length * c->element);
    }
}

static void drain(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int owner = 0; owner < c->t->size && s->peer[c->t->rank].out_private; owner++) {
        struct halay_span span = slice_chunk(c, owner, s->drained);
        if (owner != c->t->rank)
            drain_span(c, span, slot_place(c, c->t->rank, owner, s->drained));
    }
    s->drained++;
    coll_advanced(c);
}

/* ---- reduce ---- */

static int all_have_filled(const struct halay_coll *c)
{
    const struct state *s = c->state;

    for (int r = 0; r < c->t->size && s->slotted; r++)
        if (r != c->t->rank && is_slotted(&s->peer[r]) &&
            !shared_has_reached(&shared_area(c, r)->filled, s->base + s->reduced + 1))
            return 0;
    return 1;
}

/* Point src and dst at a run of `length` elements from `at` on, which lies `inside` elements into piece number `piece`
 * (one array: piece 0, inside = at), for a rank other than this one. */
static enum halay_status point(struct halay_coll *c, int rank, size_t at, size_t piece, size_t inside, size_t length)
{
    struct state *s = c->state;
    const struct peer *p = &s->peer[rank];
    void **dst = &s->dst[rank < c->t->rank ? rank + 1 : rank];
    unsigned char *slot = NULL;

    if (p->in_table) {
        uint64_t offset = shared_area(c, rank)->table[piece] + inside * c->element;
        s->src[rank] = *dst = c->t->ops->reach(c->t, rank, offset, length * c->element);
        return *dst ? HALAY_OK : shared_reach_failed(c, rank);
    }
    if (is_slotted(p))
        slot = slot_place(c, rank, c->t->rank, s->reduced) +
               (at - slice_chunk(c, c->t->rank, s->reduced).start) * c->element;
    s->src[rank] = p->in_private ? slot : p->in + at * c->element;
    *dst = p->out_private ? slot : p->out + at * c->element;
    return HALAY_OK;
}

static enum halay_status reduce_run(struct halay_coll *c, size_t at, size_t most, size_t *length)
{
    struct state *s = c->state;
    int n = c->t->size, me = c->t->rank;
    size_t in_length;

    s->dst[0] = halay_vector_run(&c->out, &s->reducing_out, at, most, length); /* own first: see reduce.h */
    s->src[me] = halay_vector_run(&c->in, &s->reducing_in, at, *length, &in_length);
    for (int r = 0; r < n; r++) {
        enum halay_status status =
            r == me ? HALAY_OK
                    : point(c, r, at, s->reducing_out.piece, at - s->reducing_out.first, *length);
        if (status != HALAY_OK)
            return status;
    }
    c->reducer->reduce[c->dtype][c->op](s->dst, n, s->src, n, *length, c->divisor);
    return HALAY_OK;
}

static enum halay_status reduce_chunks(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t left = s->chunks - s->reduced, chunks = s->slotted ? 1 : left < CHUNKS_AT_ONCE ? left : CHUNKS_AT_ONCE;
    struct halay_span last = slice_chunk(c, c->t->rank, s->reduced + chunks - 1);
    size_t at = slice_chunk(c, c->t->rank, s->reduced).start, end = last.start + last.length;
    enum halay_status status = HALAY_OK;

    if (!shared_enter(c))
        return HALAY_IN_PROGRESS; /* somebody has given up; the next look at the peers finds out who */
    for (size_t length; at < end && status == HALAY_OK; at += length)
        status = reduce_run(c, at, end - at, &length);
    shared_leave(c);
    if (status != HALAY_OK)
        return status;
    s->reduced += chunks;
    if (s->slotted || s->reduced == s->chunks) /* nobody waits for the others */
        shared_publish(c, &shared_mine(c)->done, s->base + s->reduced);
    coll_advanced(c);
    return HALAY_OK;
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int mine = is_slotted(&s->peer[c->t->rank]);
    enum halay_status status = HALAY_OK;

    if (mine && s->filled < s->chunks && s->filled < s->drained + SLOTS)
        fill(c);
    if (s->arrived < c->t->size)
        status = meet_all(c);
    if (status == HALAY_OK && s->reduced < s->chunks && all_have_filled(c))
        status = reduce_chunks(c);
    if (status != HALAY_OK)
        return status;
    if (mine && s->drained < s->chunks && shared_all_have_done(c, s->base + s->drained + 1))
        drain(c);
    return s->reduced == s->chunks && (!mine || s->drained == s->chunks) && shared_all_have_done(c, s->base + s->chunks)
               ? HALAY_OK
               : HALAY_IN_PROGRESS;
}

const struct halay_algorithm_ops halay_allreduce_twoshot = {
    .state_bytes = state_bytes,
    .start = start,
    .progress = progress,
};
