/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring: blocks are summed once around the ring. An all-reduce then passes the sums once around it; a reduce-scatter
 * leaves each with its owner.
 *
 *     all-reduce of three ranks, blocks A B C; + is where what arrived is added
 *
 *             sum around the ring        pass the sums on
 *          step 0         step 1         step 2        step 3
 *     A   0 ----> 1+     1 ----> 2+     2 ----> 0     0 ----> 1
 *     B   1 ----> 2+     2 ----> 0+     0 ----> 1     1 ----> 2
 *     C   2 ----> 0+     0 ----> 1+     1 ----> 2     2 ----> 0
 *
 * In step s rank r sends block r - s and receives block r - s - 1, modulo N. A reduce-scatter is the first half of
 * that, one block further back, so that rank r ends with block r, its part; parts may differ in length.
 *
 * The same fragment of every block forms a lane. Lanes walk independently of each other: while one waits for the wire,
 * another adds. Each takes the next fragment when it has been around twice. The receive of a lane's next step is posted
 * before the step is finished, so that what a quick neighbour sends meets it: while blocks are summed the two landings
 * of a lane take turns. A reduce-scatter has no room for other ranks' sums in out: they are made where the block landed
 * and sent from there, so there are three landings: one is sent from, two are received into.
 *
 * Cost: all-reduce 2 (N - 1) steps, 2 S (N - 1) / N bytes sent and received by each rank, whatever N, 8 fragments of
 * memory; reduce-scatter half the steps and bytes, 12 fragments (uneven parts take as long as if all were as long as
 * the longest). Neighbours only. Any number of ranks, any counts, zero included, in and out of place. A block is summed
 * in ring order: the same bits everywhere, but other bits when the count or the number of ranks changes, and f16 and
 * bf16 are rounded at every hop.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
 */
#include "base/memory.h"
#include "collectives/group/channel.h"

enum { LANES = 4, LANDINGS = 2, SCATTER_LANDINGS = 3 };

/* The same fragment of every block; advances independently. */
struct lane {
    size_t fragment; /* which fragment of each block; >= fragments: nothing left to do */
    int step;        /* 0 .. 2 (N - 1) - 1, without passing on N - 2 */
    int posted;      /* this step's send is under way */
    int receiving;   /* receives posted: steps below this number */
    struct halay_transfer send;
    struct halay_transfer recv[2]; /* step s: recv[s & 1] */
    /* In scratch: what arrives while blocks are summed; step s: landing[s % landings]. */
    unsigned char *landing[SCATTER_LANDINGS];
};

struct state {
    size_t fragment_length; /* elements */
    size_t fragments;       /* of the longest block */
    struct lane lanes[LANES];
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

/* The blocks are the ranks' parts, and stay where they are summed. */
static int scatters(const struct halay_coll *c)
{
    return c->operation == HALAY_COLL_REDUCE_SCATTER;
}

static struct halay_span block_of(const struct halay_coll *c, int block)
{
    return scatters(c) ? coll_part_span(c, block) : halay_block_span(c->out.count, c->t->size, block);
}

static size_t longest_block(const struct halay_coll *c)
{
    return scatters(c) ? coll_longest_part(c) : block_of(c, 0).length;
}

static int landings(const struct halay_coll *c)
{
    return scatters(c) ? SCATTER_LANDINGS : LANDINGS;
}

/* Fragments of the configured size; shorter ones where there would be fewer than lanes, but not tiny. */
static size_t fragment_length(const struct halay_coll *c, size_t longest)
{
    size_t most = c->group->world->config.fragment_bytes, least = HALAY_PAGE, block = longest * c->element;
    size_t bytes = block / LANES < most ? block / LANES : most;

    bytes = bytes > least ? bytes : least;
    return bytes / c->element;
}

static size_t landing_bytes(const struct halay_coll *c, size_t longest)
{
    return halay_round_up(fragment_length(c, longest) * c->element, HALAY_CACHE_LINE);
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return (size_t)landings(c) * LANES * landing_bytes(c, longest_block(c));
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;
    size_t longest = longest_block(c), bytes = landing_bytes(c, longest), n = (size_t)landings(c);

    s->fragment_length = fragment_length(c, longest);
    s->fragments = halay_span_cuts(longest, s->fragment_length);
    for (size_t i = 0; i < LANES; i++) {
        s->lanes[i].fragment = i;
        for (size_t k = 0; k < n; k++)
            s->lanes[i].landing[k] = c->scratch + (n * i + k) * bytes;
    }
}

static int last_step(const struct halay_coll *c)
{
    return (scatters(c) ? 1 : 2) * (c->t->size - 1) - 1;
}

static int is_summing(const struct halay_coll *c, int step)
{
    return step < c->t->size - 1;
}

/* The rank at that distance around the ring. */
static int peer_at(const struct halay_coll *c, int distance)
{
    return (c->t->rank + distance + c->t->size) % c->t->size;
}

static struct halay_span lane_span(const struct halay_coll *c, const struct lane *lane, int back)
{
    const struct state *s = c->state;
    int n = c->t->size, block = ((c->t->rank - back - scatters(c)) % n + n) % n;

    return halay_span_cut(block_of(c, block), s->fragment_length, lane->fragment);
}

static struct halay_span span_sent(const struct halay_coll *c, const struct lane *lane, int step)
{
    return lane_span(c, lane, step);
}

static struct halay_span span_received(const struct halay_coll *c, const struct lane *lane, int step)
{
    return lane_span(c, lane, step + 1);
}

static uint32_t tag_of(const struct halay_coll *c, const struct lane *lane)
{
    const struct state *s = c->state;

    return (uint32_t)(lane - s->lanes);
}

static unsigned char *landing(const struct halay_coll *c, const struct lane *lane, int step)
{
    return lane->landing[step % landings(c)];
}

/* Where the sum of that step goes: to out, except other ranks' sums of a reduce-scatter. */
static unsigned char *sum_of(const struct halay_coll *c, const struct lane *lane, int step)
{
    size_t start = span_received(c, lane, step).start;

    if (!scatters(c))
        return coll_out(c) + start * c->element;
    if (step < last_step(c))
        return landing(c, lane, step);
    return coll_out(c) + (start - c->starts[c->t->rank]) * c->element;
}

static void lane_receive(struct halay_coll *c, struct lane *lane, int step)
{
    struct halay_span in = span_received(c, lane, step);
    unsigned char *into = is_summing(c, step) ? landing(c, lane, step) : coll_out(c) + in.start * c->element;

    coll_recv(c, peer_at(c, -1), tag_of(c, lane), into, in.length * c->element, &lane->recv[step & 1]);
    lane->receiving = step + 1;
}

/* Both neighbours compute the same length for the same fragment, so an empty one is skipped on both sides. Between two
 * ranks the block received in step 1 is the one sent in step 0: it is not received into before it is gone. Step 0's
 * block comes from the user's input, later ones from where they were summed or received. */
static void lane_post(struct halay_coll *c, struct lane *lane)
{
    struct halay_span out = span_sent(c, lane, lane->step);
    const unsigned char *from = coll_in(c) + out.start * c->element;
    int ahead = lane->step < last_step(c) && !(c->t->size == 2 && coll_in(c) == coll_out(c));

    if (lane->step)
        from = scatters(c) ? landing(c, lane, lane->step - 1) : coll_out(c) + out.start * c->element;
    if (lane->receiving == lane->step)
        lane_receive(c, lane, lane->step);
    if (ahead)
        lane_receive(c, lane, lane->step + 1);
    coll_send(c, peer_at(c, 1), tag_of(c, lane), from, out.length * c->element, &lane->send);
    lane->posted = 1;
}

static int lane_has_arrived(struct lane *lane)
{
    return coll_is_settled(&lane->recv[lane->step & 1]) && coll_is_settled(&lane->send);
}

static void lane_finish_step(struct halay_coll *c, struct lane *lane)
{
    struct halay_span in = span_received(c, lane, lane->step);

    if (is_summing(c, lane->step))
        coll_reduce2(c, sum_of(c, lane, lane->step), landing(c, lane, lane->step), coll_in(c) + in.start * c->element,
                     in.length, lane->step == c->t->size - 2);
    lane->posted = 0;
    if (lane->step++ == last_step(c)) {
        lane->step = 0;
        lane->receiving = 0;
        lane->fragment += LANES; /* the same lane takes the same fragments on every rank: their order is the match */
    }
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int busy = 0;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        if (lane->fragment < s->fragments && !lane->posted)
            lane_post(c, lane);
        if (lane->fragment < s->fragments && lane_has_arrived(lane)) {
            lane_finish_step(c, lane);
            if (lane->fragment < s->fragments)
                lane_post(c, lane);
            coll_advanced(c);
        }
        busy |= lane->fragment < s->fragments;
    }
    return busy ? HALAY_IN_PROGRESS : HALAY_OK;
}

static void cancel(struct halay_coll *c)
{
    struct state *s = c->state;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        coll_take_back(c, &lane->send);
        coll_take_back(c, &lane->recv[0]);
        coll_take_back(c, &lane->recv[1]);
    }
}

const struct halay_algorithm_ops halay_ring = {
    .tags = LANES,
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
