/* SPDX-License-Identifier: Apache-2.0
 *
 * Hosts: where a job has several, each with the same number of ranks, the devices of a host reduce first (direct.c),
 * and each of its ranks has a share of the sums. This file sums the shares over the hosts:
 *
 *     two hosts of two ranks; share 0 is A's and C's, share 1 is B's and D's
 *
 *     near   A B, and C D: barriers of a host's ranks, and the handles of their segments
 *     rail   A C, and B D: all-reduces of the shares, by the algorithm that the table has for this number of hosts
 *
 *     device -> pinned     chunk 0   1    2    3
 *     rail                           0    1    2    3        DEPTH at most
 *     pinned -> device                    0    1    2    3
 *
 * So each of a host's p ranks copies a p-th of the data, and sends what its all-reduce needs. The pinned memory
 * has room for a whole share: a chunk waits for no other one's place.
 *
 * Buckets on devices run one at a time, in the same order on all ranks, also in a plan: so the collectives of these
 * groups need no numbers but their own. The groups are made at the first bucket. Members of several groups make them
 * in the same order: a process set that is being made goes first, and while this bucket is under way no set changes.
 *
 * An error of these groups closes the group of all ranks, with the same rank. When that group has failed, these close
 * with its rank before their collectives end: otherwise others would blame this rank.
 */
#include "fusion/paths/device/hosts.h"
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/api/group_subset.h"
#include "collectives/choose/select.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include "collectives/group/transit.h"
#include "fusion/run/execution.h"
#include <stdlib.h>

enum { DEPTH = HALAY_HOSTS_DEPTH, CHUNKS_MAX = HALAY_HOSTS_CHUNKS };

static struct halay_direct *direct_of(const struct halay_context *ctx)
{
    return &halay_device_carrier_of(ctx)->direct;
}

static const struct halay_device_host *host_of(const struct halay_context *ctx)
{
    return &halay_devices_of(ctx)->host;
}

/* ---- the ranks' places ---- */

void halay_hosts_init(struct halay_context *ctx)
{
    const struct halay_world *world = ctx->world;
    struct halay_hosts *h = &direct_of(ctx)->hosts;

    h->count = world->cross_size;
    h->locals = world->local_size;
    h->local = world->local_rank;
}

/* Returns the rank of that number on a host. */
static int rank_at(const struct halay_world *world, int host, int local)
{
    int r = 0;

    while (world->node_of[r] != host || world->node_rank[r] != local)
        r++;
    return r;
}

/* ---- the groups ---- */

/* Starts to make the ranks' group of this host, or that of this rank's number on all hosts. */
static enum halay_status making_start(struct halay_context *ctx, int is_rail)
{
    const struct halay_world *world = ctx->world;
    struct halay_hosts *h = &direct_of(ctx)->hosts;
    int count = is_rail ? h->count : h->locals;
    int *ranks = malloc((size_t)count * sizeof *ranks);

    if (!ranks)
        return HALAY_ERR_NO_MEMORY;
    for (int i = 0; i < count; i++)
        ranks[i] = is_rail ? rank_at(world, i, h->local) : rank_at(world, world->node_of[world->rank], i);
    enum halay_status status = halay_group_making_start(ctx->all.group, ranks, count, &h->making);
    free(ranks);
    return status;
}

enum halay_status halay_hosts_make(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && h->count > 1 && !h->rail) {
        if (!h->making && ctx->execution->making)
            return HALAY_IN_PROGRESS;
        if (!h->making)
            status = making_start(ctx, h->near != NULL);
        if (status == HALAY_OK)
            status = halay_group_making_progress(h->making, h->near ? &h->rail : &h->near);
        if (status == HALAY_IN_PROGRESS)
            return status;
        halay_group_making_end(h->making);
        h->making = NULL;
    }
    return status;
}

unsigned long halay_hosts_work(const struct halay_context *ctx)
{
    const struct halay_hosts *h = &direct_of(ctx)->hosts;

    return (h->near ? halay_group_work(h->near) : 0) + (h->rail ? halay_group_work(h->rail) : 0);
}

/* ---- memory ---- */

enum halay_status halay_hosts_reserve(struct halay_context *ctx, size_t bytes)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;
    void **const events[] = { &h->summed.event, &h->arrived.event, &h->returned.event };
    enum halay_status status = HALAY_OK;
    size_t capacity;

    if (h->count == 1)
        return HALAY_OK;
    for (size_t i = 0; i < sizeof events / sizeof *events && status == HALAY_OK; i++)
        if (!*events[i])
            status = ops->event_create(host_of(ctx), d->device->number, 1, events[i]);
    h->transit.devices = halay_devices_of(ctx);
    h->transit.device = d->device;
    halay_transit_class(bytes / (size_t)h->locals + HALAY_PAGE, &capacity);
    if (status == HALAY_OK && !h->transit.block)
        status = halay_transit_block_get(&h->transit, ctx->all.group, capacity);
    return status;
}

void halay_hosts_unreserve(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;

    if (h->transit.block)
        halay_transit_block_put(&h->transit, ctx->all.group, 0);
}

/* ---- a share ---- */

static size_t chunk_count(const struct halay_hosts *h, size_t k)
{
    size_t left = h->total - k * h->chunk;

    return left < h->chunk ? left : h->chunk;
}

static void *pinned_at(const struct halay_hosts *h, size_t k)
{
    return (char *)h->transit.block + k * h->chunk * halay_dtype_size(h->dtype);
}

static void *share_at(const struct halay_hosts *h, size_t k)
{
    return (char *)h->share + k * h->chunk * halay_dtype_size(h->dtype);
}

static void cut_chunks(struct halay_hosts *h, void *share, size_t count, enum halay_dtype dtype)
{
    size_t element = halay_dtype_size(dtype), bytes = halay_nodes_chunk(count * element);
    size_t least = halay_round_up(count * element / CHUNKS_MAX + 1, HALAY_PAGE);

    h->share = share;
    h->total = count;
    h->dtype = dtype;
    h->chunk = (bytes > least ? bytes : least) / element;
    h->chunks = count / h->chunk + (count % h->chunk != 0);
    h->started = h->ended = 0;
    h->has_returned = 0;
}

enum halay_status halay_hosts_start(struct halay_context *ctx, void *share, size_t count, enum halay_dtype dtype)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = host_of(ctx);
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;
    int number = d->device->number;

    cut_chunks(h, share, count, dtype);
    halay_device_carrier_of(ctx)->copied_us = ctx->now_us;
    enum halay_status status = ops->event_record(host, number, d->stream, &h->summed);
    if (status == HALAY_OK)
        status = ops->event_wait(host, number, d->device->in, h->summed.event);
    for (size_t k = 0; k < h->chunks && status == HALAY_OK; k++) {
        h->transit.state = HALAY_TRANSIT_MOVES;
        status = ops->copy_start(host, number, pinned_at(h, k), share_at(h, k),
                                 chunk_count(h, k) * halay_dtype_size(dtype), d->device->in);
        enum halay_status recorded = ops->event_record(host, number, d->device->in, &h->arrived);
        h->transit.is_lost |= recorded != HALAY_OK;
        h->points[k] = h->arrived;
        status = status == HALAY_OK ? recorded : status;
    }
    return status;
}

enum halay_status halay_hosts_report(struct halay_context *ctx, struct halay_group *group, enum halay_status status)
{
    int rank;

    if (status == HALAY_OK || status == HALAY_IN_PROGRESS)
        return status;
    halay_group_failure(group, &rank);
    rank = halay_group_world_rank(group, rank);
    if (status == HALAY_ERR_PEER)
        halay_group_lost(ctx->all.group, rank); /* that rank may have named another one there */
    else
        halay_group_fail(ctx->all.group, status, rank);
    return status;
}

/* Starts the chunks that have arrived in host memory. */
static enum halay_status start_arrived(struct halay_context *ctx)
{
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;
    enum halay_status status = HALAY_OK;

    while (status == HALAY_OK && h->started < h->chunks && h->started < h->ended + DEPTH &&
           halay_group_can_start(h->rail)) {
        size_t k = h->started;
        status = halay_devices_ops(ctx)->event_done(host_of(ctx), d->device->number, &h->points[k]);
        if (status != HALAY_OK)
            break;
        void *at = pinned_at(h, k);
        status = halay_hosts_report(
            ctx, h->rail,
            halay_group_allreduce_start(h->rail, at, at, chunk_count(h, k), h->dtype, HALAY_SUM, &h->colls[k % DEPTH]));
        h->started += status == HALAY_OK;
    }
    return status == HALAY_IN_PROGRESS ? HALAY_OK : status;
}

/* Starts to copy a chunk's sums to the device. */
static enum halay_status return_chunk(struct halay_context *ctx, size_t k)
{
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;

    return halay_devices_ops(ctx)->copy_start(host_of(ctx), d->device->number, share_at(h, k), pinned_at(h, k),
                                              chunk_count(h, k) * halay_dtype_size(h->dtype), d->device->out);
}

static enum halay_status progress_rail(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;
    enum halay_status status = HALAY_OK;

    for (size_t k = h->ended; k < h->started && status == HALAY_OK; k++) {
        status = halay_hosts_report(ctx, h->rail, halay_coll_progress(h->colls[k % DEPTH]));
        if (status == HALAY_OK && k == h->ended) {
            halay_coll_end(h->colls[k % DEPTH]);
            h->colls[k % DEPTH] = NULL;
            h->ended++;
            status = return_chunk(ctx, k);
        }
        status = status == HALAY_IN_PROGRESS ? HALAY_OK : status;
    }
    return status;
}

/* Marks the end of the copies to the device, and has the direct stream follow it. */
static enum halay_status follow_returned(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;

    enum halay_status status = ops->event_record(host_of(ctx), d->device->number, d->device->out, &h->returned);
    h->has_returned = 1;
    h->transit.is_lost |= status != HALAY_OK;
    return status == HALAY_OK ? ops->event_wait(host_of(ctx), d->device->number, d->stream, h->returned.event) : status;
}

enum halay_status halay_hosts_progress(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;

    enum halay_status status = halay_hosts_report(ctx, ctx->all.group, halay_group_failure(ctx->all.group, NULL));
    if (status == HALAY_OK)
        status = progress_rail(ctx);
    if (status == HALAY_OK)
        status = start_arrived(ctx);
    if (status != HALAY_OK)
        return status;
    if (h->ended < h->chunks)
        return HALAY_IN_PROGRESS;
    return h->chunks ? follow_returned(ctx) : HALAY_OK;
}

void halay_hosts_check(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;

    if (h->near)
        halay_group_check(h->near);
    if (h->rail)
        halay_group_check(h->rail);
}

void halay_hosts_fail(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;
    struct halay_group *const groups[] = { h->near, h->rail };
    int rank;
    enum halay_status status = halay_group_failure(ctx->all.group, &rank);

    for (int i = 0; i < 2 && status != HALAY_OK; i++)
        if (groups[i])
            halay_group_fail(groups[i], status, halay_group_rank_of(groups[i], rank));
}

void halay_hosts_drop(struct halay_context *ctx)
{
    struct halay_hosts *h = &direct_of(ctx)->hosts;

    for (int i = 0; i < DEPTH; i++) {
        if (h->colls[i])
            halay_coll_end(h->colls[i]);
        h->colls[i] = NULL;
    }
    if (h->ended && !h->has_returned) /* chunks are on their way back */
        (void)follow_returned(ctx);
    h->chunks = h->started = h->ended = 0;
    halay_group_making_end(h->making);
    h->making = NULL;
}

/* ---- the end ---- */

static void await_copies(struct halay_context *ctx, const struct halay_device_point *point, int64_t deadline_us)
{
    struct halay_direct *d = direct_of(ctx);
    struct halay_transit *t = &d->hosts.transit;

    if (t->state == HALAY_TRANSIT_MOVES &&
        halay_devices_await(halay_devices_of(ctx), d->device->number, point, deadline_us) == HALAY_IN_PROGRESS)
        t->is_lost = 1;
}

void halay_hosts_close(struct halay_context *ctx)
{
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;
    int64_t deadline_us = halay_deadline_us(HALAY_TRANSIT_CLOSE_MS);

    halay_hosts_drop(ctx);
    await_copies(ctx, &h->arrived, deadline_us);
    if (h->has_returned)
        await_copies(ctx, &h->returned, deadline_us);
    d->is_lent |= h->transit.is_lost; /* a copy may still use the segment */
    if (h->transit.block) {
        h->transit.moved = h->has_returned ? h->returned : h->arrived;
        halay_transit_block_put(&h->transit, ctx->all.group, deadline_us);
    }
    halay_group_close(h->rail);
    halay_group_close(h->near);
    h->rail = h->near = NULL;
}

void halay_hosts_free(struct halay_context *ctx)
{
    struct halay_direct *d = direct_of(ctx);
    struct halay_hosts *h = &d->hosts;
    void **const events[] = { &h->summed.event, &h->arrived.event, &h->returned.event };

    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        if (*events[i])
            halay_devices_ops(ctx)->event_destroy(host_of(ctx), d->device->number, *events[i]);
        *events[i] = NULL;
    }
}
