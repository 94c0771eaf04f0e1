/* SPDX-License-Identifier: Apache-2.0
 *
 * Adasum all-reduce: pairs of vectors are joined along the tree over ranks; of each, the part that repeats the other is
 * left out.
 *
 *     a (+) b = (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b       for each tensor of the vector by itself
 *
 * Orthogonal vectors are added, equal ones averaged. The tree is the one of the sums (reduce.h), for any number of
 * ranks:
 *     3: (0 (+) 1) (+) 2     5: ((0 (+) 1) (+) (2 (+) 3)) (+) 4
 *
 * Each block of the data has an owner, who holds it of all ranks. What an owner cannot know alone is the dot products;
 * so each level of the tree is: those of the own block, a small all-reduce, join.
 *
 *     four ranks, blocks 0 1 2 3
 *
 *     to the owners      A has 0A 0B 0C 0D, B has 1A 1B 1C 1D, ...
 *     level 1            three numbers for A, B and for C, D: a.b |a|^2 |b|^2 of the own block, all-reduced (recursive
 *                        doubling, in f64); then 0A = 0A (+) 0B, 0C = 0C (+) 0D
 *     level 2            the same for what is now A, C; then 0A = 0A (+) 0C
 *     to all             the owner's block, rounded
 *
 * Dot products are summed in f64. f32, f16 and bf16 vectors are joined in f64 and kept as f32 from level to level; f16
 * and bf16 are rounded once, at the end. Each block is computed once, so all ranks get the same bits. Where the blocks
 * and tensors begin changes how a dot product is summed, and so its last bits: this is not a tree algorithm in the
 * sense of HALAY_DETERMINISTIC=ranks.
 *
 * Work goes in steps of STEP elements, a step a call of progress. A list of pieces is packed into one array first; each
 * piece is a tensor.
 *
 * Cost: 2 S (N - 1) / N bytes sent and received by each rank, all pairs at once, and for each of the ceil(log2(N))
 * levels an all-reduce of 24 bytes a tensor and pair. S bytes of memory and that table; f16 and bf16 3 S; a list of
 * pieces S more. Any number of ranks, any count, in and out of place.
 *
 * Source: Maleki et al., "Scaling distributed training with adaptive summation", MLSys 2021.
 */
#include "base/memory.h"
#include "collectives/choose/algorithms.h"
#include "collectives/group/channel.h"
#include <string.h>

enum { STEP = 1 << 16, BLOCK = 64, RESULT }; /* tags above those of the inner all-reduce */

enum phase { PACKING, SCATTERING, WIDENING, MULTIPLYING, SUMMING, JOINING, ROUNDING, GATHERING, UNPACKING, DONE };

struct peer {
    struct halay_transfer send, recv;
};

struct state {
    enum phase phase;
    int distance;   /* of the ranks whose vectors are joined on this level */
    int pair;       /* which of this level */
    size_t at;      /* elements of the block, or of the array, that this phase has done */
    size_t tensor;  /* the tensor there */
    size_t ends_at; /* where that one ends in the whole data */
    size_t tensors;
    enum halay_dtype wide;
    struct halay_span block; /* this rank's */
    unsigned char *packed;   /* a list of pieces as one array; NULL: the data are one */
    unsigned char *arriving; /* each rank's block as it arrives, if it is converted then */
    unsigned char *vectors;  /* each rank's block; the vector of a subtree is where its first rank's was */
    double *table;           /* three numbers for each pair and tensor */
    unsigned char *inner_scratch;
    struct halay_cursor cursor;
    struct peer *peer;       /* in scratch: size */
    struct halay_coll inner; /* the all-reduce of the table; its state follows */
};

static const struct halay_algorithm_ops *inner_ops(void)
{
    return halay_algorithm_find(HALAY_COLL_ALLREDUCE, "recursive-doubling")->ops;
}

static size_t inner_state_offset(void)
{
    return halay_round_up(sizeof(struct state), HALAY_CACHE_LINE);
}

static size_t state_bytes(int size)
{
    return inner_state_offset() + inner_ops()->state_bytes(size);
}

/* ---- what there is: tensors, blocks, memory ---- */

static size_t tensor_count(const struct halay_coll *c)
{
    return c->counts ? c->tensors : c->out.piece_count;
}

static size_t tensor_length(const struct halay_coll *c, size_t tensor)
{
    return c->counts ? c->counts[tensor] : c->out.pieces[tensor].count;
}

static struct halay_span block_of(const struct halay_coll *c, int rank)
{
    return halay_aligned_span(c->out.count, c->size, rank, HALAY_CACHE_LINE / c->element);
}

static int is_half(const struct halay_coll *c)
{
    return c->reducer->widen[c->dtype] != NULL;
}

static size_t wide_bytes(const struct halay_coll *c)
{
    return is_half(c) ? sizeof(float) : c->element;
}

/* The first level has the most pairs. */
static size_t table_length(const struct halay_coll *c)
{
    return 3 * tensor_count(c) * (size_t)(c->size / 2);
}

static void make_inner(const struct halay_coll *c, double *table, size_t length, struct halay_coll *inner)
{
    *inner = *c;
    inner->ops = inner_ops();
    inner->dtype = HALAY_F64;
    inner->op = HALAY_SUM;
    inner->element = sizeof(double);
    coll_set_array(inner, table, length);
}

/* Parts of scratch, in this order. */
struct layout {
    size_t peers, packed, arriving, vectors, table, inner;
};

static int is_packed(const struct halay_coll *c)
{
    return c->out.piece_count > 1 || c->in.is_converted || c->out.is_converted;
}

static struct layout layout_of(const struct halay_coll *c)
{
    size_t longest = block_of(c, 0).length, n = (size_t)c->size, line = HALAY_CACHE_LINE;
    struct halay_coll inner;

    make_inner(c, NULL, table_length(c), &inner);
    return (struct layout){
        .peers = halay_round_up(n * sizeof(struct peer), line),
        .packed = is_packed(c) ? halay_round_up(c->out.count * c->element, line) : 0,
        .arriving = is_half(c) ? n * halay_round_up(longest * c->element, line) : 0,
        .vectors = n * halay_round_up(longest * wide_bytes(c), line),
        .table = halay_round_up(table_length(c) * sizeof(double), line),
        .inner = inner.ops->scratch_bytes(&inner),
    };
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    struct layout l = layout_of(c);

    return l.peers + l.packed + l.arriving + l.vectors + l.table + l.inner;
}

static unsigned char *vector_of(const struct halay_coll *c, int rank)
{
    const struct state *s = c->state;

    return s->vectors + (size_t)rank * halay_round_up(block_of(c, 0).length * wide_bytes(c), HALAY_CACHE_LINE);
}

/* Returns where a rank's block arrives. */
static unsigned char *arriving_at(const struct halay_coll *c, int rank)
{
    const struct state *s = c->state;

    if (!is_half(c))
        return vector_of(c, rank);
    return s->arriving + (size_t)rank * halay_round_up(block_of(c, 0).length * c->element, HALAY_CACHE_LINE);
}

static const unsigned char *input_of(const struct halay_coll *c)
{
    const struct state *s = c->state;

    return s->packed ? s->packed : coll_in(c);
}

static unsigned char *result_of(const struct halay_coll *c)
{
    const struct state *s = c->state;

    return s->packed ? s->packed : coll_out(c);
}

/* ---- phases ---- */

/* Goes back to the first element of the block, or of the data. */
static void rewind_to(struct state *s, const struct halay_coll *c)
{
    s->at = 0;
    s->tensor = 0;
    s->ends_at = tensor_length(c, 0);
    s->cursor = (struct halay_cursor){ 0 };
}

static void enter_phase(struct halay_coll *c, enum phase phase)
{
    struct state *s = c->state;

    s->phase = phase;
    s->pair = 0;
    rewind_to(s, c);
}

static size_t at_most_step(size_t count)
{
    return count < STEP ? count : STEP;
}

static void adasum_start(struct halay_coll *c)
{
    struct state *s = c->state;
    struct layout l = layout_of(c);

    s->tensors = tensor_count(c);
    s->wide = is_half(c) ? HALAY_F32 : c->dtype;
    s->block = block_of(c, c->rank);
    s->peer = (struct peer *)(void *)c->scratch;
    memset(s->peer, 0, (size_t)c->size * sizeof *s->peer);
    s->packed = l.packed ? c->scratch + l.peers : NULL;
    s->arriving = c->scratch + l.peers + l.packed;
    s->vectors = s->arriving + l.arriving;
    s->table = (double *)(void *)(s->vectors + l.vectors);
    s->inner_scratch = (unsigned char *)s->table + l.table;
    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            coll_recv(c, r, BLOCK, arriving_at(c, r), s->block.length * c->element, &s->peer[r].recv);
    enter_phase(c, PACKING);
}

static void pack_some(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->packed && s->at < c->out.count) {
        size_t n = at_most_step(c->out.count - s->at);
        halay_vector_pack(&c->in, &s->cursor, s->at, n, s->packed + s->at * c->element);
        s->at += n;
        return;
    }
    for (int d = 1; d < c->size; d++) {
        int r = (c->rank + d) % c->size; /* so that not every rank begins with rank 0 */
        struct halay_span theirs = block_of(c, r);
        coll_send(c, r, BLOCK, input_of(c) + theirs.start * c->element, theirs.length * c->element, &s->peer[r].send);
    }
    enter_phase(c, SCATTERING);
}

static int all_settled(const struct halay_coll *c)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++)
        if (!coll_is_settled(&s->peer[r].send) || !coll_is_settled(&s->peer[r].recv))
            return 0;
    return 1;
}

/* Ranks whose number is a multiple of 2 distance hold a vector, and join the one at that distance, if there is one. */
static int level_pairs(const struct halay_coll *c)
{
    const struct state *s = c->state;

    return (c->size + s->distance - 1) / (2 * s->distance);
}

/* Begins the level of that distance, or ends them. */
static void begin_level(struct halay_coll *c, int distance)
{
    struct state *s = c->state;

    s->distance = distance;
    if (distance < c->size)
        memset(s->table, 0, 3 * s->tensors * (size_t)level_pairs(c) * sizeof *s->table);
    enter_phase(c, distance < c->size ? MULTIPLYING : ROUNDING);
}

/* Converts what has arrived to f32; if no conversion is needed only this rank's own block remains to be copied. Here
 * `pair` counts ranks. */
static void widen_some(struct halay_coll *c)
{
    struct state *s = c->state;
    int is_own = s->pair == c->rank;
    const unsigned char *from = is_own ? input_of(c) + s->block.start * c->element : arriving_at(c, s->pair);
    size_t n = at_most_step(s->block.length - s->at);
    unsigned char *to = vector_of(c, s->pair) + s->at * wide_bytes(c);

    from += s->at * c->element;
    if (is_half(c))
        c->reducer->widen[c->dtype]((float *)(void *)to, from, n);
    else if (is_own)
        memcpy(to, from, n * c->element);
    s->at += n;
    if (s->at < s->block.length)
        return;
    s->at = 0;
    if (++s->pair == c->size)
        begin_level(c, 1);
}

/* Returns the elements of the next run of the block that is within one tensor, which becomes s->tensor. Not at the
 * end of the block. */
static size_t next_run(const struct halay_coll *c)
{
    struct state *s = c->state;
    size_t place = s->block.start + s->at, left = s->block.length - s->at;

    while (place >= s->ends_at)
        s->ends_at += tensor_length(c, ++s->tensor);
    left = s->ends_at - place < left ? s->ends_at - place : left;
    return at_most_step(left);
}

/* Returns the factor of a vector: the part that the other does not repeat is kept, and half of the part that it does.
 * */
static double factor_of(double product, double square)
{
    return square == 0 ? 1 : 1 - product / square / 2;
}

static void handle_run(struct halay_coll *c, size_t count)
{
    struct state *s = c->state;
    int lower = 2 * s->distance * s->pair;
    size_t offset = s->at * wide_bytes(c);
    void *a = vector_of(c, lower) + offset;
    const void *b = vector_of(c, lower + s->distance) + offset;
    double *three = s->table + 3 * ((size_t)s->pair * s->tensors + s->tensor);

    if (s->phase == MULTIPLYING)
        c->reducer->dots[s->wide](a, b, count, three);
    else
        c->reducer->join[s->wide](a, b, count, factor_of(three[0], three[1]), factor_of(three[0], three[2]));
}

/* Handles some runs of some pairs. Returns nonzero when none is left on this level. */
static int walk_pairs(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t budget = STEP;

    while (budget && s->at < s->block.length) {
        size_t n = next_run(c);
        n = n < budget ? n : budget;
        handle_run(c, n);
        s->at += n;
        budget -= n;
    }
    if (s->at < s->block.length)
        return 0;
    rewind_to(s, c);
    return ++s->pair == level_pairs(c);
}

static void begin_sums(struct halay_coll *c)
{
    struct state *s = c->state;

    make_inner(c, s->table, 3 * s->tensors * (size_t)level_pairs(c), &s->inner);
    s->inner.state = (unsigned char *)c->state + inner_state_offset();
    s->inner.scratch = s->inner_scratch;
    coll_clear_state(&s->inner);
    enter_phase(c, SUMMING);
    s->inner.ops->start(&s->inner);
}

static void round_some(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t n = at_most_step(s->block.length - s->at);
    const void *from = vector_of(c, 0) + s->at * wide_bytes(c);
    void *to = result_of(c) + (s->block.start + s->at) * c->element;

    if (is_half(c))
        c->reducer->narrow[c->dtype](to, from, n);
    else
        c->reducer->reduce[c->dtype][HALAY_SUM](&to, 1, &from, 1, n, 1); /* makes a NaN canonical */
    s->at += n;
    if (s->at < s->block.length)
        return;
    for (int d = 1; d < c->size; d++) {
        int r = (c->rank + d) % c->size;
        struct halay_span theirs = block_of(c, r);
        coll_recv(c, r, RESULT, result_of(c) + theirs.start * c->element, theirs.length * c->element, &s->peer[r].recv);
        coll_send(c, r, RESULT, result_of(c) + s->block.start * c->element, s->block.length * c->element,
                  &s->peer[r].send);
    }
    enter_phase(c, GATHERING);
}

static void unpack_some(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t n = at_most_step(c->out.count - s->at);

    if (s->packed)
        halay_vector_unpack(&c->out, &s->cursor, s->at, n, s->packed + s->at * c->element);
    s->at += n;
    if (!s->packed || s->at == c->out.count)
        enter_phase(c, DONE);
}

static enum halay_status adasum_progress(struct halay_coll *c)
{
    struct state *s = c->state;

    if ((s->phase == SCATTERING || s->phase == GATHERING) && !all_settled(c))
        return HALAY_IN_PROGRESS;
    if (s->phase == SUMMING) {
        enum halay_status status = s->inner.ops->progress(&s->inner);
        if (status == HALAY_OK)
            enter_phase(c, JOINING);
        return status == HALAY_OK ? HALAY_IN_PROGRESS : status;
    }
    coll_advanced(c);
    switch (s->phase) {
    case PACKING:
        pack_some(c);
        break;
    case SCATTERING:
        enter_phase(c, WIDENING);
        break;
    case WIDENING:
        widen_some(c);
        break;
    case MULTIPLYING:
        if (walk_pairs(c))
            begin_sums(c);
        break;
    case JOINING:
        if (walk_pairs(c))
            begin_level(c, 2 * s->distance);
        break;
    case ROUNDING:
        round_some(c);
        break;
    case GATHERING:
        enter_phase(c, UNPACKING);
        break;
    case UNPACKING:
        unpack_some(c);
        break;
    default:
        break;
    }
    return s->phase == DONE ? HALAY_OK : HALAY_IN_PROGRESS;
}

static void adasum_cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int r = 0; r < c->size; r++) {
        coll_take_back(c, &s->peer[r].send);
        coll_take_back(c, &s->peer[r].recv);
    }
    if (s->phase == SUMMING)
        s->inner.ops->cancel(&s->inner);
}

const struct halay_algorithm_ops halay_allreduce_adasum = {
    .tags = RESULT + 1,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = adasum_start,
    .progress = adasum_progress,
    .cancel = adasum_cancel,
};
