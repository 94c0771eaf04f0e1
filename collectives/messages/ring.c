/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk around a ring, in lanes: see allreduce_ring.c for the picture and the cost.
 *
 * In step s rank r sends block r - d s and receives block r - d (s + 1), modulo N, where d is the direction. If the
 * sums are to stay where they are made (reduce-scatter), all of it begins one block further back, so that rank r ends
 * with block r.
 *
 * The same segment of every block forms a lane. Lanes walk independently of each other: while one waits for the wire,
 * another adds. Each takes the next segment when it has been around twice. The receive of a lane's next step is posted
 * before the step is finished, so that what a quick neighbour sends meets it: while blocks are summed the two landing
 * places of a lane take turns. A reduce-scatter has no place for other ranks' sums in out: they are made where the
 * block landed and sent from there, so there are three places: one is sent from, two are received into.
 */
#include "collectives/messages/ring.h"
#include "base/memory.h"
#include "collectives/group/channel.h"

enum { LANES = HALAY_RING_LANES, PLACES = 2, SCATTER_PLACES = 3 };

/* Segments of the configured size; shorter ones where there would be fewer than lanes, but not tiny. */
static size_t segment_length(const struct halay_coll *c, size_t longest)
{
    size_t most = c->group->world->config.ring_segment_bytes, least = HALAY_PAGE, block = longest * c->element;
    size_t bytes = block / LANES < most ? block / LANES : most;

    bytes = bytes > least ? bytes : least;
    return bytes / c->element;
}

static size_t landing_bytes(const struct halay_coll *c, size_t longest)
{
    return halay_round_up(segment_length(c, longest) * c->element, HALAY_CACHE_LINE);
}

static size_t longest_block(const struct halay_coll *c, size_t count)
{
    return halay_block_span(count, c->t->size, 0).length;
}

static int places(const struct halay_ring *ring)
{
    return ring->scatters ? SCATTER_PLACES : PLACES;
}

size_t halay_ring_scratch(const struct halay_coll *c, size_t count)
{
    return PLACES * LANES * landing_bytes(c, longest_block(c, count));
}

size_t halay_ring_scatter_scratch(const struct halay_coll *c)
{
    return SCATTER_PLACES * LANES * landing_bytes(c, coll_longest_part(c));
}

void halay_ring_start(const struct halay_coll *c, struct halay_ring *ring, unsigned char *scratch)
{
    size_t longest = ring->scatters ? coll_longest_part(c) : longest_block(c, ring->part.length);
    size_t bytes = landing_bytes(c, longest), n = (size_t)places(ring);

    ring->segment_length = segment_length(c, longest);
    ring->segments = halay_segment_count(longest, ring->segment_length);
    for (size_t i = 0; i < LANES; i++) {
        ring->lanes[i].segment = i;
        for (size_t k = 0; k < n; k++)
            ring->lanes[i].landing[k] = scratch + (n * i + k) * bytes;
    }
}

static int last_step(const struct halay_coll *c, const struct halay_ring *ring)
{
    return (ring->scatters ? 1 : 2) * (c->t->size - 1) - 1;
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
    int n = c->t->size, block = ((c->t->rank - ring->direction * (back + ring->scatters)) % n + n) % n;
    struct halay_span whole;

    if (ring->scatters) {
        whole = (struct halay_span){ .start = c->starts[block], .length = c->starts[block + 1] - c->starts[block] };
    } else {
        whole = halay_block_span(ring->part.length, n, block);
        whole.start += ring->part.start;
    }
    return halay_segment_span(whole, ring->segment_length, lane->segment);
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

static unsigned char *landing(const struct halay_ring *ring, const struct halay_ring_lane *lane, int step)
{
    return lane->landing[step % places(ring)];
}

/* Where the sum of that step goes: out, but for others' sums of a reduce-scatter. */
static unsigned char *sum_of(const struct halay_coll *c, const struct halay_ring *ring,
                             const struct halay_ring_lane *lane, int step)
{
    size_t start = span_received(c, ring, lane, step).start;

    if (!ring->scatters)
        return coll_out(c) + start * c->element;
    if (step < last_step(c, ring))
        return landing(ring, lane, step);
    return coll_out(c) + (start - c->starts[c->t->rank]) * c->element;
}

static void lane_receive(struct halay_coll *c, struct halay_ring *ring, struct halay_ring_lane *lane, int step)
{
    struct halay_span in = span_received(c, ring, lane, step);
    unsigned char *into = is_summing(c, step) ? landing(ring, lane, step) : coll_out(c) + in.start * c->element;

    coll_recv(c, peer_at(c, ring, -1), tag_of(ring, lane), into, in.length * c->element, &lane->recv[step & 1]);
    lane->receiving = step + 1;
}

/* Both neighbours compute the same length for the same segment, so an empty one is skipped on both sides. Between two
 * ranks the block received in step 1 is the one sent in step 0: it is not received into before it is gone. Step 0's
 * block comes from the user's input, later ones from where they were summed or received. */
static void lane_post(struct halay_coll *c, struct halay_ring *ring, struct halay_ring_lane *lane)
{
    struct halay_span out = span_sent(c, ring, lane, lane->step);
    const unsigned char *from = coll_in(c) + out.start * c->element;
    int ahead = lane->step < last_step(c, ring) && !(c->t->size == 2 && coll_in(c) == coll_out(c));

    if (lane->step)
        from = ring->scatters ? landing(ring, lane, lane->step - 1) : coll_out(c) + out.start * c->element;
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

    if (is_summing(c, lane->step))
        coll_reduce2(c, sum_of(c, ring, lane, lane->step), landing(ring, lane, lane->step),
                     coll_in(c) + in.start * c->element, in.length, lane->step == c->t->size - 2);
    lane->posted = 0;
    if (lane->step++ == last_step(c, ring)) {
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

size_t halay_ring_alone_bytes(int size)
{
    (void)size;
    return sizeof(struct halay_ring);
}

enum halay_status halay_ring_alone_progress(struct halay_coll *c)
{
    return halay_ring_progress(c, c->state) ? HALAY_IN_PROGRESS : HALAY_OK;
}

void halay_ring_alone_cancel(struct halay_coll *c)
{
    halay_ring_cancel(c, c->state);
}
