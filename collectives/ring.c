/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk around a ring, in lanes: see allreduce_ring.c for the picture and the cost.
 *
 * In step s rank r sends block r - d s and receives block r - d (s + 1), modulo N, where d is the direction.
 *
 * The same segment of every block forms a lane. Lanes walk independently of each other: while one waits for the wire,
 * another adds. Each takes the next segment when it has been around twice. The receive of a lane's next step is posted
 * before the step is finished, so that what a quick neighbour sends meets it: while blocks are summed the two landing
 * places of a lane take turns.
 */
#include "collectives/ring.h"
#include "base/memory.h"
#include "collectives/channel.h"

enum { LANES = HALAY_RING_LANES };

/* Segments of the configured size; shorter ones where there would be fewer than lanes, but not tiny. */
static size_t segment_length(const struct halay_coll *c, size_t count)
{
    size_t most = c->group->world->config.ring_segment_bytes, least = HALAY_PAGE;
    size_t block = halay_block_span(count, c->t->size, 0).length * c->element;
    size_t bytes = block / LANES < most ? block / LANES : most;

    bytes = bytes > least ? bytes : least;
    return bytes / c->element;
}

static size_t landing_bytes(const struct halay_coll *c, size_t count)
{
    return halay_round_up(segment_length(c, count) * c->element, HALAY_CACHE_LINE);
}

size_t halay_ring_scratch(const struct halay_coll *c, size_t count)
{
    return 2 * LANES * landing_bytes(c, count);
}

void halay_ring_start(const struct halay_coll *c, struct halay_ring *ring, unsigned char *scratch)
{
    size_t bytes = landing_bytes(c, ring->part.length);

    ring->segment_length = segment_length(c, ring->part.length);
    ring->segments =
        halay_segment_count(halay_block_span(ring->part.length, c->t->size, 0).length, ring->segment_length);
    for (size_t i = 0; i < LANES; i++) {
        ring->lanes[i].segment = i;
        for (size_t k = 0; k < 2; k++)
            ring->lanes[i].landing[k] = scratch + (2 * i + k) * bytes;
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

/* The rank at that distance in the ring's direction. */
static int peer_at(const struct halay_coll *c, const struct halay_ring *ring, int distance)
{
    return (c->t->rank + ring->direction * distance + c->t->size) % c->t->size;
}

static struct halay_span lane_span(const struct halay_coll *c, const struct halay_ring *ring,
                                   const struct halay_ring_lane *lane, int back)
{
    int n = c->t->size, block = ((c->t->rank - ring->direction * back) % n + n) % n;
    struct halay_span span =
        halay_segment_span(halay_block_span(ring->part.length, n, block), ring->segment_length, lane->segment);

    span.start += ring->part.start;
    return span;
}

static struct halay_span span_sent(const struct halay_coll *c, const struct halay_ring *ring,
                                   const struct halay_ring_lane *lane, int step)
{
    return lane_span(c, ring, lane, step);
}

static struct halay_span span_received(const struct halay_coll *c, const struct halay_ring *ring,
                                       const struct halay_ring_lane *lane, int step)
{
    return lane_span(c, ring, lane, step + 1);
}

static uint32_t tag_of(const struct halay_ring *ring, const struct halay_ring_lane *lane)
{
    return ring->tag + (uint32_t)(lane - ring->lanes);
}

static void lane_receive(struct halay_coll *c, struct halay_ring *ring, struct halay_ring_lane *lane, int step)
{
    struct halay_span in = span_received(c, ring, lane, step);
    unsigned char *into =
        is_summing(c, step) ? lane->landing[step & 1] : coll_out(c) + in.start * c->element;

    coll_recv(c, peer_at(c, ring, -1), tag_of(ring, lane), into, in.length * c->element, &lane->recv[step & 1]);
    lane->receiving = step + 1;
}

/* Both neighbours compute the same length for the same segment, so an empty one is skipped on both sides. Between two
 * ranks the block received in step 1 is the one sent in step 0: it is not received into before it is gone. Step 0's block
 * comes from the user's input; later ones were summed into the output. */
static void lane_post(struct halay_coll *c, struct halay_ring *ring, struct halay_ring_lane *lane)
{
    struct halay_span out = span_sent(c, ring, lane, lane->step);
    const unsigned char *from = (lane->step ? coll_out(c) : coll_in(c)) + out.start * c->element;
    int ahead = lane->step < last_step(c) && !(c->t->size == 2 && coll_in(c) == coll_out(c));

    if (lane->receiving == lane->step)
        lane_receive(c, ring, lane, lane->step);
    if (ahead)
        lane_receive(c, ring, lane, lane->step + 1);
    coll_send(c, peer_at(c, ring, 1), tag_of(ring, lane), from, out.length * c->element, &lane->send);
    lane->posted = 1;
}

static int lane_has_arrived(struct halay_ring_lane *lane)
{
    return coll_is_settled(&lane->recv[lane->step & 1]) && coll_is_settled(&lane->send);
}

static void lane_finish_step(struct halay_coll *c, struct halay_ring *ring, struct halay_ring_lane *lane)
{
    struct halay_span in = span_received(c, ring, lane, lane->step);
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

int halay_ring_progress(struct halay_coll *c, struct halay_ring *ring)
{
    int busy = 0;

    for (struct halay_ring_lane *lane = ring->lanes; lane < ring->lanes + LANES; lane++) {
        if (lane->segment < ring->segments && !lane->posted)
            lane_post(c, ring, lane);
        if (lane->segment < ring->segments && lane_has_arrived(lane)) {
            lane_finish_step(c, ring, lane);
            if (lane->segment < ring->segments)
                lane_post(c, ring, lane);
            coll_advanced(c);
        }
        busy |= lane->segment < ring->segments;
    }
    return busy;
}

void halay_ring_cancel(struct halay_coll *c, struct halay_ring *ring)
{
    for (struct halay_ring_lane *lane = ring->lanes; lane < ring->lanes + LANES; lane++) {
        coll_take_back(c, &lane->send);
        coll_take_back(c, &lane->recv[0]);
        coll_take_back(c, &lane->recv[1]);
    }
}
