/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing through shared memory: each rank adds its block of every rank's buffers, in place. Numbers and slots are
 * those of shared.h.
 *
 *                   block of a rank                         the sum goes to
 *     all-reduce      an N-th of the elements                 all ranks' out: every rank is a sink ("two-shot")
 *     reduce          an N-th of the elements                 the root's out: it is the sink
 *     reduce-scatter  its block                               its own out: no sink
 *
 *     all-reduce of three ranks, blocks 0 1 2
 *
 *             arrive           reduce                                    done
 *     A's     0 1 2            0 = 0A+0B+0C  by A, written               0 1 2
 *     B's     0 1 2            1 = 1A+1B+1C  by B, into all three        0 1 2
 *     C's     0 1 2            2 = 2A+2B+2C  by C                        0 1 2
 *
 *   arrive  publishes the place of this rank's in (and its out, if it is a sink), then its number
 *   reduce  when all have arrived: own block, in chunks, along the tree over ranks; f16 and bf16 rounded once
 *   done    the collective is over when every rank has done all chunks and uses these buffers no longer
 *
 * A rank whose buffer is private takes part through its slots, chunk by chunk and pipelined:
 *
 *     fill    its data of every other rank's block into its slots, one an owner; number filled
 *     reduce  the owner reads it there like any other buffer, and writes the sum for a private sink back to it
 *     drain   when all owners have done the chunk: out of the slots into its out, if it is a sink
 *
 *     chunk      0      1      2      3          SHARED_SLOTS chunks may be filled and not yet drained
 *     fill       t0     t1     t2     t3
 *     reduce            t1     t2     t3
 *     drain                    t2     t3
 *
 * A rank reads and writes its own block in its own buffers directly. in and out may differ: a shared one is used in
 * place. Ranks with shared and with private buffers mix freely: the arrival has the kind of each.
 *
 * A buffer that the program has registered is shared but for less than a page at each end (halay_memory_register). Its
 * rank lends the others a copy of these ends in its slots, which it does not need then, in a table of up to three
 * pieces; when all have done, what others have written there goes back to where it belongs.
 *
 * Blocks of an N-th are cut at cache lines. Lists of pieces must agree only in the sums of their lengths: each rank may
 * cut them in its own way, and in differently from out.
 *
 * Data to convert count as private: they are converted into and out of the slots; the rank's own block, through a
 * bounce buffer in its first-level cache.
 *
 * Cost: 2 exchanges; each rank reads S bytes and writes S (all-reduce) or S / N (private buffers: 2 S more for an
 * all-reduce, S more otherwise). No memory but the slots. Any number of ranks, any counts, zero included; in and out of
 * place; lists of pieces (in place).
 */
#include "base/memory.h"
#include "base/sync.h"
#include "collectives/shared/shared.h"

/* Without slots a piece of work is some chunks. */
enum { AT_ONCE_BYTES = 1 << 18, STEP_BYTES = 2048 };

/* A rank's buffer, as announced at its arrival. */
struct buffer {
    int is_private;
    unsigned char *data;    /* here; NULL: private, or a list of pieces */
    size_t first, pieces;   /* of a list in shared memory: see the table of its area */
    struct halay_cursor at; /* in that list */
};

struct peer {
    struct buffer in, out; /* out: of a sink */
    int is_same;           /* in place: both are one, and not private */
};

/* An end of this rank's buffer that others cannot reach: copy number i is that far in pages from its first slot. */
struct end {
    unsigned char *memory;
    size_t first, count; /* elements of the vector */
    int is_out;          /* others write to the copy */
};

enum { ENDS_MAX = 4 };

struct state {
    uint64_t base;           /* chunks of this channel before this collective */
    struct halay_span block; /* this rank's */
    size_t chunks;           /* of the longest block; the same on all ranks */
    size_t chunk;            /* elements */
    size_t slot;             /* bytes of the slot for one owner */
    int arrived;             /* ranks below have */
    int slotted;             /* some rank uses slots */
    int lends;               /* this rank may lend copies of ends: */
    struct end end[ENDS_MAX];
    size_t ends;
    size_t filled, reduced, drained; /* chunks of this rank */
    struct halay_cursor filling, reducing_in, reducing_out, draining;
    const void **src; /* after the peers: size */
    void **dst;       /* size */
    struct peer peer[];
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * (sizeof(struct peer) + 2 * sizeof(void *));
}

static struct halay_span block_of(const struct halay_coll *c, int owner)
{
    if (c->operation == HALAY_COLL_REDUCE_SCATTER)
        return coll_block_span(c, owner);
    return halay_aligned_span(c->in.count, c->size, owner, coll_elements(c, HALAY_CACHE_LINE));
}

static struct halay_span block_chunk(const struct halay_coll *c, int owner, size_t k)
{
    const struct state *s = c->state;

    return halay_span_cut(owner == c->rank ? s->block : block_of(c, owner), s->chunk, k);
}

static size_t longest_block(const struct halay_coll *c)
{
    if (c->operation == HALAY_COLL_REDUCE_SCATTER)
        return coll_longest_block(c);
    return block_of(c, 0).length; /* of blocks of an N-th it is the longest */
}

/* Returns a private rank's slot for chunk k of the owner's block. */
static unsigned char *slot_of(const struct halay_coll *c, int rank, int owner, size_t k)
{
    const struct state *s = c->state;

    return shared_peer_slot(c, rank, owner, k, s->slot);
}

/* Returns nonzero if others write into this rank's out. */
static int is_sink(const struct halay_coll *c, int rank)
{
    return c->operation == HALAY_COLL_ALLREDUCE || (c->operation == HALAY_COLL_REDUCE && rank == c->root);
}

/* ---- arrive ---- */

static int is_slotted(const struct peer *p)
{
    return p->in.is_private || p->out.is_private;
}

static unsigned char *end_copy(const struct halay_coll *c, size_t i)
{
    return shared_slots(c, c->rank) + i * HALAY_PAGE;
}

/* Adds an end to the table; returns the offset of its copy. */
static uint64_t lend_end(struct halay_coll *c, const struct halay_vector *v, size_t at, size_t bytes)
{
    struct state *s = c->state;
    unsigned char *memory = (unsigned char *)v->pieces[0].data + at, *copy = end_copy(c, s->ends);

    memcpy(copy, memory, bytes);
    s->end[s->ends++] = (struct end){ .memory = memory,
                                      .first = at / v->element,
                                      .count = bytes / v->element,
                                      .is_out = v == &c->out || coll_is_in_place(c) };
    return shared_locate(c, copy, bytes);
}

/* Publishes an array that is registered but for its ends as a table of up to three pieces; returns their number. */
static uint32_t publish_ends(struct halay_coll *c, const struct halay_vector *v, size_t first)
{
    const struct halay_shared_memory_ops *ops = c->group->memory->ops;
    size_t bytes = v->count * v->element, head, length;
    uint64_t *entry = shared_mine(c)->table + first;
    uint32_t pieces = 0;

    if (!ops->locate_pages || !bytes)
        return 0;
    uint64_t offset = ops->locate_pages(c->group->memory, v->pieces[0].data, bytes, &head, &length);
    if (offset == HALAY_PRIVATE || head % v->element || length % v->element)
        return 0;
    const size_t end[] = { head, head + length, bytes };
    for (size_t i = 0, at = 0; i < 3; at = end[i++]) {
        if (end[i] == at)
            continue;
        entry[2 * pieces] = i == 1 ? offset : lend_end(c, v, at, end[i] - at);
        entry[2 * pieces++ + 1] = end[i] / v->element;
    }
    return pieces;
}

/* Writes back what others have written to the copies: all but this rank's own block. */
static void take_ends_back(struct halay_coll *c)
{
    const struct state *s = c->state;

    for (size_t i = 0; i < s->ends && is_sink(c, c->rank); i++) {
        const struct end *e = &s->end[i];
        size_t from = s->block.start > e->first ? s->block.start - e->first : 0;
        size_t to = s->block.start + s->block.length > e->first ? s->block.start + s->block.length - e->first : 0;
        if (!e->is_out)
            continue;
        from = from < e->count ? from : e->count;
        to = to < e->count ? to : e->count;
        memcpy(e->memory, end_copy(c, i), from * c->element);
        memcpy(e->memory + to * c->element, end_copy(c, i) + to * c->element, (e->count - to) * c->element);
    }
}

/* Publishes the place of a buffer of this rank: an offset, or the number of its pieces in the table from `first` on.
 * Returns nonzero if others cannot reach it, or its data need a conversion. */
static int publish_buffer(struct halay_coll *c, const struct halay_vector *v, size_t first, uint64_t *offset,
                          uint32_t *pieces)
{
    *offset = HALAY_PRIVATE;
    *pieces = 0;
    if (v->is_converted)
        return 1;
    if (v->piece_count > 1)
        *pieces = shared_publish_table(c, v, first, shared_mine(c));
    else
        *offset = shared_locate(c, v->pieces[0].data, v->count * v->element);
    if (v->piece_count == 1 && *offset == HALAY_PRIVATE && ((struct state *)c->state)->lends)
        *pieces = publish_ends(c, v, first);
    return !*pieces && *offset == HALAY_PRIVATE;
}

static void publish_buffers(struct halay_coll *c)
{
    struct state *s = c->state;
    struct halay_area *area = shared_mine(c);
    struct peer *me = &s->peer[c->rank];

    me->in.is_private = publish_buffer(c, &c->in, 0, &area->in_offset, &area->in_table);
    area->out_first = 0;
    area->out_table = area->in_table;
    area->out_offset = area->in_offset;
    me->out = me->in;
    if (!is_sink(c, c->rank)) {
        me->out.is_private = 0;
    } else if (!coll_is_in_place(c)) {
        area->out_first = 2 * area->in_table;
        me->out.is_private = publish_buffer(c, &c->out, area->out_first, &area->out_offset, &area->out_table);
    }
}

static void announce_buffer(struct halay_coll *c)
{
    struct state *s = c->state;
    struct halay_area *area = shared_mine(c);
    struct peer *me = &s->peer[c->rank];

    s->lends = 1;
    publish_buffers(c);
    if (is_slotted(me) && s->ends) { /* the copies would lie where its chunks go */
        s->lends = 0;
        s->ends = 0;
        publish_buffers(c);
    }
    s->slotted = is_slotted(me);
    shared_publish(c, &area->arrived, s->base + 1);
    halay_prefetch_write(&area->done); /* which the others have read: the store to come finds it here */
}

static void reduce_start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->slot = shared_peer_slot_bytes(c);
    s->chunk = coll_elements(c, s->slot);
    s->block = block_of(c, c->rank);
    s->chunks = halay_span_cuts(longest_block(c), s->chunk);
    s->base = c->channel->numbers.chunks;
    c->channel->numbers.chunks += s->chunks;
    s->src = (const void **)(void *)&s->peer[c->size];
    s->dst = (void **)(void *)(s->src + c->size);
    announce_buffer(c);
}

/* Reads the place that publish_buffer of another rank wrote. */
static enum halay_status find_element(struct halay_coll *c, int rank, uint64_t offset, size_t first, size_t pieces,
                                      struct buffer *p)
{
    *p = (struct buffer){ .first = first, .pieces = pieces, .is_private = !pieces && offset == HALAY_PRIVATE };
    if (!pieces && !p->is_private && !(p->data = shared_reach(c, rank, offset, c->in.count * c->element)))
        return shared_reach_failed(c, rank);
    return HALAY_OK;
}

static enum halay_status reach_rank(struct halay_coll *c, int rank)
{
    struct state *s = c->state;
    const struct halay_area *area = shared_area(c, rank);
    struct peer *p = &s->peer[rank];

    enum halay_status status = find_element(c, rank, area->in_offset, 0, area->in_table, &p->in);
    if (status == HALAY_OK && is_sink(c, rank))
        status = find_element(c, rank, area->out_offset, area->out_first, area->out_table, &p->out);
    p->is_same = !p->in.is_private && is_sink(c, rank) && !area->out_first && area->out_table == area->in_table &&
                 area->out_offset == area->in_offset;
    s->slotted |= is_slotted(p);
    return status;
}

static enum halay_status reach_all(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->arrived < c->size; s->arrived++) {
        if (s->arrived == c->rank)
            continue;
        if (!shared_has_reached(&shared_area(c, s->arrived)->arrived, s->base + 1))
            return HALAY_IN_PROGRESS;
        enum halay_status status = reach_rank(c, s->arrived);
        if (status != HALAY_OK)
            return status;
    }
    return HALAY_OK;
}

/* ---- a rank with private buffers: fill and drain ---- */

static void fill_slots(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int owner = 0; owner < c->size && s->peer[c->rank].in.is_private; owner++) {
        struct halay_span span = block_chunk(c, owner, s->filled);
        if (owner != c->rank && span.length)
            halay_vector_pack(&c->in, &s->filling, span.start, span.length, slot_of(c, c->rank, owner, s->filled));
    }
    s->filled++;
    shared_publish(c, &shared_mine(c)->filled, s->base + s->filled);
    coll_advanced(c);
}

/* The owner wrote the sum, so its lines are in the owner's cache. They are fetched for writing: the next fill of this
 * slot then finds them here. */
static void drain_span(struct halay_coll *c, struct halay_span span, const unsigned char *from)
{
    struct state *s = c->state;
    size_t bytes = span.length * c->element;

    for (size_t at = 0, length; at < bytes; at += length) {
        length = bytes - at < STEP_BYTES ? bytes - at : STEP_BYTES;
        for (size_t line = at ? at + STEP_BYTES : 0; line < bytes && line < at + 2 * STEP_BYTES;
             line += HALAY_CACHE_LINE)
            halay_prefetch_write(from + line);
        halay_vector_unpack(&c->out, &s->draining, span.start + coll_elements(c, at), coll_elements(c, length),
                            from + at);
    }
}

static void drain_slots(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int owner = 0; owner < c->size && s->peer[c->rank].out.is_private; owner++) {
        struct halay_span span = block_chunk(c, owner, s->drained);
        if (owner != c->rank)
            drain_span(c, span, slot_of(c, c->rank, owner, s->drained));
    }
    s->drained++;
    coll_advanced(c);
}

/* ---- reduce ---- */

static int all_have_filled(const struct halay_coll *c)
{
    const struct state *s = c->state;

    for (int r = 0; r < c->size && s->slotted; r++)
        if (r != c->rank && is_slotted(&s->peer[r]) &&
            !shared_has_reached(&shared_area(c, r)->filled, s->base + s->reduced + 1))
            return 0;
    return 1;
}

/* Returns element `at` of another rank's buffer; *length shrinks to the rest of its piece. */
static enum halay_status point_into(struct halay_coll *c, int rank, struct buffer *p, size_t at, size_t *length,
                                    void **to)
{
    struct state *s = c->state;
    uint64_t offset;

    if (p->is_private) {
        *to = slot_of(c, rank, c->rank, s->reduced) + (at - block_chunk(c, c->rank, s->reduced).start) * c->element;
        return HALAY_OK;
    }
    if (p->data) {
        *to = p->data + at * c->element;
        return HALAY_OK;
    }
    *to = shared_table_run(shared_area(c, rank), p->first, p->pieces, &p->at, at, c->element, &offset, length)
              ? shared_reach(c, rank, offset, *length * c->element)
              : NULL;
    return *to ? HALAY_OK : shared_reach_failed(c, rank);
}

/* This rank's own sums go elsewhere than where its own elements come from: by a bounce buffer. The reduction has lines
 * to fetch already and would wait for those that it only writes; a copy from a bounce buffer doesn't. */
static int has_bounce(const struct halay_coll *c)
{
    return is_sink(c, c->rank) && !coll_is_in_place(c);
}

/* Returns this rank's own memory for the sum from element `at` on; NULL if it has none. */
static void *own_out(struct halay_coll *c, size_t at, unsigned char *bounce, size_t *length)
{
    struct state *s = c->state;

    if (has_bounce(c))
        return bounce;
    if (c->operation == HALAY_COLL_REDUCE_SCATTER)
        return coll_out(c) + (at - c->starts[c->rank]) * c->element;
    return is_sink(c, c->rank) ? halay_vector_run(&c->out, &s->reducing_out, at, *length, length) : NULL;
}

/* Finds the places of the others' elements and of their sums; lengths only shrink. */
static enum halay_status point_at_others(struct halay_coll *c, size_t at, int *sinks, size_t *length)
{
    struct state *s = c->state;
    enum halay_status status = HALAY_OK;

    for (int r = 0; r < c->size && status == HALAY_OK; r++) {
        void *in = NULL, *out;
        if (r == c->rank)
            continue;
        status = point_into(c, r, &s->peer[r].in, at, length, &in);
        s->src[r] = in;
        if (status != HALAY_OK || !is_sink(c, r))
            continue;
        out = in;
        if (!s->peer[r].is_same)
            status = point_into(c, r, &s->peer[r].out, at, length, &out);
        s->dst[(*sinks)++] = out;
    }
    return status;
}

static enum halay_status reduce_run(struct halay_coll *c, size_t at, size_t most, size_t *length)
{
    _Alignas(HALAY_CACHE_LINE) unsigned char bounce[HALAY_BOUNCE_BYTES];
    struct state *s = c->state;
    int me = c->rank, sinks = 0;

    *length = most;
    if (has_bounce(c) && *length > coll_elements(c, sizeof bounce))
        *length = coll_elements(c, sizeof bounce);
    s->src[me] = bounce;
    if (!c->in.is_converted)
        s->src[me] = halay_vector_run(&c->in, &s->reducing_in, at, *length, length);
    void *out = own_out(c, at, bounce, length);
    if (out)
        s->dst[sinks++] = out; /* own first: see reduce.h */
    enum halay_status status = point_at_others(c, at, &sinks, length);
    if (status != HALAY_OK)
        return status;
    if (c->in.is_converted)
        halay_vector_pack(&c->in, &s->reducing_in, at, *length, bounce);
    c->reducer->reduce[c->dtype][c->op](s->dst, sinks, s->src, c->size, *length, c->divisor);
    if (has_bounce(c))
        halay_vector_unpack(&c->out, &s->reducing_out, at, *length, bounce);
    return HALAY_OK;
}

static enum halay_status reduce_chunks(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t left = s->chunks - s->reduced, chunks = 1;
    if (!s->slotted && left > 1 && s->slot < AT_ONCE_BYTES)
        chunks = AT_ONCE_BYTES / s->slot;
    chunks = left < chunks ? left : chunks;
    struct halay_span last = block_chunk(c, c->rank, s->reduced + chunks - 1);
    size_t at = block_chunk(c, c->rank, s->reduced).start, end = last.start + last.length;
    enum halay_status status = HALAY_OK;

    if (!shared_enter(c)) /* a rank that gives up waits for those that read its memory, as for those that write there */
        return HALAY_IN_PROGRESS; /* the next check of the peers finds the rank */
    for (size_t length; at < end && status == HALAY_OK; at += length)
        status = reduce_run(c, at, end - at, &length);
    shared_leave(c);
    if (status != HALAY_OK)
        return status;
    s->reduced += chunks;
    if (s->slotted || s->reduced == s->chunks) /* no rank waits for the others */
        shared_publish(c, &shared_mine(c)->done, s->base + s->reduced);
    coll_advanced(c);
    return HALAY_OK;
}

static enum halay_status reduce_progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int mine = is_slotted(&s->peer[c->rank]);
    enum halay_status status = HALAY_OK;

    if (mine && s->filled < s->chunks && s->filled < s->drained + SHARED_SLOTS)
        fill_slots(c);
    if (s->arrived < c->size)
        status = reach_all(c);
    if (status == HALAY_OK && s->reduced < s->chunks && all_have_filled(c))
        status = reduce_chunks(c);
    if (status != HALAY_OK)
        return status;
    if (mine && s->drained < s->chunks && shared_all_have_done(c, s->base + s->drained + 1))
        drain_slots(c);
    if (s->reduced < s->chunks || (mine && s->drained < s->chunks) || !shared_all_have_done(c, s->base + s->chunks))
        return HALAY_IN_PROGRESS;
    if (s->ends)
        take_ends_back(c);
    halay_prefetch_write(&shared_mine(c)->arrived); /* for the next one */
    return HALAY_OK;
}

const struct halay_algorithm_ops halay_shared_reduce = {
    .state_bytes = state_bytes,
    .start = reduce_start,
    .progress = reduce_progress,
};
