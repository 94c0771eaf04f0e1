/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: a bucket of the set of all ranks whose data are on devices of this host is reduced by the devices. Driver
 * only, but for opening and closing.
 */
#ifndef HALAY_DIRECT_H
#define HALAY_DIRECT_H

#include "fusion/paths/device/device_state.h"
#include "fusion/run/bucket.h"

/* Before the driver starts: whether it may be tried in this world. */
void halay_direct_init(struct halay_context *ctx);
/* The driver has stopped, the group is there: what the others have is let go of, and the ranks wait for each other to
 * have done so, for a moment. */
void halay_direct_close(struct halay_context *ctx);
/* There is no group any more, and the devices are about to be closed. */
void halay_direct_free(struct halay_context *ctx);

/* May what is submitted now go this way? Any thread: what is submitted alike may not, after all. */
static inline int halay_direct_may_be(const struct halay_context *ctx)
{
    return atomic_load_explicit(&halay_device_carrier_of(ctx)->direct.state, memory_order_relaxed) !=
           HALAY_DIRECT_REFUSED;
}

/* Start a bucket of which all ranks have said that its data are on devices. HALAY_IN_PROGRESS, or an error. */
enum halay_status halay_direct_start(struct halay_bucket *b);
/* HALAY_OK once the results are on their way by a stream of ours, or b->coll runs in its place. */
enum halay_status halay_direct_progress(struct halay_bucket *b);

/* Nonzero while a device works for the bucket; otherwise ranks are waited for, whose messages ring. */
static inline int halay_direct_is_at_work(const struct halay_context *ctx)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    return d->bucket && (d->is_launched || d->step == HALAY_DIRECT_STAGE);
}
/* Nonzero if what comes next in this set must wait. */
int halay_direct_is_busy(const struct halay_process_set *set);
/* The bucket is given up. What devices have been given continues. */
void halay_direct_drop(struct halay_bucket *b);

#endif
