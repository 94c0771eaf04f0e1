/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: each block goes to its owner, who adds all of them. An all-reduce then sends the sum to every rank.
 *
 *                   block of a rank              the sum goes to
 *     all-reduce      an N-th of the elements      every rank's out
 *     reduce-scatter  its block                    its own out
 *
 *     three ranks, blocks 0 1 2; block r belongs to rank r
 *
 *           to the owners              the owners add           to all (all-reduce)
 *     A     1 -> B,  2 -> C            0 = 0A + 0B + 0C         0 -> B, C
 *     B     0 -> A,  2 -> C            1 = 1A + 1B + 1C         1 -> A, C
 *     C     0 -> A,  1 -> B            2 = 2A + 2B + 2C         2 -> A, B
 *
 * The owner adds its block of all N ranks at once along the tree over ranks, in f32 for f16 and bf16, and rounds once.
 *
 * Large blocks go in chunks; two chunks are under way (lanes), so that one is added while the other travels. Blocks may
 * differ in length: a rank that has nothing left to receive continues to send. The receive of a sum is posted when the
 * block that was sent from the same place is gone: in place nothing overwrites what is being sent.
 *
 * Cost: S (N - 1) / N bytes sent and received by each rank in one step, twice that in two for an all-reduce; all pairs
 * at once, which needs a network that can do that; 2 (N - 1) chunks of memory. Any number of ranks, any counts, zero
 * included; in place (of a reduce-scatter, out is this rank's block of in, which no rank is sent) and out of place.
 * More than 256 ranks use it only where HALAY_DETERMINISTIC=ranks leaves no other.
 */
#include "base/memory.h"
#include "collectives/group/channel.h"

enum { LANES = 2, BLOCKS = 0, SUMS, TAGS_A_LANE };

enum transfer { SEND_BLOCK, RECEIVE_BLOCK, SEND_SUM, RECEIVE_SUM, TRANSFERS };

struct peer {
    struct halay_transfer transfer[TRANSFERS];
    int sum_posted;
};

struct lane {
    size_t chunk; /* which chunk of each block */
    int started;
    int added; /* this rank's chunk of its own block is summed and, of an all-reduce, on its way */
};

struct state {
    size_t chunk_length; /* elements */
    size_t chunks;       /* of the longest block */
    struct lane lanes[LANES];
    struct peer *peer; /* in scratch: LANES * size */
    const void **src;  /* in scratch: size */
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

/* Returns the bytes of scratch before the receive buffers. */
static size_t peers_bytes(const struct halay_coll *c)
{
    size_t size = (size_t)c->size;

    return halay_round_up(LANES * size * sizeof(struct peer) + size * sizeof(void *), HALAY_CACHE_LINE);
}

static int has_sums(const struct halay_coll *c)
{
    return c->operation == HALAY_COLL_ALLREDUCE;
}

static struct halay_span block_of(const struct halay_coll *c, int owner)
{
    if (has_sums(c))
        return halay_block_span(c->in.count, c->size, owner);
    return coll_block_span(c, owner);
}

static size_t chunk_length(const struct halay_coll *c)
{
    size_t most = c->group->world->config.chunk_bytes / c->element;

    return most ? most : 1;
}

/* Only other ranks' data for this rank's own block arrive there. */
static size_t buffer_bytes(const struct halay_coll *c)
{
    size_t most = chunk_length(c), length = block_of(c, c->rank).length;

    return halay_round_up((length < most ? length : most) * c->element, HALAY_CACHE_LINE);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return peers_bytes(c) + LANES * (size_t)c->size * buffer_bytes(c);
}

static size_t place_of(const struct halay_coll *c, const struct lane *lane, int rank)
{
    const struct state *s = c->state;

    return (size_t)((lane - s->lanes) * c->size + rank);
}

static struct peer *peer_of(const struct halay_coll *c, const struct lane *lane, int rank)
{
    struct state *s = c->state;

    return &s->peer[place_of(c, lane, rank)];
}

static unsigned char *buffer_of(const struct halay_coll *c, const struct lane *lane, int rank)
{
    return c->scratch + peers_bytes(c) + place_of(c, lane, rank) * buffer_bytes(c);
}

static struct halay_span chunk_of(const struct halay_coll *c, const struct lane *lane, int owner)
{
    const struct state *s = c->state;

    return halay_span_cut(block_of(c, owner), s->chunk_length, lane->chunk);
}

static uint32_t tag_of(const struct halay_coll *c, const struct lane *lane, int what)
{
    const struct state *s = c->state;

    return (uint32_t)(TAGS_A_LANE * (lane - s->lanes) + what);
}

static void direct_start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->chunk_length = chunk_length(c);
    for (int r = 0; r < c->size; r++) {
        size_t chunks = halay_span_cuts(block_of(c, r).length, s->chunk_length);
        s->chunks = chunks > s->chunks ? chunks : s->chunks;
    }
    s->peer = (struct peer *)(void *)c->scratch;
    s->src = (const void **)(void *)&s->peer[LANES * c->size];
    memset(s->peer, 0, LANES * (size_t)c->size * sizeof *s->peer);
    for (size_t i = 0; i < LANES; i++)
        s->lanes[i].chunk = i;
}

/* Returns the peer at that distance: in this order not all ranks begin with rank 0. */
static int peer_at(const struct halay_coll *c, int distance)
{
    return (c->rank + distance) % c->size;
}

static void lane_start(struct halay_coll *c, struct lane *lane)
{
    struct halay_span mine = chunk_of(c, lane, c->rank);

    for (int d = 1; d < c->size; d++) {
        int r = peer_at(c, c->size - d); /* who sends here first */
        coll_recv(c, r, tag_of(c, lane, BLOCKS), buffer_of(c, lane, r), mine.length * c->element,
                  &peer_of(c, lane, r)->transfer[RECEIVE_BLOCK]);
        peer_of(c, lane, r)->sum_posted = !has_sums(c);
    }
    for (int d = 1; d < c->size; d++) {
        int r = peer_at(c, d);
        struct halay_span theirs = chunk_of(c, lane, r);
        coll_send(c, r, tag_of(c, lane, BLOCKS), coll_in(c) + theirs.start * c->element, theirs.length * c->element,
                  &peer_of(c, lane, r)->transfer[SEND_BLOCK]);
    }
    lane->started = 1;
    lane->added = 0;
    coll_advanced(c);
}

static void post_sums(struct halay_coll *c, struct lane *lane)
{
    for (int d = 1; d < c->size; d++) {
        int r = peer_at(c, d);
        struct peer *p = peer_of(c, lane, r);
        struct halay_span theirs = chunk_of(c, lane, r);
        if (p->sum_posted || !coll_is_settled(&p->transfer[SEND_BLOCK]))
            continue;
        coll_recv(c, r, tag_of(c, lane, SUMS), coll_out(c) + theirs.start * c->element, theirs.length * c->element,
                  &p->transfer[RECEIVE_SUM]);
        p->sum_posted = 1;
        coll_advanced(c);
    }
}

static int all_settled(const struct halay_coll *c, const struct lane *lane, enum transfer which)
{
    for (int r = 0; r < c->size; r++)
        if (!coll_is_settled(&peer_of(c, lane, r)->transfer[which]))
            return 0;
    return 1;
}

/* Adds all ranks' data of this rank's chunk, into its out, and sends the sum if others need it. */
static void sum_and_send(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct halay_span mine = chunk_of(c, lane, c->rank);
    size_t at = has_sums(c) ? mine.start : mine.start - c->starts[c->rank];
    void *dst = coll_out(c) + at * c->element;

    for (int r = 0; r < c->size; r++)
        s->src[r] = r == c->rank ? coll_in(c) + mine.start * c->element : buffer_of(c, lane, r);
    if (mine.length)
        c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, c->size, mine.length, c->divisor);
    for (int d = 1; has_sums(c) && d < c->size; d++) {
        int r = peer_at(c, d);
        coll_send(c, r, tag_of(c, lane, SUMS), dst, mine.length * c->element, &peer_of(c, lane, r)->transfer[SEND_SUM]);
    }
    lane->added = 1;
    coll_advanced(c);
}

static int is_complete(const struct halay_coll *c, const struct lane *lane)
{
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && !peer_of(c, lane, r)->sum_posted)
            return 0;
    return lane->added && all_settled(c, lane, SEND_BLOCK) && all_settled(c, lane, RECEIVE_SUM) &&
           all_settled(c, lane, SEND_SUM);
}

static enum halay_status direct_progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int busy = 0;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        if (lane->chunk >= s->chunks)
            continue;
        if (!lane->started)
            lane_start(c, lane);
        post_sums(c, lane);
        if (!lane->added && all_settled(c, lane, RECEIVE_BLOCK))
            sum_and_send(c, lane);
        if (is_complete(c, lane)) {
            lane->chunk += LANES;
            lane->started = 0;
            coll_advanced(c);
        }
        busy |= lane->chunk < s->chunks;
    }
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void direct_cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (int i = 0; i < LANES * c->size; i++)
        for (int k = 0; k < TRANSFERS; k++)
            coll_take_back(c, &s->peer[i].transfer[k]);
}

const struct halay_algorithm_ops halay_direct = {
    .tags = LANES * TAGS_A_LANE,
    .ranks_max = 256,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = direct_start,
    .progress = direct_progress,
    .cancel = direct_cancel,
};
