/* SPDX-License-Identifier: Apache-2.0
 *
 * Halving-doubling all-reduce: partners at distance 1, 2, 4, ... halve what they are responsible for while they add,
 * then double what they know on the way back. The fewest steps among those that send the fewest bytes.
 *
 *     four ranks, blocks 0 1 2 3: which of them a rank holds, and how many ranks' data are summed in them
 *
 *          start      distance 1       distance 2     |  distance 2     distance 1
 *     A    0123       01   (2 ranks)   0   (4 ranks)  |  01             0123
 *     B    0123         23               2            |    23           0123
 *     C    0123       01                1             |  01             0123
 *     D    0123         23                3           |    23           0123
 *              halving, adding: send the other half        doubling: send all that is complete
 *
 * The nearest partner comes first, so what is added in step k are the sums of two neighbouring aligned blocks of 2^k
 * ranks: the binary tree over ranks. Any other number of ranks is cut into subtrees of falling powers of two (tree.h),
 * each of which halves by itself. Then every block of a subtree is handed once to the subtree on its left, smallest
 * first, and comes back summed; what a rank of a subtree holds is held by the ranks of the larger subtree whose numbers
 * in it have the same low bits, in parts:
 *
 *     seven ranks      halved             fold to the left            and back
 *     A B C D          A..D: a quarter    A C <- E   B D <- F         A C -> E   B D -> F     quarters
 *     E F              E, F: a half       E F <- G                    E F -> G                halves
 *     G                all of it
 *
 * so that no rank sends or receives more than about 2 S bytes, whatever N, and nobody waits idle meanwhile.
 *
 * The data go in chunks; LANES chunks are under way, each a schedule of its own: while one is added another travels.
 * All receives of a chunk are posted before anything of it is sent, but those that land where something is still being
 * sent from: these follow when it is gone. Lower ranks are the first operand.
 *
 * Wide: f16 and bf16 are given once as they are (step 0), then as f32 partial sums of a quarter and less, and rounded
 * once: their bits are those of the other tree algorithms, for 1.25 times the bytes.
 *
 * Cost: 2 log2(N) steps, for other N two more for each one bit of N beyond the first; 2 S (N - 1) / N bytes sent and
 * received by each rank, up to 2 S for other N. LANES chunks of memory. Any number of ranks, any count, in and out of
 * place.
 *
 * Source: Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19
 * (2005); subtrees of falling powers of two: Rabenseifner and Traeff, "More efficient reduction algorithms for
 * non-power-of-two number of processors in message-passing parallel systems", EuroPVM/MPI 2004.
 */
#include "base/memory.h"
#include "collectives/group/channel.h"
#include "collectives/schedule/tree.h"

enum { LANES = 4, ROUNDS_MAX = 31, FOLD = ROUNDS_MAX, TAGS = 32, BLOCK = 1024 };
#define CHUNK_LEAST ((size_t)64 << 10) /* bytes; below this, more messages cost more than the overlap gains */

enum phase { HALVING, FOLDING, AWAITING, SPREADING, SETTLING };

/* One partner. First the given half goes out and the kept half's other part comes in; later the kept half goes out
 * complete and the given half comes back complete, in the same two transfers. */
struct exchange {
    struct halay_transfer send, recv;
    struct halay_span kept, given; /* elements of the whole vector */
    unsigned char *landing;
    int is_returning; /* the given half's second receive is posted: what was sent from there has left */
};

struct lane {
    size_t chunk; /* which; >= chunks: nothing left to do */
    int started;
    enum phase phase;
    int round, sent;
    struct halay_span held;    /* the part that only this rank holds in the end */
    unsigned char *sum;        /* f16 and bf16: f32 sums of the first kept half; in scratch */
    struct exchange *exchange; /* [rounds] */
    struct halay_transfer from_right, to_right;
    unsigned char *landing;      /* of from_right */
    struct halay_transfer *left; /* [lefts]: what is held goes there, and then comes from there */
    int lefts, lefts_returning;
};

struct state {
    struct halay_subtree tree;
    size_t chunk_length; /* elements */
    size_t chunks;
    struct lane lanes[LANES];
    /* then, a lane each: exchanges, left */
};

static int rounds_most(int size)
{
    return 31 - __builtin_clz((unsigned)size);
}

static size_t lane_bytes(int size)
{
    return (size_t)rounds_most(size) * sizeof(struct exchange) + (size_t)size * sizeof(struct halay_transfer);
}

static size_t state_bytes(int size)
{
    return sizeof(struct state) + LANES * lane_bytes(size);
}

static int is_half(const struct halay_coll *c)
{
    return c->reducer->widen[c->dtype] != NULL;
}

static size_t wide_bytes(const struct halay_coll *c)
{
    return is_half(c) ? sizeof(float) : c->element;
}

static size_t chunk_length(const struct halay_coll *c)
{
    size_t most = 4 * c->group->world->config.fragment_bytes, all = c->out.count * c->element;
    size_t bytes = all / LANES < most ? all / LANES : most;

    bytes = bytes > CHUNK_LEAST ? bytes : CHUNK_LEAST;
    size_t length = bytes / c->element;
    return length < c->out.count ? length : c->out.count;
}

/* A lane's landings: halves of the chunk, each rounded up, and what is held, all together no more than the chunk
 * and an element and a cache line for each; and the f32 sums of half of it. */
static size_t lane_scratch(const struct halay_coll *c, size_t length)
{
    size_t landings = (size_t)rounds_most(c->t->size) + 2;
    size_t landing = (length + landings) * wide_bytes(c) + landings * HALAY_CACHE_LINE;
    size_t sum = is_half(c) ? (length / 2 + 1) * sizeof(float) : 0;

    return halay_round_up(landing, HALAY_CACHE_LINE) + halay_round_up(sum, HALAY_CACHE_LINE);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return LANES * lane_scratch(c, chunk_length(c));
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;
    unsigned char *more = (unsigned char *)c->state + sizeof *s;

    s->tree = halay_subtree_of(c->t->size, c->t->rank);
    s->chunk_length = chunk_length(c);
    s->chunks = halay_span_cuts(c->out.count, s->chunk_length);
    for (size_t i = 0; i < LANES; i++) {
        struct lane *lane = &s->lanes[i];
        lane->chunk = i;
        lane->lefts = s->tree.left_members / s->tree.members;
        lane->exchange = (struct exchange *)(void *)(more + i * lane_bytes(c->t->size));
        lane->left = (struct halay_transfer *)(void *)(lane->exchange + rounds_most(c->t->size));
    }
}

/* ---- who and where ---- */

static int is_in_first_subtree(const struct state *s)
{
    return !s->tree.left_members;
}

static int number_in_subtree(const struct halay_coll *c)
{
    const struct state *s = c->state;

    return c->t->rank - s->tree.first;
}

static int partner(const struct halay_coll *c, int round)
{
    const struct state *s = c->state;

    return s->tree.first + (number_in_subtree(c) ^ (1 << round));
}

static int right_peer(const struct halay_coll *c)
{
    const struct state *s = c->state;

    return s->tree.right_first + number_in_subtree(c) % s->tree.right_members;
}

/* The number in the left subtree of the rank that holds part i of what this rank holds. */
static int left_number(const struct halay_coll *c, int i)
{
    const struct state *s = c->state;

    return number_in_subtree(c) + i * s->tree.members;
}

static int left_peer(const struct halay_coll *c, int i)
{
    const struct state *s = c->state;

    return s->tree.left_first + left_number(c, i);
}

static uint32_t tag_of(const struct halay_coll *c, const struct lane *lane, int round)
{
    const struct state *s = c->state;

    return (uint32_t)(lane - s->lanes) * TAGS + (uint32_t)round;
}

/* The half of a span that a number keeps in a round: the first, rounded up, if its bit of that round is clear. */
static struct halay_span half_of(struct halay_span span, int number, int round)
{
    size_t first = span.length - span.length / 2;

    if (number >> round & 1)
        return (struct halay_span){ .start = span.start + first, .length = span.length - first };
    return (struct halay_span){ .start = span.start, .length = first };
}

static struct halay_span left_span(const struct halay_coll *c, const struct lane *lane, int i)
{
    const struct state *s = c->state;
    struct halay_span span = lane->held;
    int rounds = 31 - __builtin_clz((unsigned)s->tree.left_members);

    for (int k = s->tree.rounds; k < rounds; k++)
        span = half_of(span, left_number(c, i), k);
    return span;
}

static unsigned char *out_at(const struct halay_coll *c, struct halay_span span)
{
    return coll_out(c) + span.start * c->element;
}

/* This rank's partial sum after some rounds (0: its data), and the bytes of an element of it. */
static const unsigned char *partial_at(const struct halay_coll *c, const struct lane *lane, int rounds,
                                       struct halay_span span)
{
    if (!rounds)
        return coll_in(c) + span.start * c->element;
    if (!is_half(c))
        return out_at(c, span);
    return lane->sum + (span.start - lane->exchange[0].kept.start) * sizeof(float);
}

static size_t partial_bytes(const struct halay_coll *c, int rounds)
{
    return rounds ? wide_bytes(c) : c->element;
}

/* ---- a chunk starts ---- */

static void cut(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct halay_span all = { .start = 0, .length = c->out.count };
    struct halay_span span = halay_span_cut(all, s->chunk_length, lane->chunk);
    size_t lane_size = lane_scratch(c, s->chunk_length);
    unsigned char *landing = c->scratch + (size_t)(lane - s->lanes) * lane_size;

    if (is_half(c))
        lane->sum = landing + lane_size - halay_round_up((s->chunk_length / 2 + 1) * sizeof(float), HALAY_CACHE_LINE);
    for (int k = 0; k < s->tree.rounds; k++) {
        struct exchange *x = &lane->exchange[k];
        x->kept = half_of(span, number_in_subtree(c), k);
        x->given = half_of(span, number_in_subtree(c) ^ (1 << k), k);
        x->landing = landing;
        x->is_returning = 0;
        landing += halay_round_up(x->kept.length * partial_bytes(c, k), HALAY_CACHE_LINE);
        span = x->kept;
    }
    lane->held = span;
    lane->landing = landing;
}

/* What is folded comes from a subtree that has added, but for a subtree of one. */
static int rounds_of_right(const struct state *s)
{
    return s->tree.right_members > 1;
}

static void send_given(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct exchange *x = &lane->exchange[lane->round];

    if (lane->round < s->tree.rounds)
        coll_send(c, partner(c, lane->round), tag_of(c, lane, lane->round), partial_at(c, lane, lane->round, x->given),
                  x->given.length * partial_bytes(c, lane->round), &x->send);
}

static void lane_start(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;

    cut(c, lane);
    for (int k = 0; k < s->tree.rounds; k++) {
        struct exchange *x = &lane->exchange[k];
        coll_recv(c, partner(c, k), tag_of(c, lane, k), x->landing, x->kept.length * partial_bytes(c, k), &x->recv);
    }
    if (s->tree.right_members)
        coll_recv(c, right_peer(c), tag_of(c, lane, FOLD), lane->landing,
                  lane->held.length * partial_bytes(c, rounds_of_right(s)), &lane->from_right);
    lane->started = 1;
    lane->phase = HALVING;
    lane->round = 0;
    lane->lefts_returning = 0;
    send_given(c, lane);
}

/* ---- adding ---- */

/* An operand: f16 and bf16 as they came from their rank, or f32. */
struct operand {
    const unsigned char *data;
    size_t bytes; /* of an element */
};

static const float *widened(const struct halay_coll *c, struct operand o, size_t at, size_t count, float *buffer)
{
    if (o.bytes == sizeof(float))
        return (const float *)(const void *)o.data + at;
    c->reducer->widen[c->dtype](buffer, o.data + at * o.bytes, count);
    return buffer;
}

static void combine_wide(const struct halay_coll *c, float *dst, struct operand lower, struct operand higher,
                         size_t count)
{
    float a[BLOCK], b[BLOCK];

    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        const void *src[2] = { widened(c, lower, at, n, a), widened(c, higher, at, n, b) };
        void *to = dst + at;
        c->reducer->reduce[HALAY_F32][c->op](&to, 1, src, 2, n, 1);
    }
}

/* Add what arrived to this rank's partial sum over so many rounds. last: nothing is left to be added to it anywhere. */
static void combine(const struct halay_coll *c, const struct lane *lane, int rounds, struct halay_span span,
                    struct operand theirs, int mine_is_lower, int last)
{
    struct operand mine = { partial_at(c, lane, rounds, span), partial_bytes(c, rounds) };
    struct operand lower = mine_is_lower ? mine : theirs, higher = mine_is_lower ? theirs : mine;

    if (!span.length)
        return;
    if (!is_half(c)) {
        coll_reduce2(c, out_at(c, span), lower.data, higher.data, span.length, last);
        return;
    }
    float *sum = (float *)(void *)(lane->sum + (span.start - lane->exchange[0].kept.start) * sizeof(float));
    combine_wide(c, sum, lower, higher, span.length);
    if (!last)
        return;
    void *dst = sum;
    const void *src = sum;
    if (c->divisor > 1)
        c->reducer->reduce[HALAY_F32][c->op](&dst, 1, &src, 1, span.length, c->divisor);
    c->reducer->narrow[c->dtype](out_at(c, span), sum, span.length);
}

/* ---- the phases: nonzero if it got further ---- */

static int halving(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct exchange *x = &lane->exchange[lane->round];

    if (lane->round == s->tree.rounds) {
        lane->phase = FOLDING;
        return 1;
    }
    if (!coll_is_settled(&x->recv))
        return 0;
    int last = lane->round + 1 == s->tree.rounds && is_in_first_subtree(s) && !s->tree.right_members;
    combine(c, lane, lane->round, x->kept, (struct operand){ x->landing, partial_bytes(c, lane->round) },
            !(number_in_subtree(c) >> lane->round & 1), last);
    lane->round++;
    send_given(c, lane);
    return 1;
}

static int folding(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    int rounds = s->tree.rounds;

    if (!coll_is_settled(&lane->from_right))
        return 0;
    if (s->tree.right_members)
        combine(c, lane, rounds, lane->held, (struct operand){ lane->landing, partial_bytes(c, rounds_of_right(s)) }, 1,
                is_in_first_subtree(s));
    for (int i = 0; i < lane->lefts; i++) {
        struct halay_span span = left_span(c, lane, i);
        coll_send(c, left_peer(c, i), tag_of(c, lane, FOLD), partial_at(c, lane, rounds, span),
                  span.length * partial_bytes(c, rounds), &lane->left[i]);
    }
    lane->phase = AWAITING;
    return 1;
}

/* Receives into what was sent from are posted when that is gone. */
static void post_returns(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;

    for (; lane->lefts_returning < lane->lefts && coll_is_settled(&lane->left[lane->lefts_returning]);
         lane->lefts_returning++) {
        struct halay_span span = left_span(c, lane, lane->lefts_returning);
        coll_recv(c, left_peer(c, lane->lefts_returning), tag_of(c, lane, FOLD), out_at(c, span),
                  span.length * c->element, &lane->left[lane->lefts_returning]);
    }
    for (int k = 0; k < s->tree.rounds; k++) {
        struct exchange *x = &lane->exchange[k];
        if (x->is_returning || !coll_is_settled(&x->send))
            continue;
        coll_recv(c, partner(c, k), tag_of(c, lane, k), out_at(c, x->given), x->given.length * c->element, &x->recv);
        x->is_returning = 1;
    }
}

static int awaiting(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;

    if (lane->lefts_returning < lane->lefts)
        return 0;
    for (int i = 0; i < lane->lefts; i++)
        if (!coll_is_settled(&lane->left[i]))
            return 0;
    if (s->tree.right_members)
        coll_send(c, right_peer(c), tag_of(c, lane, FOLD), out_at(c, lane->held), lane->held.length * c->element,
                  &lane->to_right);
    lane->phase = SPREADING;
    lane->round = s->tree.rounds - 1;
    lane->sent = 0;
    return 1;
}

static int spreading(struct halay_coll *c, struct lane *lane)
{
    if (lane->round < 0) {
        lane->phase = SETTLING;
        return 1;
    }
    struct exchange *x = &lane->exchange[lane->round];
    if (!x->is_returning)
        return 0;
    if (!lane->sent)
        coll_send(c, partner(c, lane->round), tag_of(c, lane, lane->round), out_at(c, x->kept),
                  x->kept.length * c->element, &x->send);
    lane->sent = 1;
    if (!coll_is_settled(&x->recv))
        return 0;
    lane->round--;
    lane->sent = 0;
    return 1;
}

static int settling(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;

    if (!coll_is_settled(&lane->to_right))
        return 0;
    for (int k = 0; k < s->tree.rounds; k++)
        if (!coll_is_settled(&lane->exchange[k].send))
            return 0;
    lane->chunk += LANES; /* the same lane takes the same chunks on every rank: their order is the match */
    lane->started = 0;
    return 1;
}

static int lane_step(struct halay_coll *c, struct lane *lane)
{
    if (!lane->started)
        lane_start(c, lane);
    if (lane->phase >= AWAITING && lane->phase < SETTLING)
        post_returns(c, lane);
    switch (lane->phase) {
    case HALVING:
        return halving(c, lane);
    case FOLDING:
        return folding(c, lane);
    case AWAITING:
        return awaiting(c, lane);
    case SPREADING:
        return spreading(c, lane);
    case SETTLING:
        break;
    }
    return settling(c, lane);
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int busy = 0;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        size_t chunk = lane->chunk;
        while (lane->chunk == chunk && chunk < s->chunks && lane_step(c, lane)) /* one chunk at a time */
            coll_advanced(c);
        busy |= lane->chunk < s->chunks;
    }
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        coll_take_back(c, &lane->from_right);
        coll_take_back(c, &lane->to_right);
        for (int i = 0; i < lane->lefts; i++)
            coll_take_back(c, &lane->left[i]);
        for (int k = 0; k < s->tree.rounds; k++) {
            coll_take_back(c, &lane->exchange[k].send);
            coll_take_back(c, &lane->exchange[k].recv);
        }
    }
}

const struct halay_algorithm_ops halay_allreduce_halving_doubling = {
    .tags = LANES * TAGS,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
