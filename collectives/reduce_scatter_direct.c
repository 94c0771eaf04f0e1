/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct reduce-scatter, even and uneven: each part is sent to its owner, who adds all.
 *
 *     three ranks, parts 0 1 2; part r belongs to rank r
 *
 *           to the owners              the owners add
 *     A     1 -> B,  2 -> C            0 = 0A + 0B + 0C
 *     B     0 -> A,  2 -> C            1 = 1A + 1B + 1C
 *     C     0 -> A,  1 -> B            2 = 2A + 2B + 2C
 *
 * The owner adds all N at once along the tree over ranks, in f32 for f16 and bf16, and rounds once.
 *
 * Large parts go in chunks; two chunks are under way (lanes), so that one is added while the other travels. Parts may differ
 * in length: who has no more to receive goes on sending.
 *
 * Cost: 1 step, S (N - 1) / N bytes sent and received by each rank, all pairs at once (needs a network that can do that);
 * 2 (N - 1) chunks of memory. Any number of ranks, any counts, zero included; in place (out is this rank's part of in, which
 * nobody is sent) and out of place.
 */
#include "base/memory.h"
#include "collectives/channel.h"

enum { LANES = 2 };

struct peer {
    struct halay_transfer send, recv;
};

struct lane {
    size_t chunk; /* which chunk of each part */
    int started;
    int added;
};

struct state {
    size_t chunk_length; /* elements */
    size_t chunks;       /* of the longest part */
    struct lane lanes[LANES];
    const void **src;   /* behind the peers: size */
    struct peer peer[]; /* LANES * size, then src */
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + LANES * (size_t)size * sizeof(struct peer) + (size_t)size * sizeof(void *);
}

static size_t chunk_length(const struct halay_coll *c)
{
    size_t most = c->group->world->config.ring_segment_bytes / c->element;

    return most ? most : 1;
}

/* Only this rank's own part lands here. */
static size_t landing_bytes(const struct halay_coll *c)
{
    size_t most = chunk_length(c), length = c->out.count < most ? c->out.count : most;

    return halay_round_up(length * c->element, HALAY_CACHE_LINE);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return LANES * (size_t)c->t->size * landing_bytes(c);
}

static size_t place_of(const struct halay_coll *c, const struct lane *lane, int rank)
{
    const struct state *s = c->state;

    return (size_t)((lane - s->lanes) * c->t->size + rank);
}

static struct peer *peer_of(const struct halay_coll *c, const struct lane *lane, int rank)
{
    struct state *s = c->state;

    return &s->peer[place_of(c, lane, rank)];
}

static unsigned char *landing(const struct halay_coll *c, const struct lane *lane, int rank)
{
    return c->scratch + place_of(c, lane, rank) * landing_bytes(c);
}

static struct halay_span chunk_of(const struct halay_coll *c, const struct lane *lane, int owner)
{
    const struct state *s = c->state;
    struct halay_span part = { .start = c->starts[owner], .length = c->starts[owner + 1] - c->starts[owner] };

    return halay_segment_span(part, s->chunk_length, lane->chunk);
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->chunk_length = chunk_length(c);
    for (int r = 0; r < c->t->size; r++) {
        size_t chunks = halay_segment_count(c->starts[r + 1] - c->starts[r], s->chunk_length);
        s->chunks = chunks > s->chunks ? chunks : s->chunks;
    }
    s->src = (const void **)(void *)&s->peer[LANES * c->t->size];
    for (size_t i = 0; i < LANES; i++)
        s->lanes[i].chunk = i;
}

/* Peers in the order of distance, so that not everybody begins with rank 0. */
static void lane_start(struct halay_coll *c, struct lane *lane)
{
    const struct state *s = c->state;
    uint32_t tag = (uint32_t)(lane - s->lanes);
    size_t mine = chunk_of(c, lane, c->t->rank).length;

    for (int d = 1; d < c->t->size; d++) {
        int r = (c->t->rank + c->t->size - d) % c->t->size;
        coll_recv(c, r, tag, landing(c, lane, r), mine * c->element, &peer_of(c, lane, r)->recv);
    }
    for (int d = 1; d < c->t->size; d++) {
        int r = (c->t->rank + d) % c->t->size;
        struct halay_span theirs = chunk_of(c, lane, r);
        coll_send(c, r, tag, coll_in(c) + theirs.start * c->element, theirs.length * c->element,
                  &peer_of(c, lane, r)->send);
    }
    lane->started = 1;
    lane->added = 0;
    coll_advanced(c);
}

static int all_settled(const struct halay_coll *c, const struct lane *lane, size_t member)
{
    for (int r = 0; r < c->t->size; r++)
        if (!coll_is_settled((struct halay_transfer *)(void *)((char *)peer_of(c, lane, r) + member)))
            return 0;
    return 1;
}

static void add_all(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct halay_span mine = chunk_of(c, lane, c->t->rank);
    void *dst = coll_out(c) + (mine.start - c->starts[c->t->rank]) * c->element;

    for (int r = 0; r < c->t->size; r++)
        s->src[r] = r == c->t->rank ? coll_in(c) + mine.start * c->element : landing(c, lane, r);
    if (mine.length)
        c->reducer->reduce[c->dtype][c->op](&dst, 1, s->src, c->t->size, mine.length, c->divisor);
    lane->added = 1;
    coll_advanced(c);
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
        if (!lane->added && all_settled(c, lane, offsetof(struct peer, recv)))
            add_all(c, lane);
        if (lane->added && all_settled(c, lane, offsetof(struct peer, send))) {
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

    for (int i = 0; i < LANES * c->t->size; i++) {
        coll_take_back(c, &s->peer[i].send);
        coll_take_back(c, &s->peer[i].recv);
    }
}

const struct halay_algorithm_ops halay_reduce_scatter_direct = {
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
