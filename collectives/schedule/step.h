/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps: an algorithm by messages as data. A pure function lists what one rank does, without knowing bytes, memory or
 * transports; messages/steps.c runs it, and tests/coll/test_schedules.c proves it for any number of ranks.
 *
 * The vector is cut into blocks, and what a step moves is a span of blocks:
 *
 *     GIVE         send a span of the input, of the output or of a buffer to a peer
 *     PLACE        receive a span into the output (or into a buffer, for later)
 *     ADD_LEFT     receive a span into a buffer, and add this rank's own operand to it there;
 *     ADD_RIGHT    received: the left (lower) or the right operand
 *
 * Partial sums stay in buffers. Only a total (is_last), or what a peer sent as one, goes to the output. So in place the
 * input is unchanged until every rank has entered the collective.
 *
 * A step starts as soon as no earlier step in a window of HALAY_STEP_WINDOW holds it: receives are posted
 * ahead, and sends do not wait for each other. Messages between two ranks with one tag match in the order of the steps.
 */
#ifndef HALAY_STEP_H
#define HALAY_STEP_H

#include "collectives/schedule/coll.h"
#include <stdint.h>

enum halay_step_what { HALAY_GIVE, HALAY_PLACE, HALAY_ADD_LEFT, HALAY_ADD_RIGHT };

/* Places of data: the user's arrays; from 0 on a receive buffer. */
enum { HALAY_STEP_IN = -1, HALAY_STEP_OUT = -2, HALAY_STEP_BUFFERS = 40, HALAY_STEP_TOKEN = -1 };

enum { HALAY_STEP_TAGS = 32, HALAY_STEP_LANES = 4, HALAY_STEP_WINDOW = 16 };

struct halay_step {
    unsigned char what; /* enum halay_step_what */
    unsigned char tag;  /* < HALAY_STEP_TAGS; the peer's step has the same */
    signed char buffer; /* GIVE: from where; otherwise: into which; ADD leaves the sum there */
    signed char own;    /* ADD: the other operand: IN or a buffer, which may hold a larger span */
    unsigned char
        is_raw; /* received: one rank's input as it is, or a total; otherwise a partial sum, which may be wide */
    unsigned char is_last; /* received or added: a total, which goes to the output */
    int peer;              /* this rank: nothing is received. PLACE copies the input, ADD takes what the buffer holds */
    int block, blocks;     /* the span; no blocks: nothing is moved; block HALAY_STEP_TOKEN: one byte without meaning */
};

/* Identifies one program of an algorithm. */
struct halay_place {
    int ranks, rank, root;
    enum halay_coll_kind operation;
    int is_in_place; /* IN is where OUT is */
    int is_first;    /* the program of the first chunk */
    int bits;        /* the schedule's */
};

/* How a vector becomes what one lane works on at a time. Where each rank has a block of its own length, the blocks are
 * those. */
enum halay_cut {
    HALAY_CUT_BLOCKS, /* blocks, and each of them into chunks: the same chunk of every block; spans of one */
    HALAY_CUT_WHOLE,  /* blocks, and all of each at once: any span */
    HALAY_CUT_CHUNKS, /* chunks, and each of them into blocks: any span */
};

#define HALAY_STEP_WHOLE_CHUNKS SIZE_MAX    /* `least`: chunks are as long as they may be */
#define HALAY_STEP_LEAST ((size_t)64 << 10) /* below this, more messages cost more than their overlap gains */

struct halay_schedule {
    /* Step number `index` of that place. Returns 0 past the end. */
    int (*steps)(const struct halay_place *place, int index, struct halay_step *out);
    /* Returns the number of blocks that buffer number `index` holds; 0 past the last one. NULL: no buffers. */
    int (*buffer)(const struct halay_place *place, int index);
    int (*blocks)(int ranks); /* of the vector or a chunk; NULL: one for each rank */
    enum halay_cut cut;
    int lanes;      /* chunks under way, at most HALAY_STEP_LANES */
    size_t least;   /* bytes of a chunk, if the vector is short */
    int multiple;   /* a chunk has at most this multiple of the configured bytes */
    int bits;       /* of a tree of radix 2^bits (messages/knomial.h) */
    int has_tokens; /* tokens of all ranks come first, in the first chunk; no total goes to the output before */
};

/* Fills in a step and returns 1. */
static inline int halay_step_give(struct halay_step *out, int peer, int tag, int from, int block, int blocks)
{
    *out = (struct halay_step){ .what = HALAY_GIVE,
                                .tag = (unsigned char)(tag % HALAY_STEP_TAGS),
                                .buffer = (signed char)from,
                                .own = HALAY_STEP_IN,
                                .peer = peer,
                                .block = block,
                                .blocks = blocks };
    return 1;
}

static inline int halay_step_take(struct halay_step *out, enum halay_step_what what, int peer, int tag, int into,
                                  int block, int blocks)
{
    halay_step_give(out, peer, tag, into, block, blocks);
    out->what = (unsigned char)what;
    return 1;
}

/* The buffer of the sum after some rounds, where each round has one. */
static inline signed char halay_step_sum(int rounds)
{
    return (signed char)(rounds ? rounds - 1 : HALAY_STEP_IN);
}

/* Fills in a step that adds to the sum after some rounds, into the next buffer. */
static inline void halay_step_add(struct halay_step *out, enum halay_step_what what, int peer, int tag, int rounds,
                                  int block, int blocks)
{
    halay_step_take(out, what, peer, tag, rounds, block, blocks);
    out->own = halay_step_sum(rounds);
}

/* Fills in round `round` of tokens to the rank 2^round further on; after the last one all ranks have entered. */
static inline int halay_step_token(const struct halay_place *at, int round, int takes, struct halay_step *out)
{
    int n = at->ranks, distance = (1 << round) % n;

    if (takes)
        return halay_step_take(out, HALAY_PLACE, (at->rank + n - distance) % n, round, HALAY_STEP_OUT, HALAY_STEP_TOKEN,
                               0);
    return halay_step_give(out, (at->rank + distance) % n, round, HALAY_STEP_IN, HALAY_STEP_TOKEN, 0);
}

static inline int halay_one_block(int ranks)
{
    (void)ranks;
    return 1;
}

static inline int halay_step_adds(const struct halay_step *s)
{
    return s->what >= HALAY_ADD_LEFT;
}

static inline int halay_step_reads(const struct halay_step *s, int buffer)
{
    return s->what == HALAY_GIVE ? s->buffer == buffer : halay_step_adds(s) && s->own == buffer;
}

static inline int halay_step_writes(const struct halay_step *s, int buffer)
{
    return s->what != HALAY_GIVE && (s->buffer == buffer || (s->is_last && buffer == HALAY_STEP_OUT));
}

static inline int halay_step_has_message(const struct halay_step *s, int rank)
{
    return s->peer != rank;
}

/* A token is given when all earlier ones have been received. */
static inline int halay_step_takes_token(const struct halay_step *s)
{
    return s->block == HALAY_STEP_TOKEN && s->what != HALAY_GIVE;
}

/* Returns nonzero if both concern the same data there. A buffer is taken as a whole. */
static inline int halay_step_meets(const struct halay_step *a, const struct halay_step *b, int buffer)
{
    return buffer >= 0 || (a->block < b->block + b->blocks && b->block < a->block + a->blocks);
}

/* Makes IN the same as OUT, as it is in place: for the two functions below. */
static inline void halay_step_merge(struct halay_step *s)
{
    if (s->what == HALAY_GIVE && s->buffer == HALAY_STEP_IN)
        s->buffer = HALAY_STEP_OUT;
    if (halay_step_adds(s) && s->own == HALAY_STEP_IN)
        s->own = HALAY_STEP_OUT;
}

/* Returns nonzero if the message of a step has to wait for an earlier step that is not done. */
static inline int halay_step_holds_post(const struct halay_step *earlier, int is_posted, const struct halay_step *s)
{
    if (!is_posted && earlier->peer == s->peer && earlier->tag == s->tag &&
        (earlier->what == HALAY_GIVE) == (s->what == HALAY_GIVE))
        return 1;
    if (s->block == HALAY_STEP_TOKEN || earlier->block == HALAY_STEP_TOKEN)
        return s->block == HALAY_STEP_TOKEN && s->what == HALAY_GIVE && halay_step_takes_token(earlier);
    if (!halay_step_meets(earlier, s, s->buffer))
        return 0;
    return halay_step_writes(earlier, s->buffer) || (s->what != HALAY_GIVE && halay_step_reads(earlier, s->buffer));
}

/* Returns nonzero if what was received has to wait for an earlier step that is not done before it is added or stored.
 * */
static inline int halay_step_holds_result(const struct halay_step *earlier, const struct halay_step *s)
{
    if (halay_step_adds(s) && halay_step_writes(earlier, s->own) && halay_step_meets(earlier, s, s->own))
        return 1;
    return s->is_last && halay_step_meets(earlier, s, HALAY_STEP_OUT) &&
           (halay_step_reads(earlier, HALAY_STEP_OUT) || halay_step_writes(earlier, HALAY_STEP_OUT));
}

#endif
