/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of pieces for algorithms that want one array: chunks of the list are packed, run, and unpacked.
 *
 *     list     | piece 0 |  p 1 | piece 2                |     chunk k uses half k mod 2: while one half travels, the
 *     chunks   |    0    |    1    |    2    |    3   |             other is packed or unpacked
 *     half     |    0    |    1    |    0    |    1   |
 *
 * A chunk that is inside one piece, of in and of out, and is not converted is not packed: its collective runs in place.
 * Each rank decides this alone; how the others' lists are cut does not matter.
 *
 * Each half has a collective of its own inside this one, with tags, state and scratch of its own (HALAY_COLL_OWN_TAGS
 * is half of a channel's tags for this reason). All-reduce and broadcast only.
 */
#include "collectives/group/packed.h"
#include "base/memory.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include <string.h>

enum { HALVES = 2 };

struct half {
    int busy;
    int in_place; /* it is inside one piece, and is not converted */
    size_t at;    /* first element of its chunk */
    struct halay_coll inner;
};

struct state {
    size_t next;          /* chunk to be packed */
    size_t done;          /* chunks unpacked */
    size_t chunk, chunks; /* elements of one; how many */
    struct halay_cursor packing, placing, unpacking;
    struct half half[HALVES];
};

static size_t state_header(void)
{
    return halay_round_up(sizeof(struct state), HALAY_CACHE_LINE);
}

size_t halay_packed_state(int size, enum halay_sharing sharing)
{
    return state_header() + HALVES * halay_round_up(halay_algorithm_state_max(size, sharing), HALAY_CACHE_LINE);
}

/* Bytes that must be zero at the start; each half's state is cleared for each chunk, as much of it as its algorithm
 * uses. */
static size_t state_bytes(int size)
{
    (void)size;
    return state_header();
}

static size_t chunk_elements(const struct halay_coll *c)
{
    size_t most = c->chunk / c->element;

    return c->out.count < most ? c->out.count : most;
}

static size_t buffer_bytes(const struct halay_coll *c)
{
    return halay_round_up(chunk_elements(c) * c->element, HALAY_PAGE);
}

/* The collective of one chunk, on the half's buffer. */
static void make_inner(const struct halay_coll *c, int half, size_t count, struct halay_coll *inner)
{
    *inner = *c;
    inner->ops = c->algorithm->ops;
    coll_set_array(inner, c->scratch + (size_t)half * buffer_bytes(c), count);
    inner->tag |= (uint32_t)half * HALAY_COLL_OWN_TAGS;
}

static size_t inner_scratch(const struct halay_coll *c)
{
    struct halay_coll inner;

    make_inner(c, 0, chunk_elements(c), &inner);
    return inner.ops->scratch_bytes ? halay_round_up(inner.ops->scratch_bytes(&inner), HALAY_PAGE) : 0;
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return HALVES * (buffer_bytes(c) + inner_scratch(c));
}

static void packed_start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->chunk = chunk_elements(c);
    s->chunks = halay_span_cuts(c->out.count, s->chunk);
}

/* Nonzero if the chunk is in one piece on both sides: then the inner collective works on it directly. */
static int run_in_place(const struct halay_coll *c, struct half *h)
{
    struct state *s = c->state;
    size_t count = h->inner.out.count, in_length, out_length;

    if (c->in.is_converted || c->out.is_converted)
        return 0;
    void *in = halay_vector_run(&c->in, &s->packing, h->at, count, &in_length);
    void *out = halay_vector_run(&c->out, &s->placing, h->at, count, &out_length);
    if (in_length < count || out_length < count)
        return 0;
    h->inner.in_piece = (struct halay_piece){ .data = in, .count = count };
    h->inner.out_piece.data = out;
    return 1;
}

static void start_half(struct halay_coll *c, int index)
{
    struct state *s = c->state;
    struct half *h = &s->half[index];
    size_t state = halay_round_up(halay_algorithm_state_max(c->size, c->group->sharing), HALAY_CACHE_LINE);
    size_t left = c->out.count - s->next * s->chunk;

    h->at = s->next++ * s->chunk;
    make_inner(c, index, left < s->chunk ? left : s->chunk, &h->inner);
    h->inner.state = (unsigned char *)c->state + state_header() + (size_t)index * state;
    coll_clear_state(&h->inner); /* the half may have been used before */
    h->inner.scratch = c->scratch + HALVES * buffer_bytes(c) + (size_t)index * inner_scratch(c);
    size_t count = h->inner.out.count;
    h->in_place = run_in_place(c, h);
    if (h->in_place)
        h->inner.in.pieces = &h->inner.in_piece;
    else if (c->operation != HALAY_COLL_BROADCAST || c->rank == c->root)
        halay_vector_pack(&c->in, &s->packing, h->at, count, h->inner.out_piece.data);
    h->busy = 1;
    h->inner.ops->start(&h->inner);
    coll_advanced(c);
}

static enum halay_status drive_half(struct halay_coll *c, struct half *h)
{
    struct state *s = c->state;
    enum halay_status status = h->inner.ops->progress(&h->inner);

    if (status != HALAY_OK)
        return status;
    if (!h->in_place && (c->operation != HALAY_COLL_BROADCAST || c->rank != c->root))
        halay_vector_unpack(&c->out, &s->unpacking, h->at, h->inner.out.count, h->inner.out_piece.data);
    h->busy = 0;
    s->done++;
    coll_advanced(c);
    return HALAY_OK;
}

static enum halay_status packed_progress(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->next < s->chunks && !s->half[s->next % HALVES].busy)
        start_half(c, (int)(s->next % HALVES));
    for (int i = 0; i < HALVES; i++) {
        enum halay_status status = s->half[i].busy ? drive_half(c, &s->half[i]) : HALAY_OK;
        if (status != HALAY_OK && status != HALAY_IN_PROGRESS)
            return status;
    }
    return s->done == s->chunks ? HALAY_OK : HALAY_IN_PROGRESS;
}

static void packed_cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int i = 0; i < HALVES; i++)
        if (s->half[i].busy && s->half[i].inner.ops->cancel)
            s->half[i].inner.ops->cancel(&s->half[i].inner);
}

const struct halay_algorithm_ops halay_packed = {
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = packed_start,
    .progress = packed_progress,
    .cancel = packed_cancel,
};
