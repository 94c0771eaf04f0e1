/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that all algorithms over shared memory use. collectives/group/area.h defines a channel's area.
 */
#ifndef HALAY_SHARED_H
#define HALAY_SHARED_H

#include "base/memory.h"
#include "collectives/group/area.h"
#include "collectives/group/channel.h"

/* Chunk k goes through slot k mod SHARED_SLOTS. A rank with different data for each other rank has a slot for each of
 * them there. */
enum { SHARED_SLOTS = 4 };

static inline struct halay_area *shared_area(const struct halay_coll *c, int rank)
{
    return c->channel->areas[rank];
}

static inline struct halay_area *shared_mine(const struct halay_coll *c)
{
    return c->channel->areas[c->rank];
}

static inline unsigned char *shared_slots(const struct halay_coll *c, int rank)
{
    return (unsigned char *)c->channel->areas[rank] + HALAY_SLOTS_OFFSET;
}

/* Returns the bytes of a slot where a chunk goes through this number of them: by the tuning table, if they fit. */
static inline size_t shared_slot_bytes(const struct halay_coll *c, int slots)
{
    if (c->slot % HALAY_CACHE_LINE == 0 && c->slot <= HALAY_SLOTS_BYTES &&
        c->slot * SHARED_SLOTS * (size_t)slots <= HALAY_SLOTS_BYTES)
        return c->slot; /* most times: without a division */
    size_t most = HALAY_SLOTS_BYTES / (SHARED_SLOTS * (size_t)slots) / HALAY_CACHE_LINE * HALAY_CACHE_LINE;

    return c->slot < most ? c->slot : most;
}

/* Returns the bytes of a slot where each other rank has its own. */
static inline size_t shared_peer_slot_bytes(const struct halay_coll *c)
{
    return shared_slot_bytes(c, c->size - 1);
}

/* Returns a rank's slot of chunk k for another rank; bytes: shared_peer_slot_bytes. */
static inline unsigned char *shared_peer_slot(const struct halay_coll *c, int rank, int other, size_t k, size_t bytes)
{
    size_t index = (size_t)(other < rank ? other : other - 1), others = (size_t)(c->size - 1);

    return shared_slots(c, rank) + (k % SHARED_SLOTS * others + index) * bytes;
}

/* Stores a number that others wait for, and wakes the sleeping ones. */
static inline void shared_publish(struct halay_coll *c, _Atomic uint64_t *number, uint64_t value)
{
    atomic_store_explicit(number, value, memory_order_release);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank)
            halay_group_notify(c->group, r);
}

/* As the slots of these names (transport/shared_memory.h). */

static inline uint64_t shared_locate(const struct halay_coll *c, const void *ptr, size_t bytes)
{
    return c->group->memory->ops->locate(c->group->memory, ptr, bytes);
}

static inline void *shared_reach(const struct halay_coll *c, int rank, uint64_t offset, size_t bytes)
{
    return c->group->memory->ops->reach(c->group->memory, c->group->shared[rank], offset, bytes);
}

static inline int shared_has_reached(_Atomic uint64_t *number, uint64_t value)
{
    return atomic_load_explicit(number, memory_order_acquire) >= value;
}

/* Returns nonzero if all others have done their chunks up to that number. */
static inline int shared_all_have_done(const struct halay_coll *c, uint64_t number)
{
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && !shared_has_reached(&shared_area(c, r)->done, number))
            return 0;
    return 1;
}

/* Publishes a list of pieces from number `first` of the table on: all must be shared, and the table must have room.
 * Returns the number of pieces in the table, which has no empty ones. */
static inline uint32_t shared_publish_table(struct halay_coll *c, const struct halay_vector *v, size_t first,
                                            struct halay_area *area)
{
    uint64_t *entries = area->table + first, *entry = entries, end = 0;

    if (v->piece_count > (HALAY_TABLE_MAX - first) / 2)
        return 0;
    for (size_t i = 0; i < v->piece_count; i++) {
        const struct halay_piece *piece = &v->pieces[i];
        if (!piece->count)
            continue;
        uint64_t offset = shared_locate(c, piece->data, piece->count * c->element);
        if (offset == HALAY_PRIVATE)
            return 0;
        *entry++ = offset;
        *entry++ = end += piece->count;
    }
    return (uint32_t)((entry - entries) / 2);
}

/* Returns the offset in a rank's segment of element `at` of its list of `pieces` pieces from number `first` of its
 * table on, which need not be cut as ours is; 0 if the list is shorter. *length shrinks to the rest of its piece. */
static inline int shared_table_run(const struct halay_area *area, size_t first, size_t pieces,
                                   struct halay_cursor *cursor, size_t at, size_t element, uint64_t *offset,
                                   size_t *length)
{
    if (at < cursor->first)
        *cursor = (struct halay_cursor){ 0 };
    if (first > HALAY_TABLE_MAX || pieces > (HALAY_TABLE_MAX - first) / 2)
        return 0;
    const uint64_t *table = area->table + first;
    while (cursor->piece < pieces && at >= table[2 * cursor->piece + 1])
        cursor->first = (size_t)table[2 * cursor->piece++ + 1];
    if (cursor->piece == pieces)
        return 0;
    size_t left = (size_t)table[2 * cursor->piece + 1] - at;
    *offset = table[2 * cursor->piece] + (at - cursor->first) * element;
    *length = left < *length ? left : *length;
    return 1;
}

static inline enum halay_status shared_reach_failed(struct halay_coll *c, int rank)
{
    return halay_fail(c->group->world->log, HALAY_ERR_FORMAT, "rank %d gave an address outside its shared memory",
                      rank);
}

/* Returns nonzero if a rank has ended its group before its part of c, so that its buffers may have changed. The next
 * check of the peers finds out why. */
static inline int shared_is_abandoned(const struct halay_coll *c, int rank)
{
    return atomic_load_explicit(c->channel->closed[rank], memory_order_seq_cst) &&
           c->channel->areas[rank]->finished <= c->number;
}

/* Between these two this rank may write into the memory of others: enter returns 0 if one of them has given up, who
 * then waits in close only for those that are between. (busy, then closed, here; closed, then busy, there: both in the
 * one order of sequentially consistent operations, so that at least one side sees the other.) */
static inline int shared_enter(struct halay_coll *c)
{
    atomic_exchange_explicit(&shared_mine(c)->busy, 1, memory_order_seq_cst);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && shared_is_abandoned(c, r)) {
            atomic_store_explicit(&shared_mine(c)->busy, 0, memory_order_release);
            return 0;
        }
    return 1;
}

static inline void shared_leave(struct halay_coll *c)
{
    atomic_store_explicit(&shared_mine(c)->busy, 0, memory_order_release);
}

#endif
