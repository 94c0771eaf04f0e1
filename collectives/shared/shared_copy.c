/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying through shared memory: some ranks give a row of elements each, every rank takes all rows. In a broadcast the
 * root gives, in an all-gather (even and ragged) every rank. Numbers and slots are those of shared.h.
 *
 *     all-gather      A   publishes a      copies   b c        done; waits until B and C are
 *                     B   publishes b      copies a   c        done
 *                     C   publishes c      copies a b          done
 *
 *   arrive  a giver publishes the place of its row
 *   fill    a giver whose row is private copies it into its slots, chunk by chunk: chunk k into slot k mod
 *           SHARED_SLOTS, when every rank has taken chunk k - SHARED_SLOTS
 *   take    chunk k of every giver's row, from its memory or its slot, when it is there; then number done
 *   end     a giver waits until every rank has taken everything; one that gives nothing returns, as no rank reads it
 *
 * Between two ranks of which one gives, the giver would only wait. So (pushes) the taker publishes its memory, too,
 * takes the first half of each chunk, and the giver writes the second half there and stores done, for which the taker
 * waits. The bound of a copy is the rate at which one core gets lines out of the other's cache, so both cores copy.
 *
 * A giver that gives up does not wait: it sets closed and may then change its row while it is being copied. So a taker
 * checks closed after the copy, and counts a chunk as taken only if none of its givers had given up by then:
 *
 *     giver   closed = status; fence; writes into its row        taker   copies the row; fence; closed ? not taken
 *
 * If the copy saw any of those writes, the check sees the status.
 *
 * Cost: 2 exchanges; each rank reads and writes S bytes (its own row only out of place; a private row once more). Any
 * number of ranks, any counts, zero included; in and out of place; lists of pieces in a broadcast.
 */
#include "base/memory.h"
#include "base/sync.h"
#include "collectives/shared/shared.h"

enum { PUSH_BYTES = 16384 }; /* below, waiting for the other's arrival costs more than half of the copy */

struct giver {
    const unsigned char *data; /* its row here; NULL: private, or a list of pieces */
    size_t in_table;           /* pieces of a list in shared memory */
    struct halay_cursor at;    /* in that list */
    int is_private;            /* through its slots */
    size_t length;             /* elements; 0: gives nothing */
    size_t start;              /* offset of its row in every rank's out */
    unsigned char *target;     /* with pushes, of the taker: its out here; NULL: private */
};

struct state {
    uint64_t base;        /* chunks of this channel before this collective */
    size_t chunks, chunk; /* of the longest row; elements of one */
    size_t slot;          /* bytes of a chunk */
    int arrived;          /* givers below have arrived */
    size_t filled, taken; /* chunks of this rank */
    int pushes; /* the one giver writes the second half of each chunk into the taker's memory, if that is shared */
    struct halay_cursor filling, taking;
    struct giver giver[]; /* c->size of them */
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * sizeof(struct giver);
}

static unsigned char *slot_of(const struct halay_coll *c, int rank, size_t k)
{
    const struct state *s = c->state;

    return shared_slots(c, rank) + k % SHARED_SLOTS * s->slot;
}

static struct halay_span chunk_of(const struct state *s, const struct giver *g, size_t k)
{
    return halay_span_cut((struct halay_span){ .start = 0, .length = g->length }, s->chunk, k);
}

/* The memory that a rank announces when it arrives: its row or, with pushes, where a rank that has none wants one. */
static size_t row_of(const struct halay_coll *c, const struct giver *g)
{
    return g->length ? g->length : c->out.count;
}

/* Returns the part of a chunk that a taker takes; the giver writes the rest. */
static struct halay_span taken_of(const struct state *s, const struct giver *taker, struct halay_span chunk)
{
    if (s->pushes && taker->target)
        chunk.length /= 2;
    return chunk;
}

/* ---- give ---- */

static void announce_row(struct halay_coll *c, struct giver *me)
{
    struct state *s = c->state;
    struct halay_area *area = shared_mine(c);

    area->in_table = 0;
    area->in_offset = HALAY_PRIVATE;
    if (c->in.piece_count > 1)
        area->in_table = shared_publish_table(c, &c->in, 0, area);
    else
        area->in_offset = shared_locate(c, coll_in(c), row_of(c, me) * c->element);
    me->is_private = !area->in_table && area->in_offset == HALAY_PRIVATE;
    if (s->pushes && !me->is_private)
        me->target = coll_out(c);
    shared_publish(c, &area->arrived, s->base + 1);
}

static void choose_givers(const struct halay_coll *c, struct state *s)
{
    if (c->operation == HALAY_COLL_BROADCAST) {
        s->giver[c->root].length = c->out.count;
        s->pushes = c->size == 2 && !c->is_list && c->out.count * c->element >= PUSH_BYTES;
        return;
    }
    for (int r = 0; r < c->size; r++) {
        s->giver[r].start = c->starts[r];
        s->giver[r].length = coll_block_length(c, r);
    }
}

static void copy_start(struct halay_coll *c)
{
    struct state *s = c->state;

    choose_givers(c, s);
    s->slot = shared_slot_bytes(c, 1);
    s->chunk = coll_elements(c, s->slot);
    for (int r = 0; r < c->size; r++) {
        size_t chunks = halay_span_cuts(s->giver[r].length, s->chunk);
        s->chunks = chunks > s->chunks ? chunks : s->chunks;
    }
    s->base = c->channel->numbers.chunks;
    c->channel->numbers.chunks += s->chunks;
    if (s->giver[c->rank].length || s->pushes)
        announce_row(c, &s->giver[c->rank]);
}

static void fill_row(struct halay_coll *c, const struct giver *me)
{
    struct state *s = c->state;
    struct halay_span span = chunk_of(s, me, s->filled);

    if (s->filled >= SHARED_SLOTS && !shared_all_have_done(c, s->base + s->filled - SHARED_SLOTS + 1))
        return;
    halay_vector_pack(&c->in, &s->filling, span.start, span.length, slot_of(c, c->rank, s->filled));
    s->filled++;
    shared_publish(c, &shared_mine(c)->filled, s->base + s->filled);
    coll_advanced(c);
}

/* ---- take ---- */

static enum halay_status reach_all(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->arrived < c->size; s->arrived++) {
        struct giver *g = &s->giver[s->arrived];
        const struct halay_area *area = shared_area(c, s->arrived);
        if (s->arrived == c->rank || !(g->length || s->pushes))
            continue;
        if (!shared_has_reached(&shared_area(c, s->arrived)->arrived, s->base + 1))
            return HALAY_IN_PROGRESS;
        g->in_table = area->in_table;
        g->is_private = !g->in_table && area->in_offset == HALAY_PRIVATE;
        if (g->in_table || g->is_private)
            continue;
        unsigned char *row = shared_reach(c, s->arrived, area->in_offset, row_of(c, g) * c->element);
        if (!row)
            return shared_reach_failed(c, s->arrived);
        if (g->length)
            g->data = row;
        else
            g->target = row;
    }
    return HALAY_OK;
}

/* Copies from a giver's list of pieces. */
static enum halay_status take_table(struct halay_coll *c, int rank, struct halay_span span)
{
    struct state *s = c->state;
    struct giver *g = &s->giver[rank];

    for (size_t done = 0, length; done < span.length; done += length) {
        size_t at = span.start + done;
        uint64_t offset;
        void *to = halay_vector_run(&c->out, &s->taking, at, span.length - done, &length);
        const void *from =
            shared_table_run(shared_area(c, rank), 0, g->in_table, &g->at, at, c->element, &offset, &length)
                ? shared_reach(c, rank, offset, length * c->element)
                : NULL;
        if (!from)
            return shared_reach_failed(c, rank);
        halay_copy(to, from, length * c->element);
    }
    return HALAY_OK;
}

static int is_there(const struct halay_coll *c, int rank)
{
    const struct state *s = c->state;
    const struct giver *g = &s->giver[rank];

    return rank == c->rank || !g->is_private || !chunk_of(s, g, s->taken).length ||
           shared_has_reached(&shared_area(c, rank)->filled, s->base + s->taken + 1);
}

/* Copies the giver's part of a chunk. In progress if the taker has given up. */
static enum halay_status push_chunk(struct halay_coll *c, int taker, struct halay_span chunk)
{
    struct state *s = c->state;
    unsigned char *target = s->giver[taker].target;
    size_t skipped = taken_of(s, &s->giver[taker], chunk).length, at = (chunk.start + skipped) * c->element;

    if (!target)
        return HALAY_OK;
    if (!shared_enter(c))
        return HALAY_IN_PROGRESS;
    halay_copy(target + at, coll_in(c) + at, (chunk.length - skipped) * c->element);
    shared_leave(c);
    return HALAY_OK;
}

static enum halay_status take_chunk_from(struct halay_coll *c, int rank)
{
    struct state *s = c->state;
    const struct giver *g = &s->giver[rank];
    struct halay_span chunk = chunk_of(s, g, s->taken), span = taken_of(s, &s->giver[c->rank], chunk);
    size_t at = g->start + span.start;

    if (rank == c->rank && s->pushes && chunk.length)
        return push_chunk(c, !rank, chunk);
    if (!span.length)
        return HALAY_OK;
    if (rank == c->rank) {
        unsigned char *to = coll_out(c) + at * c->element;
        const unsigned char *from = coll_in(c) + span.start * c->element;
        if (c->in.piece_count == 1 && to != from)
            halay_copy(to, from, span.length * c->element);
        return HALAY_OK;
    }
    if (g->in_table)
        return take_table(c, rank, span);
    halay_vector_unpack(&c->out, &s->taking, at, span.length,
                        g->is_private ? slot_of(c, rank, s->taken) : g->data + span.start * c->element);
    return HALAY_OK;
}

/* Returns nonzero if a giver of this chunk has given up, so that its row may have changed. */
static int is_withdrawn(const struct halay_coll *c)
{
    const struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        if (r != c->rank && chunk_of(s, &s->giver[r], s->taken).length && shared_is_abandoned(c, r))
            return 1;
    return 0;
}

/* In progress if a giver has given up: the next check of the peers finds out who. */
static enum halay_status copy_take(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        if (!is_there(c, r))
            return HALAY_IN_PROGRESS;
    if (is_withdrawn(c))
        return HALAY_IN_PROGRESS;
    for (int r = 0; r < c->size; r++) {
        enum halay_status status = take_chunk_from(c, r);
        if (status != HALAY_OK)
            return status;
    }
    halay_full_fence(); /* the copy before the check */
    if (is_withdrawn(c))
        return HALAY_IN_PROGRESS;
    s->taken++;
    shared_publish(c, &shared_mine(c)->done, s->base + s->taken);
    coll_advanced(c);
    return HALAY_OK;
}

static enum halay_status copy_progress(struct halay_coll *c)
{
    struct state *s = c->state;
    const struct giver *me = &s->giver[c->rank];
    int gives = me->length > 0;
    enum halay_status status = HALAY_OK;

    if (gives && me->is_private && s->filled < halay_span_cuts(me->length, s->chunk))
        fill_row(c, me);
    if (s->arrived < c->size)
        status = reach_all(c);
    if (status == HALAY_OK && s->taken < s->chunks)
        status = copy_take(c);
    if (status != HALAY_OK)
        return status;
    return s->taken == s->chunks && (!(gives || s->pushes) || shared_all_have_done(c, s->base + s->chunks))
               ? HALAY_OK
               : HALAY_IN_PROGRESS;
}

const struct halay_algorithm_ops halay_shared_copy = {
    .state_bytes = state_bytes,
    .start = copy_start,
    .progress = copy_progress,
};
