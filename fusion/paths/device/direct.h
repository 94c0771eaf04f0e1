/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: the devices of this host reduce a bucket of the set of all ranks whose data are on them. Driver only, except
 * opening and closing.
 */
#ifndef HALAY_DIRECT_H
#define HALAY_DIRECT_H

#include "fusion/paths/device/device_state.h"
#include "fusion/run/bucket.h"

/* Initialises, before the driver starts: whether devices may be used directly in this world. */
void halay_direct_init(struct halay_context *ctx);
/* Closes, when the driver has stopped and the group still exists: closes the others' segments, and waits briefly until
 * the other ranks have done so. */
void halay_direct_close(struct halay_context *ctx);
/* Frees everything. The group has been closed, and the devices are about to be. */
void halay_direct_free(struct halay_context *ctx);

/* Returns nonzero if a submission may now be reduced directly. Any thread: equal submissions may still not be. */
static inline int halay_direct_may_be(const struct halay_context *ctx)
{
    return atomic_load_explicit(&halay_device_carrier_of(ctx)->direct.state, memory_order_relaxed) !=
           HALAY_DIRECT_REFUSED;
}

/* Starts a bucket whose data all ranks have announced on devices. HALAY_IN_PROGRESS, or an error. */
enum halay_status halay_direct_start(struct halay_bucket *b);
/* Returns HALAY_OK once the results are being computed on a stream of ours, or b->coll runs instead. */
enum halay_status halay_direct_progress(struct halay_bucket *b);

/* Returns nonzero while a device works for the bucket; otherwise it waits for ranks, whose messages ring. */
static inline int halay_direct_is_at_work(const struct halay_context *ctx)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    return d->bucket && (d->is_launched || d->step == HALAY_DIRECT_STAGE);
}
/* Returns nonzero if the next bucket of this set must wait. */
int halay_direct_is_busy(const struct halay_process_set *set);
/* Drops the bucket. Work that devices have been given continues. */
void halay_direct_drop(struct halay_bucket *b);

#endif
