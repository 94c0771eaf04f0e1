/* SPDX-License-Identifier: Apache-2.0
 *
 * Recursive doubling all-reduce: partners at distance 1, 2, 4, ... exchange their sums; the fewest steps.
 *
 *     four ranks         round 0              round 1
 *     A   a              A <-> B   a+b        A <-> C   (a+b)+(c+d)
 *     B   b                        a+b        B <-> D   (a+b)+(c+d)
 *     C   c              C <-> D   c+d                  ...
 *     D   d                        c+d
 *
 * After round k a rank holds the sum of its aligned 2^(k+1) neighbours: a subtree of the binary tree over ranks. Any
 * other number of ranks is cut into subtrees of falling powers of two, one for each one bit: 7 = 4 + 2 + 1. Each
 * subtree doubles by itself; then what is to the right of a subtree is handed to it, smallest first, and the total is
 * handed back:
 *
 *     seven ranks        subtrees doubled     fold to the left               total back
 *     A B C D            abcd = (a+b)+(c+d)   abcd + efg    <- from E F      E F G <- from A B C
 *     E F                ef = e+f             efg = ef + g  <- from G
 *     G                  g
 *
 * That is the same tree as everywhere (cut at the largest power of two below n): ((a+b)+(c+d))+((e+f)+g). In the fold,
 * rank j of a subtree sends to the ranks of the next larger subtree whose number in it is j modulo the members of the
 * smaller one.
 *
 * Wide: f16 and bf16 travel as f32 partial sums and are rounded once, at the end, so that the bits are those of the
 * other tree algorithms. Lower ranks are the first operand. Large counts go in chunks, one after the other.
 *
 * Cost: log2(N) (a + S b); for other N one step more for each one bit of N, and one. log2(N) + 2 chunks of memory. Any
 * number of ranks, any count, in and out of place.
 *
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19
 * (2005).
 */
#include "base/memory.h"
#include "collectives/schedule/coll.h"
#include "collectives/schedule/tree.h"
#include <string.h>

enum { ROUNDS_MAX = 31, CHUNK_BYTES = 1 << 18, FOLD = ROUNDS_MAX, TOTAL };

enum phase { DOUBLING, FOLDING, FINISHING };

struct state {
    struct halay_subtree tree;
    enum phase phase;
    int round;
    size_t at, count; /* elements done; of this chunk */
    enum halay_dtype wide;
    size_t wide_element;
    size_t slot;                                /* bytes of one partial sum in scratch */
    unsigned char *sum;                         /* this rank's partial sum */
    struct halay_transfer exchange[ROUNDS_MAX]; /* sends of the doubling */
    struct halay_transfer recv[ROUNDS_MAX + 2]; /* by round; FOLD, TOTAL */
    struct halay_transfer give[];               /* size of them: to the left subtree, or the total to the right */
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * sizeof(struct halay_transfer);
}

static int is_half(const struct halay_coll *c)
{
    return c->reducer->widen[c->dtype] != NULL;
}

static size_t wide_bytes(const struct halay_coll *c)
{
    return is_half(c) ? sizeof(float) : c->element;
}

static size_t chunk_elements(const struct halay_coll *c)
{
    size_t most = CHUNK_BYTES / wide_bytes(c);

    return c->out.count < most ? c->out.count : most;
}

/* The sum, a landing a round, and two more. */
static size_t scratch_bytes(const struct halay_coll *c)
{
    struct halay_subtree p = halay_subtree_of(c->t->size, c->t->rank);

    return ((size_t)p.rounds + 3) * halay_round_up(chunk_elements(c) * wide_bytes(c), HALAY_CACHE_LINE);
}

static unsigned char *landing(const struct halay_coll *c, int round)
{
    const struct state *s = c->state;
    int index = round;

    if (round == FOLD || round == TOTAL)
        index = s->tree.rounds + (round == TOTAL);
    return s->sum + (size_t)(index + 1) * s->slot;
}

static int partner(const struct halay_coll *c, int round)
{
    const struct state *s = c->state;

    return s->tree.first + ((c->t->rank - s->tree.first) ^ (1 << round));
}

static int is_in_first_subtree(const struct state *s)
{
    return !s->tree.left_members;
}

static void receive(struct halay_coll *c, int peer, int round)
{
    struct state *s = c->state;

    coll_recv(c, peer, (uint32_t)round, landing(c, round), s->count * s->wide_element, &s->recv[round]);
}

/* All receives of a chunk are posted before anything is sent: nothing comes unexpected. */
static void post_receives(struct halay_coll *c)
{
    const struct state *s = c->state;
    const struct halay_subtree *p = &s->tree;

    for (int k = 0; k < p->rounds; k++)
        receive(c, partner(c, k), k);
    if (p->right_members)
        receive(c, p->right_first + (c->t->rank - p->first) % p->right_members, FOLD);
    if (!is_in_first_subtree(s))
        receive(c, c->t->rank - halay_largest_power(c->t->size), TOTAL);
}

static void send_round(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->round < s->tree.rounds)
        coll_send(c, partner(c, s->round), (uint32_t)s->round, s->sum, s->count * s->wide_element,
                  &s->exchange[s->round]);
}

static void start_chunk(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t left = c->out.count - s->at, most = chunk_elements(c);
    const unsigned char *in = coll_in(c) + s->at * c->element;

    s->count = left < most ? left : most;
    s->phase = DOUBLING;
    s->round = 0;
    post_receives(c);
    if (is_half(c))
        c->reducer->widen[c->dtype]((float *)(void *)s->sum, in, s->count);
    else
        memcpy(s->sum, in, s->count * c->element);
    send_round(c);
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->tree = halay_subtree_of(c->t->size, c->t->rank);
    s->wide = is_half(c) ? HALAY_F32 : c->dtype;
    s->wide_element = wide_bytes(c);
    s->slot = halay_round_up(chunk_elements(c) * s->wide_element, HALAY_CACHE_LINE);
    s->sum = c->scratch;
    start_chunk(c);
}

static void combine(const struct halay_coll *c, const void *lower, const void *higher)
{
    const struct state *s = c->state;
    const void *src[2] = { lower, higher };
    void *dst = s->sum;

    c->reducer->reduce[s->wide][c->op](&dst, 1, src, 2, s->count, 1);
}

/* The sum is sent from where it lies: it may change only when the send is done. */
static enum halay_status doubling(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->round == s->tree.rounds) {
        s->phase = FOLDING;
        return HALAY_OK;
    }
    if (!coll_is_settled(&s->recv[s->round]) || !coll_is_settled(&s->exchange[s->round]))
        return HALAY_IN_PROGRESS;
    if (partner(c, s->round) < c->t->rank)
        combine(c, landing(c, s->round), s->sum);
    else
        combine(c, s->sum, landing(c, s->round));
    s->round++;
    send_round(c);
    return HALAY_OK;
}

/* Take what is to the right of this subtree; hand the sum on to the left, or, being leftmost, the total back. */
static enum halay_status folding(struct halay_coll *c)
{
    struct state *s = c->state;
    const struct halay_subtree *p = &s->tree;
    int n = c->t->size, me = c->t->rank - p->first;
    size_t bytes = s->count * s->wide_element;

    if (!coll_is_settled(&s->recv[FOLD]))
        return HALAY_IN_PROGRESS;
    if (p->right_members)
        combine(c, s->sum, landing(c, FOLD));
    if (is_in_first_subtree(s)) {
        if (c->t->rank + p->members < n)
            coll_send(c, c->t->rank + p->members, TOTAL, s->sum, bytes, &s->give[0]);
    } else {
        for (int k = me; k < p->left_members; k += p->members)
            coll_send(c, p->left_first + k, FOLD, s->sum, bytes, &s->give[k]);
    }
    s->phase = FINISHING;
    return HALAY_OK;
}

static enum halay_status finishing(struct halay_coll *c)
{
    struct state *s = c->state;
    unsigned char *out = coll_out(c) + s->at * c->element;

    for (int k = 0; k < c->t->size; k++)
        if (!coll_is_settled(&s->give[k]))
            return HALAY_IN_PROGRESS;
    if (!coll_is_settled(&s->recv[TOTAL]))
        return HALAY_IN_PROGRESS;
    const void *total = is_in_first_subtree(s) ? s->sum : landing(c, TOTAL);
    void *dst = is_half(c) ? s->sum : out;
    c->reducer->reduce[s->wide][c->op](&dst, 1, &total, 1, s->count, c->divisor);
    if (is_half(c))
        c->reducer->narrow[c->dtype](out, (const float *)(const void *)s->sum, s->count);
    s->at += s->count;
    if (s->at < c->out.count)
        start_chunk(c);
    return HALAY_OK;
}

static enum halay_status (*const advance[])(struct halay_coll *c) = {
    [DOUBLING] = doubling, [FOLDING] = folding, [FINISHING] = finishing
};

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && s->at < c->out.count) {
        enum phase phase = s->phase;
        status = advance[phase](c);
        if (status == HALAY_OK)
            coll_advanced(c);
        if (phase == FINISHING)
            break; /* a chunk at a time */
    }
    return s->at < c->out.count ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int k = 0; k < ROUNDS_MAX; k++)
        coll_take_back(c, &s->exchange[k]);
    for (int k = 0; k < ROUNDS_MAX + 2; k++)
        coll_take_back(c, &s->recv[k]);
    for (int k = 0; k < c->t->size; k++)
        coll_take_back(c, &s->give[k]);
}

const struct halay_algorithm_ops halay_allreduce_recursive_doubling = {
    .tags = TOTAL + 1,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
