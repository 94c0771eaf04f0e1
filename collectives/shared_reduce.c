/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing through shared memory. Numbers and slots are those of shared.h.
 *
 *                   slice of a rank                         the sum goes to
 *     all-reduce      an N-th of the elements                 all ranks' out: everybody is a sink
 *     reduce          an N-th of the elements                 the root's out: it is the sink
 *     reduce-scatter  its part                                its own out: there is no sink
 *
 *   arrive  where this rank's in lies (and its out, if it is a sink), then its number
 *   reduce  when all have arrived: own slice, in chunks, along the tree over ranks; f16 and bf16 rounded once
 *   done    the collective is over when everybody has done all chunks: nobody reads or writes here any more
 *
 * A rank whose buffer is private takes part through its slots, chunk by chunk and pipelined:
 *
 *     fill    its part of everybody else's slice into its slot, one place an owner; number filled
 *     reduce  the owner reads it there like any other buffer, and writes the sum for a private sink back to it
 *     drain   when all owners have done the chunk: out of the slot into its out, if it is a sink
 *
 *     chunk      0      1      2      3          SHARED_SLOTS chunks may be filled and not yet drained
 *     fill       t0     t1     t2     t3
 *     reduce            t1     t2     t3
 *     drain                    t2     t3
 *
 * Its own slice a rank takes from and puts into its own buffers directly. in and out may differ in where they lie: what is
 * shared is used in place. Ranks with shared and with private buffers mix freely: which is which travels with the arrival.
 *
 * Slices of an N-th are cut at cache lines. Of lists of pieces only the sums of their lengths must agree: each rank's may be
 * cut in its own way.
 */
#include "collectives/shared_reduce.h"
#include "base/memory.h"
#include "base/prefetch.h"
#include <string.h>

/* Without slots a piece of work is some chunks. */
enum { AT_ONCE_BYTES = 1 << 18, STEP_BYTES = 2048 };

/* What a rank said when it arrived. */
struct peer {
    const unsigned char *in; /* its buffer here; NULL: private, or a list of pieces */
    unsigned char *out;      /* of a sink */
    size_t in_table;         /* pieces of a list in shared memory: see the table of its area */
    struct halay_cursor at;  /* in that list */
    int in_private, out_private;
};

struct state {
    uint64_t base;                   /* chunks of this channel before this collective */
    size_t chunks;                   /* of the longest slice; the same on all ranks */
    size_t chunk;                    /* elements */
    size_t place;                    /* bytes of one owner's place in a slot */
    int arrived;                     /* ranks below have */
    int slotted;                     /* some rank uses slots */
    size_t filled, reduced, drained; /* chunks of this rank */
    struct halay_cursor filling, reducing_in, reducing_out, draining;
    const void **src; /* behind the peers: size */
    void **dst;       /* size */
    struct peer peer[];
};

size_t shared_reduce_state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * (sizeof(struct peer) + 2 * sizeof(void *));
}

static struct halay_span slice_of(const struct halay_coll *c, int owner)
{
    if (c->operation == HALAY_REDUCE_SCATTER)
        return (struct halay_span){ .start = c->starts[owner], .length = c->starts[owner + 1] - c->starts[owner] };
    return halay_aligned_span(c->in.count, c->t->size, owner, HALAY_CACHE_LINE / c->element);
}

static struct halay_span slice_chunk(const struct halay_coll *c, int owner, size_t k)
{
    const struct state *s = c->state;

    return halay_segment_span(slice_of(c, owner), s->chunk, k);
}

/* Where in a private rank's slots chunk k of the owner's slice lies. */
static unsigned char *slot_place(const struct halay_coll *c, int rank, int owner, size_t k)
{
    const struct state *s = c->state;

    return shared_slot_place(c, rank, owner, k, s->place);
}

/* Others write into this rank's out. */
static int is_sink(const struct halay_coll *c, int rank)
{
    return c->operation == HALAY_ALLREDUCE || (c->operation == HALAY_REDUCE && rank == c->root);
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
    size_t bytes = c->in.count * c->element;
    int sinks = is_sink(c, c->t->rank);

    area->in_table = 0;
    area->in_offset = area->out_offset = HALAY_PRIVATE;
    if (c->in.piece_count > 1) {
        area->in_table = shared_publish_table(c, area);
    } else {
        area->in_offset = c->t->ops->locate(c->t, coll_in(c), bytes);
        if (sinks)
            area->out_offset =
                coll_out(c) == coll_in(c) ? area->in_offset : c->t->ops->locate(c->t, coll_out(c), bytes);
    }
    me->in_private = !area->in_table && area->in_offset == HALAY_PRIVATE;
    me->out_private = sinks && !area->in_table && area->out_offset == HALAY_PRIVATE;
    s->slotted = is_slotted(me);
    shared_publish(c, &area->arrived, s->base + 1);
}

void shared_reduce_start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->place = shared_place_bytes(c);
    s->chunk = s->place / c->element;
    for (int r = 0; r < c->t->size; r++) {
        size_t chunks = halay_segment_count(slice_of(c, r).length, s->chunk);
        s->chunks = chunks > s->chunks ? chunks : s->chunks;
    }
    s->base = c->channel->numbers.chunks;
    c->channel->numbers.chunks += s->chunks;
    s->src = (const void **)(void *)&s->peer[c->t->size];
    s->dst = (void **)(void *)(s->src + c->t->size);
    arrive(c);
}

static enum halay_status meet(struct halay_coll *c, int rank)
{
    struct state *s = c->state;
    const struct halay_area *area = shared_area(c, rank);
    struct peer *p = &s->peer[rank];
    size_t bytes = c->in.count * c->element;
    int sinks = is_sink(c, rank);

    p->in_table = area->in_table;
    if (p->in_table)
        return HALAY_OK;
    p->in_private = area->in_offset == HALAY_PRIVATE;
    p->out_private = sinks && area->out_offset == HALAY_PRIVATE;
    s->slotted |= is_slotted(p);
    if (!p->in_private && !(p->in = c->t->ops->reach(c->t, rank, area->in_offset, bytes)))
        return shared_reach_failed(c, rank);
    if (sinks && !p->out_private && !(p->out = c->t->ops->reach(c->t, rank, area->out_offset, bytes)))
        return shared_reach_failed(c, rank);
    return HALAY_OK;
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

/* Where a run of elements from `at` on is read from and, if it is a sink, written to for a rank other than this one; *length
 * becomes no more than lies in one piece there. */
static enum halay_status point(struct halay_coll *c, int rank, size_t at, size_t *length, void **out)
{
    struct state *s = c->state;
    struct peer *p = &s->peer[rank];
    unsigned char *slot = NULL;

    if (p->in_table) {
        uint64_t offset;
        *out = shared_table_run(shared_area(c, rank), p->in_table, &p->at, at, c->element, &offset, length)
                   ? c->t->ops->reach(c->t, rank, offset, *length * c->element)
                   : NULL;
        s->src[rank] = *out;
        return *out ? HALAY_OK : shared_reach_failed(c, rank);
    }
    if (is_slotted(p))
        slot = slot_place(c, rank, c->t->rank, s->reduced) +
               (at - slice_chunk(c, c->t->rank, s->reduced).start) * c->element;
    s->src[rank] = p->in_private ? slot : p->in + at * c->element;
    *out = p->out_private ? slot : p->out ? p->out + at * c->element : NULL;
    return HALAY_OK;
}

/* This rank's own place for the sum from element `at` on; NULL if it has none. Its cursor goes with that of in, so a run of in
 * is one of out. */
static void *own_out(struct halay_coll *c, size_t at)
{
    struct state *s = c->state;
    size_t ignored;

    if (c->operation == HALAY_REDUCE_SCATTER)
        return coll_out(c) + (at - c->starts[c->t->rank]) * c->element;
    return is_sink(c, c->t->rank) ? halay_vector_run(&c->out, &s->reducing_out, at, 1, &ignored) : NULL;
}

static enum halay_status reduce_run(struct halay_coll *c, size_t at, size_t most, size_t *length)
{
    struct state *s = c->state;
    int n = c->t->size, me = c->t->rank, sinks = 0;
    void *out;

    s->src[me] = halay_vector_run(&c->in, &s->reducing_in, at, most, length);
    if ((out = own_out(c, at)))
        s->dst[sinks++] = out; /* own first: see reduce.h */
    for (int r = 0; r < n; r++) {
        if (r == me)
            continue;
        enum halay_status status = point(c, r, at, length, &out);
        if (status != HALAY_OK)
            return status;
        if (out)
            s->dst[sinks++] = out;
    }
    c->reducer->reduce[c->dtype][c->op](s->dst, sinks, s->src, n, *length, c->divisor);
    return HALAY_OK;
}

static enum halay_status reduce_chunks(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t left = s->chunks - s->reduced, some = s->place < AT_ONCE_BYTES ? AT_ONCE_BYTES / s->place : 1;
    size_t chunks = s->slotted ? 1 : left < some ? left : some;
    struct halay_span last = slice_chunk(c, c->t->rank, s->reduced + chunks - 1);
    size_t at = slice_chunk(c, c->t->rank, s->reduced).start, end = last.start + last.length;
    enum halay_status status = HALAY_OK;

    if (!shared_enter(c)) /* who has given up waits for those who read its memory, as for those who write there */
        return HALAY_IN_PROGRESS; /* the next look at the peers finds out who it is */
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

enum halay_status shared_reduce_progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int mine = is_slotted(&s->peer[c->t->rank]);
    enum halay_status status = HALAY_OK;

    if (mine && s->filled < s->chunks && s->filled < s->drained + SHARED_SLOTS)
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
