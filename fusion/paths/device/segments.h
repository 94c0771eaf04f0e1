/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: the device memory of each rank through which the devices of a host reduce, and who can access it. Driver
 * only, except closing.
 */
#ifndef HALAY_SEGMENTS_H
#define HALAY_SEGMENTS_H

#include "fusion/paths/device/device_state.h"
#include "fusion/run/bucket.h"

enum {
    HALAY_SEGMENT_ALIGN = 16,                                     /* bytes at which each part begins */
    HALAY_SEGMENT_FLAGS = (HALAY_DEVICE_FLAGS + 255) / 256 * 256, /* bytes at its end */
    HALAY_SEGMENT_CLEAR_MS = 10000,
    HALAY_SEGMENT_CLOSE_MS = 2000,
};

static inline struct halay_direct *halay_direct_of(const struct halay_bucket *b)
{
    return &halay_device_carrier_of(b->set->ctx)->direct;
}
static inline int halay_direct_is_open(const struct halay_direct *d)
{
    return atomic_load_explicit(&d->state, memory_order_relaxed) == HALAY_DIRECT_OPEN;
}
static inline void halay_direct_set_state(struct halay_direct *d, enum halay_direct_state state)
{
    atomic_store_explicit(&d->state, state, memory_order_relaxed);
}

/* Returns nonzero if this rank's settings allow it a segment. */
int halay_segments_are_wanted(const struct halay_context *ctx);
/* Makes the engine's streams on the device, and their events. */
enum halay_status halay_segments_streams(struct halay_context *ctx);
/* Makes the next collective of the ranks of this host one of the bucket's. */
void halay_segments_number_next(const struct halay_bucket *b);

/* Makes this rank's segment. */
void halay_segments_create(struct halay_bucket *b);
/* Sends the handle of this rank's segment. A rank without a segment takes part, too, so that no rank waits for it.
 * HALAY_IN_PROGRESS: its device has not cleared it yet. */
enum halay_status halay_segments_share(struct halay_bucket *b);
/* Sends whether this rank can access all segments of its host. */
enum halay_status halay_segments_agree(struct halay_bucket *b);
/* Finds the room of all hosts, and the rank that refuses: the lowest without a segment, or else the lowest, plus the
 * number of ranks. */
enum halay_status halay_segments_agree_hosts(struct halay_bucket *b);
/* Opens the direct way if all ranks can access all segments; otherwise refuses it. */
void halay_segments_conclude(struct halay_context *ctx);

/* Waits briefly until all ranks have called it. */
enum halay_status halay_segments_barrier(struct halay_context *ctx);
/* Closes the others' segments, and has them close this rank's. */
void halay_segments_close(struct halay_context *ctx, int is_agreed);
/* Frees this rank's segment, unless another rank may still have it open, and the streams. */
void halay_segments_free(struct halay_context *ctx);

#endif
