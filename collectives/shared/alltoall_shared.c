/* SPDX-License-Identifier: Apache-2.0
 *
 * All-to-all over shared memory, even and with splits: every rank copies its blocks from every rank's memory.
 *
 *     A   publishes its blocks for A B C                copies   A's block of b, of c         done; waits for B and C
 *     B   publishes its blocks for A B C                copies   B's block of c, of a         done
 *     C   publishes its blocks for A B C                copies   C's block of a, of b         done
 *
 *   arrive  one entry a rank of the table (area.h): offset and length of its block; the chunks of the longest block. No
 *           rank knows that of all, so the numbers of the channel grow by the largest that was published (by one
 *           without any).
 *   own     a rank's block for itself, copied while it waits for the others
 *   fill    a private rank copies chunk k of every other's block into its slots, one a taker: the slots k mod
 *           SHARED_SLOTS, when every rank has taken chunk k - SHARED_SLOTS
 *   take    chunk k of every block that is for this rank, beginning with the next rank's, not all with rank 0's
 *   end     when every rank has taken everything: memory and slots are free again
 *
 * In place a rank uses the slots even if its memory is shared, and takes chunk k when its own chunk k is in a slot.
 *
 * A giver that gives up is noticed as in shared_copy.c: after the copy its taker checks that it had not.
 *
 * Cost: 2 exchanges; each rank reads and writes S bytes (private or in place: twice). Any number of ranks, any counts,
 * zero included.
 */
#include "base/memory.h"
#include "base/sync.h"
#include "collectives/shared/shared.h"

struct giver {
    const unsigned char *data; /* its block for this rank; NULL: through its slots */
};

struct state {
    uint64_t base;        /* chunks of this channel before this collective */
    size_t chunk, chunks; /* elements of one; of the longest block of any rank */
    size_t slot;          /* bytes of the slot for one taker */
    int is_private;       /* this rank fills slots */
    int slotted;          /* some rank does */
    int arrived;          /* ranks below have arrived */
    int distance;         /* of the rank to take from next */
    size_t own;           /* elements of this rank's own block that are copied */
    size_t fills, takes;  /* chunks of the longest block that this rank gives, takes */
    size_t filled, taken;
    struct giver giver[];
};

static size_t state_bytes(int size)
{
    return sizeof(struct state) + (size_t)size * sizeof(struct giver);
}

static struct halay_span block_of(const size_t *starts, int rank)
{
    return (struct halay_span){ .start = starts[rank], .length = starts[rank + 1] - starts[rank] };
}

static size_t longest_block(const struct halay_coll *c, const size_t *starts)
{
    size_t most = 0;

    for (int r = 0; r < c->size; r++)
        if (r != c->rank && block_of(starts, r).length > most)
            most = block_of(starts, r).length;
    return most;
}

/* Returns a private rank's slot for chunk k of the taker's block. */
static unsigned char *slot_of(const struct halay_coll *c, int rank, int taker, size_t k)
{
    const struct state *s = c->state;

    return shared_peer_slot(c, rank, taker, k, s->slot);
}

/* ---- arrive ---- */

static void announce_blocks(struct halay_coll *c)
{
    struct state *s = c->state;
    struct halay_area *area = shared_mine(c);
    uint64_t offset = HALAY_PRIVATE;

    if (c->in.count && coll_in(c) != coll_out(c))
        offset = shared_locate(c, coll_in(c), c->in.count * c->element);
    s->is_private = c->in.count && offset == HALAY_PRIVATE;
    s->slotted = s->is_private;
    for (int r = 0; r < c->size; r++) {
        area->table[2 * r] = s->is_private ? HALAY_PRIVATE : offset + c->in_starts[r] * c->element;
        area->table[2 * r + 1] = block_of(c->in_starts, r).length;
    }
    area->in_offset = offset;
    area->chunks = s->fills;
    shared_publish(c, &area->arrived, s->base + 1);
}

static void alltoall_start(struct halay_coll *c)
{
    struct state *s = c->state;

    s->slot = shared_peer_slot_bytes(c);
    s->chunk = coll_elements(c, s->slot);
    s->fills = halay_span_cuts(longest_block(c, c->in_starts), s->chunk);
    s->takes = halay_span_cuts(longest_block(c, c->starts), s->chunk);
    s->chunks = s->fills > 1 ? s->fills : 1;
    s->distance = 1;
    s->base = c->channel->numbers.chunks;
    announce_blocks(c);
}

static enum halay_status reach_peer(struct halay_coll *c, int rank)
{
    struct state *s = c->state;
    const struct halay_area *area = shared_area(c, rank);
    size_t length = block_of(c->starts, rank).length;
    uint64_t offset = area->table[2 * c->rank], given = area->table[2 * c->rank + 1];

    if (given != length)
        return halay_fail(c->group->world->log, HALAY_ERR_FORMAT,
                          "rank %d gives %llu elements to rank %d, which expects %zu", rank, (unsigned long long)given,
                          c->rank, length);
    s->chunks = area->chunks > s->chunks ? area->chunks : s->chunks;
    s->slotted |= area->in_offset == HALAY_PRIVATE;
    if (offset == HALAY_PRIVATE || !length)
        return HALAY_OK;
    s->giver[rank].data = shared_reach(c, rank, offset, length * c->element);
    return s->giver[rank].data ? HALAY_OK : shared_reach_failed(c, rank);
}

static enum halay_status reach_all(struct halay_coll *c)
{
    struct state *s = c->state;

    for (; s->arrived < c->size; s->arrived++) {
        if (s->arrived == c->rank)
            continue;
        if (!shared_has_reached(&shared_area(c, s->arrived)->arrived, s->base + 1))
            return HALAY_IN_PROGRESS;
        enum halay_status status = reach_peer(c, s->arrived);
        if (status != HALAY_OK)
            return status;
    }
    c->channel->numbers.chunks = s->base + s->chunks;
    return HALAY_OK;
}

/* ---- give ---- */

static void fill_slots(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->filled >= SHARED_SLOTS && !shared_all_have_done(c, s->base + s->filled - SHARED_SLOTS + 1))
        return;
    for (int r = 0; r < c->size; r++) {
        struct halay_span span = halay_span_cut(block_of(c->in_starts, r), s->chunk, s->filled);
        if (r != c->rank && span.length)
            halay_copy(slot_of(c, c->rank, r, s->filled), coll_in(c) + span.start * c->element,
                       span.length * c->element);
    }
    s->filled++;
    shared_publish(c, &shared_mine(c)->filled, s->base + s->filled);
    coll_advanced(c);
}

/* ---- take ---- */

/* Copies this rank's block for itself. */
static size_t own_length(const struct halay_coll *c)
{
    return block_of(c->starts, c->rank).length ? block_of(c->in_starts, c->rank).length : 0;
}

static void take_own(struct halay_coll *c)
{
    struct state *s = c->state;
    struct halay_span in = block_of(c->in_starts, c->rank), out = block_of(c->starts, c->rank);
    size_t left = own_length(c) - s->own, length = left < s->chunk ? left : s->chunk;
    const unsigned char *from = coll_in(c) + (in.start + s->own) * c->element;
    unsigned char *to = coll_out(c) + (out.start + s->own) * c->element;

    if (to != from)
        halay_copy(to, from, length * c->element);
    s->own += length;
    coll_advanced(c);
}

/* Returns 0 if the block is not ready, or the giver has given up, which the next check of the peers reports. */
static int take_block_from(struct halay_coll *c, int rank, struct halay_span span)
{
    const struct state *s = c->state;
    const unsigned char *data = s->giver[rank].data;

    if (!data && !shared_has_reached(&shared_area(c, rank)->filled, s->base + s->taken + 1))
        return 0;
    if (shared_is_abandoned(c, rank))
        return 0;
    data = data ? data + (span.start - c->starts[rank]) * c->element : slot_of(c, rank, c->rank, s->taken);
    halay_copy(coll_out(c) + span.start * c->element, data, span.length * c->element);
    halay_full_fence(); /* the copy before the check */
    return !shared_is_abandoned(c, rank);
}

/* Copies the chunk `taken` of one block. */
static void alltoall_take(struct halay_coll *c)
{
    struct state *s = c->state;
    int next = c->rank + s->distance, rank = next < c->size ? next : next - c->size;
    struct halay_span span = halay_span_cut(block_of(c->starts, rank), s->chunk, s->taken);

    if (span.length && !take_block_from(c, rank, span))
        return;
    coll_advanced(c);
    if (++s->distance < c->size)
        return;
    s->distance = 1;
    s->taken++;
    if (s->slotted && s->taken < s->takes) /* otherwise no rank waits for it */
        shared_publish(c, &shared_mine(c)->done, s->base + s->taken);
}

static enum halay_status alltoall_progress(struct halay_coll *c)
{
    struct state *s = c->state;

    if (s->is_private && s->filled < s->fills)
        fill_slots(c);
    if (s->own < own_length(c)) {
        take_own(c);
        return HALAY_IN_PROGRESS;
    }
    if (s->arrived < c->size) {
        enum halay_status status = reach_all(c);
        if (status != HALAY_OK)
            return status;
        if (!s->takes)
            shared_publish(c, &shared_mine(c)->done, s->base + s->chunks);
    }
    int in_place = coll_in(c) == coll_out(c);
    if (s->taken < s->takes && (!in_place || s->taken < s->filled)) {
        alltoall_take(c);
        if (s->taken == s->takes)
            shared_publish(c, &shared_mine(c)->done, s->base + s->chunks);
    }
    return s->taken == s->takes && (!s->is_private || s->filled == s->fills) &&
                   shared_all_have_done(c, s->base + s->chunks)
               ? HALAY_OK
               : HALAY_IN_PROGRESS;
}

const struct halay_algorithm_ops halay_alltoall_shared = {
    .state_bytes = state_bytes,
    .start = alltoall_start,
    .progress = alltoall_progress,
};
