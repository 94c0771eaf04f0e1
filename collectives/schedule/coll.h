/* SPDX-License-Identifier: Apache-2.0
 *
 * Collective, inside view: what an algorithm is given and what it must provide. The list of algorithms is
 * algorithms.def; drive.c drives them; CONTRIBUTING.md has how to add one.
 */
#ifndef HALAY_COLLECTIVE_H
#define HALAY_COLLECTIVE_H

#include "collectives/reduce/reduce.h"
#include "collectives/schedule/span.h"
#include "collectives/schedule/vector.h"
#include "collectives/transport/route.h"
#include <assert.h>
#include <string.h>

enum halay_coll_kind {
    HALAY_COLL_ALLREDUCE,
    HALAY_COLL_ALLREDUCE_ADASUM, /* the reduction of that name, which no other algorithm can do */
    HALAY_COLL_REDUCE,
    HALAY_COLL_REDUCE_SCATTER,
    HALAY_COLL_BROADCAST,
    HALAY_COLL_ALLGATHER,
    HALAY_COLL_ALLTOALL,
    HALAY_COLL_BARRIER,
    HALAY_COLL_COUNT
};

/* An all-to-all of one rank with all, which the program knows by another name. */
enum halay_coll_form { HALAY_FORM_PLAIN, HALAY_FORM_GATHER, HALAY_FORM_SCATTER };

enum halay_algorithm_flags {
    HALAY_ALGORITHM_SHARED = 1, /* needs memory that all ranks share; moves data by load and store, not by messages */
    HALAY_ALGORITHM_TREE = 2,   /* sums along the tree over ranks: bits independent of count, pieces and algorithm */
    HALAY_ALGORITHM_WIDE = 4,   /* f16 and bf16 are rounded once */
    HALAY_ALGORITHM_PIECES = 8, /* takes a list of pieces as it is; the others are given one array */
    HALAY_ALGORITHM_NODES = 16, /* needs several nodes that share memory inside: by messages between them */
};

/* The memory that the ranks of a group share. */
enum halay_sharing {
    HALAY_SHARES_NONE,
    HALAY_SHARES_NODES, /* there are several nodes, and those of one node share it (group/nodes.h) */
    HALAY_SHARES_ALL,   /* all of them, and messages between them go through it too */
};

/* Terms of the formulas of algorithms.def; the letters are explained there. From a on: seconds. */
#define HALAY_COST_TERMS(X) \
    X(N) X(S) X(H) X(K) X(P) X(W) X(L) X(Q) X(T) X(D) X(F) X(J) X(a) X(o) X(b) X(g) X(x) X(m) X(I)
struct halay_cost_terms {
#define HALAY_COST_TERM(name) double name;
    HALAY_COST_TERMS(HALAY_COST_TERM)
#undef HALAY_COST_TERM
};

struct halay_algorithm {
    enum halay_coll_kind operation;
    const char *name;
    const char *file; /* collectives/<file>.c */
    const struct halay_algorithm_ops *ops;
    unsigned flags;
    const char *what; /* for docs/reference/algorithms.md */
    const char *cost; /* the formula's text, for docs/reference/algorithms.md */
    double (*seconds)(const struct halay_cost_terms *terms);
};

struct halay_channel;
struct halay_detour; /* group/detour.h */

/* One collective under way. The channel owns it and everything it points to except the user's data. */
struct halay_coll {
    struct halay_group *group;
    struct halay_channel *channel;
    const struct halay_route *route; /* borrowed from the world */
    const int *members; /* borrowed: [rank] those that take part, as the job's ranks; NULL: all of these in order */
    int rank, size;     /* among them; in an inner collective not the group's */
    const struct halay_reducer *reducer;
    const struct halay_algorithm *algorithm; /* what was chosen; NULL: nothing has to be moved */
    const struct halay_algorithm_ops *ops;   /* what is driven: the algorithm's, or packed.c's around it */
    enum halay_status status;
    enum halay_coll_kind operation;
    uint64_t number; /* in the group: 0, 1, 2, ..., the same on every rank */
    /* Set by the driver. work: borrowed, coll_advanced counts there. take_back cancels a posted transfer; while the
     * group lists what it waits for, it only notes the transfer. */
    unsigned long *work;
    void (*take_back)(struct halay_coll *c, struct halay_transfer *x);

    enum halay_dtype dtype;
    enum halay_reduction op;
    int divisor;     /* average: the number of ranks; else 1 */
    int chunk_shift; /* of slot and chunk: 2^n times what the table has; as the group had it when this was taken */
    int root;
    size_t element; /* bytes, of what is reduced; in memory it may be of another type: vector.h */
    /* All-gather: in is this rank's block, out all blocks. Reduce-scatter: in all blocks, out this rank's. Reduce: out
     * is empty but on the root. Broadcast: both are buf. */
    struct halay_vector in, out;
    /* The start of each rank's block in the long array, and the end (size + 1): all-gather: in out; reduce-scatter: in
     * in; all-to-all: in out (starts: from which) and in in (in_starts: for which). The channel's. */
    const size_t *starts, *in_starts;
    enum halay_coll_form form;
    const size_t *rooted; /* gather, scatter: starts as all ranks know them, of the root's long array */
    /* Adasum: elements of each of `tensors` tensors, borrowed to the end; NULL: each piece is one. */
    const size_t *counts;
    size_t tensors;
    int has_counts; /* the caller gave a list of them */
    int is_list;    /* of pieces, perhaps one only here: how many each rank has is its own affair */
    size_t slot;    /* bytes of private data that go through shared memory at a time, alike on all ranks: shared.h */
    size_t chunk;   /* bytes of a list that are packed at a time, alike on all ranks: packed.c */
    size_t bytes;   /* what every rank knows alike about its amount, for the choice; 0: there is nothing to move */
    struct halay_piece in_piece, out_piece; /* what in and out point to where the data are arrays */
    struct halay_detour *detour; /* borrowed to the end: the data are on a device; NULL: in and out are the program's */

    uint64_t tag;           /* group, channel and, for the two halves of packed.c, which one */
    void *state;            /* the algorithm's: state_bytes, zeroed before start but for clears_state */
    unsigned char *scratch; /* scratch_bytes, aligned to a cache line, contents undefined */
};

/*
 * An algorithm. Buffers, state and scratch stay where they are from start to the end. An algorithm whose flags lack
 * PIECES sees vectors of one piece that is not converted (coll_in, coll_out). There are at least two ranks and, but for
 * a barrier, elements.
 *
 * It may run inside another one, over some of the ranks: its ranks are c->rank and c->size, never the group's. Its own
 * tags stay below halay_algorithm_tags_max (tests/coll/test_tags.c). It posts a receive before it sends what lets the
 * peer answer: a message that arrives before its receive is copied, and over tcp and ucx allocated for.
 *
 * The inputs of all ranks stay intact until every rank has entered: until then an algorithm writes nothing over an
 * input, not in place either, and nothing into another rank's memory; partial sums belong in scratch. So a collective
 * that not all have entered can be withdrawn and begun again (group.h: halay_coll_withdraw; tests/coll/withdrawals.c).
 */
struct halay_algorithm_ops {
    uint32_t tags;                         /* it sends under own tags below this; 0: it sends no messages */
    const struct halay_schedule *schedule; /* what messages/steps.c runs: step.h; NULL: an algorithm in code */
    int ranks_max;    /* more ranks use it only where no other algorithm sums along the tree; 0: any number */
    int clears_state; /* start clears what it uses of the state; 0: it is given all of it zeroed */
    size_t (*state_bytes)(int size); /* for that many ranks; no more than a fixed part and a part a rank */
    size_t (*scratch_bytes)(const struct halay_coll *c); /* NULL: none */
    /* Post the first transfers or publish the arrival. Never blocks. */
    void (*start)(struct halay_coll *c);
    /* Do what can be done without waiting, a bounded piece of it: HALAY_IN_PROGRESS, HALAY_OK, or an error (then cancel
     * is called and the group is closed; only HALAY_ERR_MISMATCH, which all ranks return alike, ends the collective
     * alone). Calls coll_advanced whenever it got further, so that a waiter knows whether it may sleep. The transport's
     * own progress has been called by the driver. */
    enum halay_status (*progress)(struct halay_coll *c);
    /* Calls coll_take_back for what is posted, and does nothing else; at any time, and more than once. NULL: nothing is
     * ever posted. */
    void (*cancel)(struct halay_coll *c);
};

static inline const unsigned char *coll_in(const struct halay_coll *c)
{
    return c->in.pieces[0].data;
}

static inline unsigned char *coll_out(const struct halay_coll *c)
{
    return c->out.pieces[0].data;
}

/* Makes in and out of an inner collective the same array, of its type. */
static inline void coll_set_array(struct halay_coll *inner, void *data, size_t count)
{
    inner->out_piece = (struct halay_piece){ .data = data, .count = count };
    inner->out = (struct halay_vector){
        .pieces = &inner->out_piece, .piece_count = 1, .count = count, .element = inner->element
    };
    inner->in = inner->out;
}

/* Returns the elements of a rank's block, where each has one. */
static inline size_t coll_block_length(const struct halay_coll *c, int rank)
{
    return c->starts[rank + 1] - c->starts[rank];
}

static inline struct halay_span coll_block_span(const struct halay_coll *c, int rank)
{
    return (struct halay_span){ .start = c->starts[rank], .length = coll_block_length(c, rank) };
}

static inline size_t coll_longest_block(const struct halay_coll *c)
{
    size_t longest = 0;

    for (int r = 0; r < c->size; r++)
        longest = coll_block_length(c, r) > longest ? coll_block_length(c, r) : longest;
    return longest;
}

/* Returns the elements in this number of bytes, rounded down: sizes of elements are powers of two. */
static inline size_t coll_elements(const struct halay_coll *c, size_t bytes)
{
    return bytes >> __builtin_ctzl(c->element);
}

/* Returns nonzero if the result goes where the input is, as it is. */
static inline int coll_is_in_place(const struct halay_coll *c)
{
    if (c->in.is_converted || c->out.is_converted)
        return 0;
    return c->in.pieces == c->out.pieces || (!c->is_list && coll_in(c) == coll_out(c));
}

/* Makes the driver of this group look again before it sleeps: something happened. */
static inline void coll_advanced(struct halay_coll *c)
{
    ++*c->work;
}

/* Own tags that an algorithm may have, and one that may run inside another (allreduce_hierarchical.c): an all-reduce by
 * messages. Messages of one that took more would be matched with those of another strip. */
enum { HALAY_COLL_OWN_TAGS = 1 << (HALAY_TAG_BITS - 1), HALAY_COLL_INNER_TAGS = 1 << 7 };

/* Sends or receives under this collective's tags (own < ops->tags); zero bytes are skipped on both sides. */

static inline void coll_send(struct halay_coll *c, int peer, uint32_t own, const void *buf, size_t bytes,
                             struct halay_transfer *x)
{
    assert(own < c->ops->tags);
    if (bytes)
        halay_route_send(c->route, c->members ? c->members[peer] : peer, c->tag | own, buf, bytes, x);
}

static inline void coll_recv(struct halay_coll *c, int peer, uint32_t own, void *buf, size_t bytes,
                             struct halay_transfer *x)
{
    assert(own < c->ops->tags);
    if (bytes)
        halay_route_recv(c->route, c->members ? c->members[peer] : peer, c->tag | own, buf, bytes, x);
}

/* Returns nonzero if it is not under way: never posted, skipped, or done. */
static inline int coll_is_settled(struct halay_transfer *x)
{
    return __atomic_load_n((enum halay_transfer_state *)&x->state, __ATOMIC_ACQUIRE) != HALAY_TRANSFER_POSTED;
}

/* Takes back what is posted. */
static inline void coll_take_back(struct halay_coll *c, struct halay_transfer *x)
{
    if (!coll_is_settled(x))
        c->take_back(c, x);
}

static inline void coll_clear_state(struct halay_coll *c)
{
    if (!c->ops->clears_state)
        memset(c->state, 0, c->ops->state_bytes(c->size));
}

/* Reduces into one place: dst = a op b, lower rank first. last: this is the final combination (average divides). */
static inline void coll_reduce2(const struct halay_coll *c, void *dst, const void *a, const void *b, size_t count,
                                int last)
{
    const void *src[2] = { a, b };

    c->reducer->reduce[c->dtype][c->op](&dst, 1, src, 2, count, last ? c->divisor : 1);
}

#endif
