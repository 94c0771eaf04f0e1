/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring all-reduce: the blocks are summed once around the ring, then the sums are passed once around it.
 *
 *     three ranks, blocks A B C; + is where what arrived is added
 *
 *             sum around the ring        pass the sums on
 *          step 0         step 1         step 2        step 3
 *     A   0 ----> 1+     1 ----> 2+     2 ----> 0     0 ----> 1
 *     B   1 ----> 2+     2 ----> 0+     0 ----> 1     1 ----> 2
 *     C   2 ----> 0+     0 ----> 1+     1 ----> 2     2 ----> 0
 *
 * In step s rank r sends block r - s and receives block r - s - 1 (modulo N).
 *
 * The same segment of every block forms a *lane*. Lanes walk the ring independently of each other: while one waits for the
 * wire, another adds. LANES of them are under way; each takes the next segment when it has been around twice. The receive
 * of a lane's next step is posted before the step is finished, so that what a quick neighbour sends meets it: while blocks
 * are summed the two landing places of a lane take turns.
 *
 * Cost: 2 (N - 1) steps; 2 S (N - 1) / N bytes sent and received by each rank, whatever N; 2 LANES segments of memory.
 * Any number of ranks, any count, in and out of place. A block is summed in ring order from its own rank on: the same bits
 * everywhere, but other bits when the count or the number of ranks changes, and f16 and bf16 are rounded at every hop.
 *
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
 */
#include "base/memory.h"
#include "collectives/channel.h"

enum { LANES = 4 };

struct lane {
    size_t segment; /* which segment of each block; >= segments: nothing left to do */
    int step;       /* 0 .. 2 (N - 1) - 1 */
    int posted;     /* this step's send is under way */
    int receiving;  /* receives posted: steps below this number */
    struct halay_transfer send;
    struct halay_transfer recv[2]; /* step s: recv[s & 1] */
    unsigned char *landing[2];     /* in scratch: what arrives while blocks are summed */
};

struct state {
    size_t segment_length; /* elements */
    size_t segments;       /* of the longest block */
    struct lane lanes[LANES];
};

static size_t state_bytes(int size)
{
    (void)size;
    return sizeof(struct state);
}

/* Segments of the configured size; shorter ones where there would be fewer than lanes, but not tiny. */
static size_t segment_length(const struct halay_coll *c)
{
    size_t most = c->group->world->config.ring_segment_bytes, least = HALAY_PAGE;
    size_t block = halay_block_span(c->out.count, c->t->size, 0).length * c->element;
    size_t bytes = block / LANES < most ? block / LANES : most;

    bytes = bytes > least ? bytes : least;
    return bytes / c->element;
}

static size_t scratch_bytes(const struct halay_coll *c)
{
    return 2 * LANES * halay_round_up(segment_length(c) * c->element, HALAY_CACHE_LINE);
}

static void start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->segment_length = segment_length(c);
    s->segments = halay_segment_count(halay_block_span(c->out.count, c->t->size, 0).length, s->segment_length);
    size_t bytes = halay_round_up(s->segment_length * c->element, HALAY_CACHE_LINE);
    for (size_t i = 0; i < LANES; i++) {
        s->lanes[i].segment = i;
        for (size_t k = 0; k < 2; k++)
            s->lanes[i].landing[k] = c->scratch + (2 * i + k) * bytes;
    }
}

static int last_step(const struct halay_coll *c)
{
    return 2 * (c->t->size - 1) - 1;
}

static int is_summing(const struct halay_coll *c, int step)
{
    return step < c->t->size - 1;
}

static struct halay_span lane_span(const struct halay_coll *c, const struct lane *lane, int block)
{
    const struct state *s = c->state;
    int n = c->t->size;

    return halay_segment_span(halay_block_span(c->out.count, n, ((block % n) + n) % n), s->segment_length,
                              lane->segment);
}

static struct halay_span span_sent(const struct halay_coll *c, const struct lane *lane, int step)
{
    return lane_span(c, lane, c->t->rank - step);
}

static struct halay_span span_received(const struct halay_coll *c, const struct lane *lane, int step)
{
    return lane_span(c, lane, c->t->rank - step - 1);
}

/* Where step 0's block comes from: the user's input. Later ones were summed into the output. */
static const unsigned char *sent_from(const struct halay_coll *c, const struct lane *lane, int step)
{
    return (step ? coll_out(c) : coll_in(c)) + span_sent(c, lane, step).start * c->element;
}

static void lane_receive(struct halay_coll *c, struct lane *lane, int step)
{
    struct state *s = c->state;
    struct halay_span in = span_received(c, lane, step);
    unsigned char *into =
        is_summing(c, step) ? lane->landing[step & 1] : coll_out(c) + in.start * c->element;

    coll_recv(c, (c->t->rank + c->t->size - 1) % c->t->size, (uint32_t)(lane - s->lanes), into, in.length * c->element,
              &lane->recv[step & 1]);
    lane->receiving = step + 1;
}

/* Both neighbours compute the same length for the same segment, so an empty one is skipped on both sides. Between two
 * ranks the block received in step 1 is the one sent in step 0: it is not received into before it is gone. */
static void lane_post(struct halay_coll *c, struct lane *lane)
{
    struct state *s = c->state;
    struct halay_span out = span_sent(c, lane, lane->step);
    int ahead = lane->step < last_step(c) && !(c->t->size == 2 && coll_in(c) == coll_out(c));

    if (lane->receiving == lane->step)
        lane_receive(c, lane, lane->step);
    if (ahead)
        lane_receive(c, lane, lane->step + 1);
    coll_send(c, (c->t->rank + 1) % c->t->size, (uint32_t)(lane - s->lanes), sent_from(c, lane, lane->step),
              out.length * c->element, &lane->send);
    lane->posted = 1;
}

static int lane_has_arrived(struct lane *lane)
{
    return coll_is_settled(&lane->recv[lane->step & 1]) && coll_is_settled(&lane->send);
}

static void lane_finish_step(struct halay_coll *c, struct lane *lane)
{
    struct halay_span in = span_received(c, lane, lane->step);
    size_t offset = in.start * c->element;

    if (is_summing(c, lane->step))
        coll_reduce2(c, coll_out(c) + offset, lane->landing[lane->step & 1], coll_in(c) + offset, in.length,
                     lane->step == c->t->size - 2);
    lane->posted = 0;
    if (lane->step++ == last_step(c)) {
        lane->step = 0;
        lane->receiving = 0;
        lane->segment += LANES; /* the same lane takes the same segments on every rank: their order is the match */
    }
}

static enum halay_status progress(struct halay_coll *c)
{
    struct state *s = c->state;
    int busy = 0;

    for (struct lane *lane = s->lanes; lane < s->lanes + LANES; lane++) {
        if (lane->segment < s->segments && !lane->posted)
            lane_post(c, lane);
        if (lane->segment < s->segments && lane_has_arrived(lane)) {
            lane_finish_step(c, lane);
            if (lane->segment < s->segments)
                lane_post(c, lane);
            coll_advanced(c);
        }
        busy |= lane->segment < s->segments;
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

const struct halay_algorithm_ops halay_allreduce_ring = {
    .state_bytes = state_bytes,
    .scratch_bytes = scratch_bytes,
    .start = start,
    .progress = progress,
    .cancel = cancel,
};
