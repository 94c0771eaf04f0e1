/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts: the part of a direct all-reduce that leaves the host. Driver only, except opening and closing.
 */
#ifndef HALAY_HOSTS_H
#define HALAY_HOSTS_H

#include "fusion/paths/device/device_state.h"

/* Notes where this world's ranks are. */
void halay_hosts_init(struct halay_context *ctx);

/* Makes the groups. HALAY_IN_PROGRESS: no bell rings, poll. */
enum halay_status halay_hosts_make(struct halay_context *ctx);
/* Takes pinned memory for a rank's share of this number of bytes of each segment. Errors of the device. */
enum halay_status halay_hosts_reserve(struct halay_context *ctx, size_t bytes);
/* Gives it back: no share has been started. */
void halay_hosts_unreserve(struct halay_context *ctx);

/* Starts to sum a share over all hosts, in place: elements of this type on the direct device, once its stream has come
 * to this point. */
enum halay_status halay_hosts_start(struct halay_context *ctx, void *share, size_t count, enum halay_dtype dtype);
/* Returns HALAY_OK once the direct stream's later work finds the sums in the share; HALAY_IN_PROGRESS, or an error. */
enum halay_status halay_hosts_progress(struct halay_context *ctx);
/* Returns the status of a collective of one of the groups. An error closes the group of all ranks, with the rank. */
enum halay_status halay_hosts_report(struct halay_context *ctx, struct halay_group *group, enum halay_status status);
/* Returns nonzero if a device still has to copy for the share: nothing rings when it has. */
static inline int halay_hosts_is_copying(const struct halay_hosts *h)
{
    return h->started < h->chunks;
}
/* Returns how often the hosts' collectives have advanced: a driver compares it before it sleeps. */
unsigned long halay_hosts_work(const struct halay_context *ctx);
/* Checks the peers in the groups. */
void halay_hosts_check(struct halay_context *ctx);
/* If the group of all ranks has failed, fails these with its status. */
void halay_hosts_fail(struct halay_context *ctx);
/* Ends what is under way; ending a collective closes its group. */
void halay_hosts_drop(struct halay_context *ctx);

/* Closes the groups and gives the pinned memory back, once its copies have ended. */
void halay_hosts_close(struct halay_context *ctx);
/* Frees the events. */
void halay_hosts_free(struct halay_context *ctx);

/* Returns the group of the ranks of this host. */
static inline struct halay_group *halay_hosts_near(const struct halay_context *ctx)
{
    const struct halay_hosts *h = &halay_device_carrier_of(ctx)->direct.hosts;

    return h->count > 1 ? h->near : ctx->all.group;
}

#endif
