/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: the devices of this host reduce a bucket of the set of all ranks whose data are on them. Driver only, except
 * opening and closing.
 */
#ifndef HALAY_DIRECT_H
#define HALAY_DIRECT_H

#include "fusion/paths/device/hosts.h"
#include "fusion/run/bucket.h"

/* Determines whether the ranks of this world may reduce on their devices. Called before the driver starts. */
void halay_direct_init(struct halay_context *ctx);
/* Closes the other ranks' segments, and waits briefly until they have closed this rank's. Called when the driver has
 * stopped and the group still exists. */
void halay_direct_close(struct halay_context *ctx);
/* Frees everything. Called when the group has been closed, before the devices are. */
void halay_direct_free(struct halay_context *ctx);

/* Starts a bucket whose data all ranks have announced on devices. HALAY_IN_PROGRESS, or an error. */
enum halay_status halay_direct_start(struct halay_bucket *b);
/* Returns HALAY_OK once the results are being computed on the engine's stream, or b->coll runs instead. */
enum halay_status halay_direct_progress(struct halay_bucket *b);

/* Returns nonzero while a device works for the bucket. Otherwise it waits for other ranks, whose messages ring the
 * bell. */
static inline int halay_direct_is_at_work(const struct halay_context *ctx)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    return d->bucket && (d->is_launched || d->step == HALAY_DIRECT_STAGE || d->step == HALAY_DIRECT_MAKE ||
                         d->step == HALAY_DIRECT_SHARE || d->step == HALAY_DIRECT_NCCL ||
                         (d->step == HALAY_DIRECT_WIRE && halay_hosts_is_copying(&d->hosts)));
}
/* halay_carrier_ops.may_take */
int halay_direct_may_take(const struct halay_process_set *set, const struct halay_signature *signature);
/* Returns nonzero if the next bucket of this set must wait. */
int halay_direct_is_busy(const struct halay_process_set *set);
/* Ends the waits of kernels for other ranks: what they compute then is worth nothing. */
void halay_direct_fail(struct halay_context *ctx);
int halay_direct_has_failed(const struct halay_context *ctx);
/* Drops the bucket. Work that has been queued on devices continues. */
void halay_direct_drop(struct halay_bucket *b);

#endif
