/* SPDX-License-Identifier: Apache-2.0
 *
 * Binomial reduce: sums of neighbours are joined at distance 1, 2, 4, ... on the way to the root.
 *
 *     five ranks, root A                     the same, root C
 *
 *     A <-- B    ab                          A <-- B    ab
 *     C <-- D    cd                          C <-- D    cd
 *     A <-- C    ab + cd                     C <-- A    ab + cd: what comes from the left is the first operand
 *     A <-- E    (ab + cd) + e               C <-- E    (ab + cd) + e
 *
 * In round k a rank holds the sum of its aligned 2^k neighbours. The sum of a block is held by its lowest rank, but by
 * the root where the root is one of them. So the sums are those of the binary tree over ranks (cut at the largest power
 * of two below N), whoever the root is.
 *
 * Wide: f16 and bf16 travel as f32 partial sums and are rounded once, by the root.
 *
 * Large counts go in chunks, two of them under way (lanes): a rank joins one while the other travels.
 *
 * Cost: ceil(log2 N) steps for one chunk; the root receives at most log2(N) S bytes (f16 and bf16: twice that); up to
 * 2 (log2(N) + 1) chunks of memory. Any number of ranks, any count, in and out of place.
 */
#include "base/memory.h"
#include "collectives/group/channel.h"

enum { LANES = 2, LEVELS_MAX = 31 };

/* Whose sums this rank joins to its own, in this order, and whom it gives its own to then. */
struct family {
    int children;
    int child[LEVELS_MAX];
    int is_left[LEVELS_MAX]; /* the child's block lies to the left of this rank's: its sum is the first operand */
    int parent;              /* -1: the root */
};

struct lane {
    size_t chunk;
    int started;
    int joined; /* children below are part of the sum */
    int given;
    struct halay_transfer give;
    unsigned char *sum; /* in scratch, as are the landings of the children behind it */
};

struct state {
    struct family family;
    enum halay_dtype wide;
    size_t wide_element;
    size_t chunk_length, chunks;
    size_t landing; /* bytes of one sum or landing */
    struct lane lanes[LANES];
    struct halay_transfer recv[]; /* LANES * levels */
};

static int levels(int size)
{
    return size > 1 ? 32 - __builtin_clz((unsigned)size - 1) : 0;
}

static size_t state_bytes(int size)
{
    return sizeof(struct state) + LANES * (size_t)levels(size) * sizeof(struct halay_transfer);
}

static struct family family_of(int size, int rank, int root)
{
    struct family f = { .parent = -1 };

    for (int k = 0; k < levels(size); k++) {
        int block = rank >> k << k, sibling = block ^ 1 << k;
        int has_root = root >> k << k == sibling; /* the sibling has it */
        int holder = has_root ? root : sibling;
        if (sibling >= size)
            continue;
        if (rank != root && (has_root || sibling < block)) {
            f.parent = holder;
            break;
        }
        f.child[f.children] = holder;
        f.is_left[f.children++] = sibling < block;
    }
    return f;
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
    size_t most = c->group->world->config.fragment_bytes / wide_bytes(c);

    most = most ? most : 1;
    return c->in.count < most ? c->in.count : most;
}

static size_t landing_bytes(const struct halay_coll *c)
{
    return halay_round_up(chunk_length(c) * wide_bytes(c), HALAY_CACHE_LINE);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    struct family f = family_of(c->t->size, c->t->rank, c->root);

    return LANES * (size_t)(f.children + 1) * landing_bytes(c);
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->family = family_of(c->t->size, c->t->rank, c->root);
    s->wide = is_half(c) ? HALAY_F32 : c->dtype;
    s->wide_element = wide_bytes(c);
    s->chunk_length = chunk_length(c);
    s->chunks = halay_span_cuts(c->in.count, s->chunk_length);
    s->landing = landing_bytes(c);
    for (size_t i = 0; i < LANES; i++) {
        s->lanes[i].chunk = i;
        s->lanes[i].sum = c->scratch + i * (size_t)(s->family.children + 1) * s->landing;
    }
}

static struct halay_span chunk_of(const struct halay_coll *c, const struct lane *lane)
{
    const struct state *s = c->state;

    return halay_span_cut((struct halay_span){ .start = 0, .length = c->in.count }, s->chunk_length, lane->chunk);
}

static struct halay_transfer *recv_of(struct halay_coll *c, const struct lane *lane, int child)
{
    struct state *s = c->state;

    return &s->recv[(lane - s->lanes) * levels(c->t->size) + child];
}

static unsigned char *landing(const struct state *s, const struct lane *lane, int child)
{
    return lane->sum + (size_t)(child + 1) * s->landing;
}

/* This rank's own share: the user's data, or as f32 in the place of the sum. */
static const unsigned char *own(const struct halay_coll *c, const struct lane *lane)
{
    return is_half(c) ? lane->sum : coll_in(c) + chunk_of(c, lane).start * c->element;
}

static void lane_start(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct halay_span span = chunk_of(c, lane);

    for (int i = 0; i < s->family.children; i++)
        coll_recv(c, s->family.child[i], (uint32_t)(lane - s->lanes), landing(s, lane, i),
                  span.length * s->wide_element, recv_of(c, lane, i));
    if (is_half(c))
        c->reducer->widen[c->dtype]((float *)(void *)lane->sum, coll_in(c) + span.start * c->element, span.length);
    lane->started = 1;
    lane->joined = 0;
    lane->given = 0;
    coll_advanced(c);
}

/* The last join is the root's last: it divides and goes to out. */
static void join(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct halay_span span = chunk_of(c, lane);
    int i = lane->joined++, last = s->family.parent < 0 && lane->joined == s->family.children;
    const unsigned char *mine = i ? lane->sum : own(c, lane), *theirs = landing(s, lane, i);
    const void *src[2] = { s->family.is_left[i] ? theirs : mine, s->family.is_left[i] ? mine : theirs };
    unsigned char *out = last ? coll_out(c) + span.start * c->element : NULL;
    void *dst = last && !is_half(c) ? out : lane->sum;

    c->reducer->reduce[s->wide][c->op](&dst, 1, src, 2, span.length, last ? c->divisor : 1);
    if (last && is_half(c))
        c->reducer->narrow[c->dtype](out, (const float *)(const void *)lane->sum, span.length);
    coll_advanced(c);
}

static void give(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;

    if (s->family.parent >= 0)
        coll_send(c, s->family.parent, (uint32_t)(lane - s->lanes), s->family.children ? lane->sum : own(c, lane),
                  chunk_of(c, lane).length * s->wide_element, &lane->give);
    lane->given = 1;
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int busy = 0;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        if (lane->chunk >= s->chunks)
            continue;
        if (!lane->started)
            lane_start(c, lane);
        if (lane->joined < s->family.children && coll_is_settled(recv_of(c, lane, lane->joined)))
            join(c, lane);
        if (lane->joined == s->family.children && !lane->given)
            give(c, lane);
        if (lane->given && coll_is_settled(&lane->give)) {
            lane->chunk += LANES;
            lane->started = 0;
            coll_advanced(c);
        }
        busy |= lane->chunk < s->chunks;
    }
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        coll_take_back(c, &lane->give);
        for (int i = 0; i < s->family.children; i++)
            coll_take_back(c, recv_of(c, lane, i));
    }
}

const struct halay_algorithm_ops halay_reduce_binomial = {
    .tags = LANES,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
