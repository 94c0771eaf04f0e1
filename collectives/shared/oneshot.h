/* SPDX-License-Identifier: Apache-2.0
 *
 * One-shot: one exchange through slots of shared memory, without a barrier. The part that all such collectives share;
 * each one's file defines its gives and takes.
 *
 *     slot of A   | 7 | a a a a a a a |  a a a ...      7: the number of this exchange, stored last; before
 *     slot of B   | 7 | b b b b b b b |  b b b ...      the first data and in the same cache line, so that 56 bytes
 *     slot of C   | 6 | not there yet                   travel with it
 *
 *     giver: write own data, then the number      taker: wait for each giver's number; take      all: read = the number
 *
 * A rank that only gives (the root of a broadcast) waits for no rank and is done when it has written; no rank waits for
 * one that only takes (the root of a reduction). More data than a slot holds need several exchanges.
 *
 * A slot is written again when no rank needs its data. Exchanges of a channel are numbered 1, 2, 3, ... the same on all
 * ranks, each rank goes through them in order, and exchange k uses slot k mod ONESHOTS of its givers.
 *
 *     read       of a rank, stored (release) when it is done with exchange k: it will not read slots of 1 .. k again
 *     all_read   of a rank: a number that every rank's read has reached, as far as it knows
 *
 * Exchange k is written only once all_read has reached k - ONESHOTS, the last exchange that used its slot: so no data
 * are overwritten that a rank still reads, and a taker finds either an older number, or the one that it waits for (the
 * giver cannot be further: that would take the taker's own read). A rank that waits to write waits for ranks at an
 * earlier exchange, and of those the one at the earliest waits for givers that are not earlier: no circle of waits is
 * possible. all_read is updated from every rank's read, which is another core's cache line. It is rarely needed: a rank
 * that writes k has done k - 1, so where every rank gives and this rank takes, all that it has seen k of have read k -
 * 1. tests/coll/test_interleavings.c runs through all orders in which a few ranks can get on.
 */
#ifndef HALAY_ONESHOT_H
#define HALAY_ONESHOT_H

#include "base/sync.h"
#include "collectives/shared/shared.h"
#include <string.h>

/* Bytes of the next slot that are prefetched without delaying the return. */
enum { ONESHOT_FETCHED_MOST = 1024 };

/* State of one collective. */
struct oneshot {
    uint64_t number;  /* of this exchange */
    size_t longest;   /* elements of the longest row that any rank gives to any other: the same on all ranks */
    size_t most;      /* elements of a row in one exchange */
    size_t at, count; /* elements of the longest row that are done, and that are in this exchange */
    int arrived;      /* ranks below have written, if they give */
    int has_given;
    struct halay_cursor in, out;
    const void *src[]; /* c->size of them */
};

/* The parts of an operation. A row is a giver's data for one taker, or for all. */
struct oneshot_operation {
    int (*gives)(const struct halay_coll *c, int rank);
    int (*takes)(const struct halay_coll *c, int rank);
    int all_give;
    /* Writes this exchange's part of own rows to own slot, after its number. */
    void (*put)(struct halay_coll *c, unsigned char *slot);
    /* Takes this exchange's part of the others' rows from their slots; all givers have written. */
    void (*take)(struct halay_coll *c);
};

static inline size_t oneshot_state_bytes(int size)
{
    return sizeof(struct oneshot) + (size_t)size * sizeof(void *);
}

static inline int oneshot_every_rank(const struct halay_coll *c, int rank)
{
    (void)c, (void)rank;
    return 1;
}

static inline int oneshot_root(const struct halay_coll *c, int rank)
{
    return rank == c->root;
}

static inline int oneshot_not_root(const struct halay_coll *c, int rank)
{
    return rank != c->root;
}

static inline struct halay_oneshot_slot *oneshot_slot(const struct halay_coll *c, int rank)
{
    const struct oneshot *s = c->state;

    return &shared_area(c, rank)->oneshot[s->number % HALAY_ONESHOTS];
}

/* Returns the place of the taker's row in the slot of a giver with a row for each of the others. */
static inline unsigned char *oneshot_row(const struct halay_coll *c, int giver, int taker)
{
    const struct oneshot *s = c->state;
    size_t index = (size_t)(taker < giver ? taker : taker - 1);

    return oneshot_slot(c, giver)->data + index * s->most * c->element;
}

/* Returns the part of a row in this exchange, from element `at` of the row on; rows may be shorter than the longest. */
static inline size_t oneshot_count(const struct halay_coll *c, size_t row)
{
    const struct oneshot *s = c->state;
    size_t left = row > s->at ? row - s->at : 0;

    return left < s->count ? left : s->count;
}

/* Returns nonzero if all ranks have read the slot of this exchange. */
static inline int oneshot_has_room(struct halay_coll *c)
{
    const struct oneshot *s = c->state;
    uint64_t *all_read = &c->channel->numbers.all_read, least = s->number;

    if (s->number <= *all_read + HALAY_ONESHOTS)
        return 1;
    for (int r = 0; r < c->size; r++) {
        uint64_t read = r == c->rank ? least : atomic_load_explicit(&shared_area(c, r)->read, memory_order_acquire);
        least = read < least ? read : least;
    }
    *all_read = least;
    return s->number <= least + HALAY_ONESHOTS;
}

static inline void oneshot_give(struct halay_coll *c, const struct oneshot_operation *o)
{
    struct oneshot *s = c->state;

    if (s->has_given || !oneshot_has_room(c))
        return;
    struct halay_oneshot_slot *slot = oneshot_slot(c, c->rank);
    o->put(c, slot->data);
    shared_publish(c, &slot->number, s->number);
    s->has_given = 1;
}

static inline void oneshot_begin(struct halay_coll *c, const struct oneshot_operation *o)
{
    struct oneshot *s = c->state;
    size_t left = s->longest - s->at;

    s->count = left < s->most ? left : s->most;
    s->number = ++c->channel->numbers.oneshots;
    s->arrived = 0;
    s->has_given = !o->gives(c, c->rank);
    oneshot_give(c, o);
}

/* rows: rows of a giver in its slot. */
static inline void oneshot_start(struct halay_coll *c, const struct oneshot_operation *o, size_t longest, int rows)
{
    struct oneshot *s = c->state;

    s->at = 0;
    s->in = s->out = (struct halay_cursor){ 0 };
    s->longest = longest;
    s->most = coll_elements(c, HALAY_ONESHOT_BYTES);
    if (rows > 1 && longest * (size_t)rows > s->most)
        s->most /= (size_t)rows;
    s->most = s->most < longest ? s->most : longest;
    oneshot_begin(c, o);
}

/* The other slot is about to be written next; its lines are fetched back, so that the write finds them here. */
static inline void oneshot_fetch_next(const struct halay_coll *c, size_t bytes)
{
    const struct oneshot *s = c->state;
    const unsigned char *slot = (const unsigned char *)&shared_mine(c)->oneshot[(s->number + 1) % HALAY_ONESHOTS];

    for (size_t at = 0; at < sizeof s->number + bytes && at < ONESHOT_FETCHED_MOST; at += HALAY_CACHE_LINE)
        halay_prefetch_write(slot + at);
}

/* Returns nonzero if all givers have written. */
static inline int oneshot_has_all(struct halay_coll *c, const struct oneshot_operation *o)
{
    struct oneshot *s = c->state;

    for (; s->arrived < c->size; s->arrived++)
        if (s->arrived != c->rank && o->gives(c, s->arrived) &&
            !shared_has_reached(&oneshot_slot(c, s->arrived)->number, s->number))
            return 0;
    if (o->all_give && c->channel->numbers.all_read < s->number - 1)
        c->channel->numbers.all_read = s->number - 1;
    return 1;
}

/* put of arrays that all have one row. */
static inline void oneshot_put_array(struct halay_coll *c, unsigned char *slot)
{
    const struct oneshot *s = c->state;

    halay_copy(slot, coll_in(c) + s->at * c->element, s->count * c->element);
}

/* take of arrays that all have one row: reduces them. This rank's own elements are read where the caller has them. Its
 * slot has the same, but has just been written: a load of another width than those stores waits until they have left
 * the store buffer, after the line that the peer reads. */
static inline void oneshot_reduce_arrays(struct halay_coll *c)
{
    struct oneshot *s = c->state;
    size_t at = s->at * c->element;
    void *out = coll_out(c) + at;

    for (int r = 0; r < c->size; r++)
        s->src[r] = oneshot_slot(c, r)->data;
    s->src[c->rank] = coll_in(c) + at;
    c->reducer->reduce[c->dtype][c->op](&out, 1, s->src, c->size, s->count, c->divisor);
}

static inline enum halay_status oneshot_progress(struct halay_coll *c, const struct oneshot_operation *o)
{
    struct oneshot *s = c->state;
    int gives = o->gives(c, c->rank);

    if (!s->has_given) {
        oneshot_give(c, o);
        if (!s->has_given)
            return HALAY_IN_PROGRESS;
        coll_advanced(c);
    }
    if (o->takes(c, c->rank)) {
        if (!oneshot_has_all(c, o))
            return HALAY_IN_PROGRESS;
        o->take(c);
    }
    shared_publish(c, &shared_mine(c)->read, s->number);
    s->at += s->count;
    coll_advanced(c);
    if (s->at < s->longest) {
        oneshot_begin(c, o);
        return HALAY_IN_PROGRESS;
    }
    if (gives)
        oneshot_fetch_next(c, s->count * c->element);
    return HALAY_OK;
}

/* Defines an algorithm after its `operation`, whose functions become parts of these; longest and rows as in
 * oneshot_start, of a collective c. */
#define ONESHOT_ALGORITHM(name, longest, rows)                                \
    static void oneshot_algorithm_start(struct halay_coll *c)                 \
    {                                                                         \
        oneshot_start(c, &operation, longest, rows);                          \
    }                                                                         \
    static enum halay_status oneshot_algorithm_progress(struct halay_coll *c) \
    {                                                                         \
        return oneshot_progress(c, &operation);                               \
    }                                                                         \
    const struct halay_algorithm_ops name = {                                 \
        .clears_state = 1,                                                    \
        .state_bytes = oneshot_state_bytes,                                   \
        .start = oneshot_algorithm_start,                                     \
        .progress = oneshot_algorithm_progress,                               \
    }

#endif
