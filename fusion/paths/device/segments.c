/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments: opened and closed; segments.h. What passes through them is in turns.c.
 *
 *     share        an all-gather of the handles of a host's ranks
 *     agree        one of which ranks can access all of these
 *     agree_hosts  several hosts: the least room, and whether a rank of any host refuses
 *
 * No segment is freed that another rank may still have open, or that kernels of a bucket may still write to.
 */
#include "fusion/paths/device/segments.h"
#include "base/clock.h"
#include "collectives/group/channel.h"
#include "fusion/paths/device/hosts.h"
#include <string.h>

enum { SEGMENT_MIN = 2 * HALAY_DEVICE_RANKS * HALAY_SEGMENT_ALIGN }; /* a half has room for a slice of each block */

static size_t segment_bytes(const struct halay_context *ctx)
{
    return ctx->world->config.device_segment / (2 * HALAY_SEGMENT_ALIGN) * (2 * HALAY_SEGMENT_ALIGN);
}

int halay_segments_are_wanted(const struct halay_context *ctx)
{
    return ctx->world->config.deterministic != HALAY_DETERMINISTIC_RANKS && segment_bytes(ctx) >= SEGMENT_MIN;
}

/* ---- opening ---- */

/* Starts to clear the flags of the own segment. */
static enum halay_status clear_flags(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    char *flags = (char *)d->segment + d->bytes - HALAY_SEGMENT_FLAGS;
    enum halay_status status = HALAY_OK;

    if (!d->failed)
        status = ops->word_get(host, d->device->number, (void **)&d->failed);
    if (status != HALAY_OK)
        return status;
    atomic_store_explicit(d->failed, 0, memory_order_relaxed);
    d->exchanges = 0;
    d->is_lost = 0; /* of the ranks before a change */
    status = ops->zero(host, d->device->number, flags, HALAY_SEGMENT_FLAGS, d->stream);
    if (status == HALAY_OK && d->hosts.count > 1) /* gaps between tensors are sent to other hosts, too */
        status = ops->zero(host, d->device->number, d->segment, d->bytes - HALAY_SEGMENT_FLAGS, d->stream);
    d->cleared_by_us = halay_deadline_us(HALAY_SEGMENT_CLEAR_MS);
    return status == HALAY_OK ? ops->event_record(host, d->device->number, d->stream, &d->done) : status;
}

enum halay_status halay_segments_streams(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int number = d->device->number;
    enum halay_status status = HALAY_OK;

    if (!d->stream)
        status = ops->stream_create(host, number, &d->stream);
    if (status == HALAY_OK && !d->copies)
        status = ops->stream_create(host, number, &d->copies);
    if (status == HALAY_OK && !d->done.event)
        status = ops->event_create(host, number, 1, &d->done.event);
    if (status == HALAY_OK && !d->copied.event)
        status = ops->event_create(host, number, 1, &d->copied.event);
    return status;
}

static enum halay_status segment_create(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    size_t bytes = segment_bytes(ctx) + HALAY_SEGMENT_FLAGS;

    if (!d->wants_segment) /* and data may be on several devices */
        return HALAY_ERR_UNSUPPORTED;
    int number = d->device->number;
    enum halay_status status = halay_segments_streams(ctx);
    if (status == HALAY_OK && !d->segment)
        status = ops->alloc(host, number, d->bytes = bytes, &d->segment);
    if (status == HALAY_OK)
        status = halay_hosts_reserve(ctx, (d->bytes - HALAY_SEGMENT_FLAGS) / 2);
    if (status == HALAY_OK)
        status = clear_flags(ctx);
    if (status == HALAY_OK)
        status = ops->share(host, number, d->segment, d->bytes, &d->mine);
    d->mine.exchange_max = ctx->world->config.device_exchange;
    return status;
}

void halay_segments_number_next(const struct halay_bucket *b)
{
    if (halay_direct_of(b)->hosts.count == 1)
        halay_bucket_number_next(b);
}

void halay_segments_create(struct halay_bucket *b)
{
    struct halay_direct *d = halay_direct_of(b);

    memset(&d->mine, 0, sizeof d->mine);
    if (segment_create(b->set->ctx) != HALAY_OK)
        d->mine.is_there = 0;
    d->step = HALAY_DIRECT_SHARE;
    halay_device_carrier_of(b->set->ctx)->copied_us = b->set->ctx->now_us;
}

enum halay_status halay_segments_share(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = halay_direct_of(b);
    enum halay_status status = HALAY_OK;

    if (d->mine.is_there)
        status = halay_devices_ops(ctx)->event_done(&halay_devices_of(ctx)->host, d->device->number, &d->done);
    if (status == HALAY_IN_PROGRESS && ctx->now_us < d->cleared_by_us)
        return status;
    if (status == HALAY_IN_PROGRESS)
        halay_warning(ctx->log, "device %d did not clear its segment in %d s: data on devices are copied to the host",
                      d->device->number, HALAY_SEGMENT_CLEAR_MS / 1000);
    d->mine.is_there &= status == HALAY_OK;
    d->is_shared = 1;
    d->step = HALAY_DIRECT_AGREE;
    halay_segments_number_next(b);
    return halay_group_allgather_start(halay_hosts_near(b->set->ctx), &d->mine, d->shares, sizeof d->mine, HALAY_U8,
                                       &d->coll);
}

static void unreach_all(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    for (int r = 0; r < HALAY_DEVICE_RANKS; r++) {
        if (d->segments[r] && r != d->hosts.local)
            halay_devices_ops(ctx)->unreach(&halay_devices_of(ctx)->host, d->device->number, &d->shares[r],
                                            d->segments[r]);
        d->segments[r] = NULL;
    }
}

enum halay_status halay_segments_agree(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->reaches_all = d->mine.is_there != 0;
    d->room = d->exchange_max = SIZE_MAX;
    for (int r = 0; r < d->hosts.locals && d->reaches_all; r++) {
        const struct halay_device_share *share = &d->shares[r];
        d->reaches_all = share->is_there != 0;
        if (d->reaches_all && (share->bytes - HALAY_SEGMENT_FLAGS) / 2 < d->room)
            d->room = (size_t)(share->bytes - HALAY_SEGMENT_FLAGS) / 2;
        if (share->exchange_max < d->exchange_max)
            d->exchange_max = (size_t)share->exchange_max;
        if (d->reaches_all && r == d->hosts.local)
            d->segments[r] = d->segment;
        else if (d->reaches_all)
            d->reaches_all = halay_devices_ops(ctx)->reach(&halay_devices_of(ctx)->host, d->device->number, share,
                                                           &d->segments[r]) == HALAY_OK;
    }
    d->step = HALAY_DIRECT_AGREE_HOSTS;
    halay_segments_number_next(b);
    return halay_group_allgather_start(halay_hosts_near(ctx), &d->reaches_all, d->all_reach, 1, HALAY_U8, &d->coll);
}

enum halay_status halay_segments_agree_hosts(struct halay_bucket *b)
{
    struct halay_context *ctx = b->set->ctx;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->agreed[0] = INT64_MAX;
    d->agreed[1] = (int64_t)d->room;
    for (int r = 0; r < d->hosts.locals; r++) {
        int64_t rank = halay_group_world_rank(halay_hosts_near(ctx), r) + (d->shares[r].is_there ? ctx->size : 0);
        if (!d->all_reach[r] && rank < d->agreed[0])
            d->agreed[0] = rank;
    }
    d->step = HALAY_DIRECT_CONCLUDE;
    if (d->hosts.count == 1)
        return HALAY_OK;
    halay_bucket_number_next(b);
    return halay_group_allreduce_start(b->set->group, d->agreed, d->agreed, 2, HALAY_I64, HALAY_MIN, &d->coll);
}

/* Returns nonzero if each rank has a device of its own; the same on all ranks. */
static int has_own_devices(const struct halay_direct *d, int ranks)
{
    static const unsigned char none[sizeof d->shares->uuid];

    for (int r = 0; r < ranks; r++) {
        if (!memcmp(d->shares[r].uuid, none, sizeof none))
            return 0;
        for (int other = 0; other < r; other++)
            if (!memcmp(d->shares[r].uuid, d->shares[other].uuid, sizeof none))
                return 0;
    }
    return ranks > 1;
}

void halay_segments_conclude(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    int is_refused = d->agreed[0] != INT64_MAX;

    d->room = (size_t)d->agreed[1];
    if (d->hosts.count > 1 || !has_own_devices(d, ctx->size))
        d->exchange_max = 0;
    halay_direct_set_state(d, is_refused ? HALAY_DIRECT_REFUSED : HALAY_DIRECT_OPEN);
    if (!is_refused) {
        halay_debug(ctx->log, "collectives on device data use segments of %zu bytes in device memory", 2 * d->room);
        return;
    }
    unreach_all(ctx);
    halay_hosts_unreserve(ctx);
    if (ctx->rank == 0)
        halay_info(ctx->log, "collectives on device data use host memory: rank %d %s", (int)(d->agreed[0] % ctx->size),
                   d->agreed[0] < ctx->size ? "has no segment" : "cannot access the segments of all ranks of its host");
}

/* ---- the end ---- */

enum halay_status halay_segments_barrier(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;
    enum halay_status status = ctx->status;

    if (status == HALAY_OK)
        status = halay_group_barrier_start(ctx->all.group, &d->coll);
    if (status == HALAY_OK)
        status = d->coll ? halay_coll_wait(d->coll, HALAY_SEGMENT_CLOSE_MS) : HALAY_OK;
    if (d->coll)
        halay_coll_end(d->coll);
    d->coll = NULL;
    return status;
}

/* Waits until the device has done all that this rank has launched. Returns nonzero if it has. */
static int await_launched(struct halay_context *ctx)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    d->is_launched = 0;
    return !d->mine.is_there ||
           (!d->is_lost && halay_devices_await(halay_devices_of(ctx), d->device->number, &d->done,
                                               halay_deadline_us(HALAY_SEGMENT_CLOSE_MS)) != HALAY_IN_PROGRESS);
}

void halay_segments_close(struct halay_context *ctx, int is_agreed)
{
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (!await_launched(ctx)) { /* it may still access all segments: they stay mapped, and no rank frees one */
        memset(d->segments, 0, sizeof d->segments);
        d->is_lent = 1;
        return;
    }
    unreach_all(ctx);
    d->is_lent |=
        !is_agreed || halay_segments_barrier(ctx) != HALAY_OK; /* without agreement some ranks may have no barrier */
}

void halay_segments_free(struct halay_context *ctx)
{
    const struct halay_device_ops *ops = halay_devices_ops(ctx);
    const struct halay_device_host *host = &halay_devices_of(ctx)->host;
    struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    if (d->stream)
        ops->stream_destroy(host, d->device->number, d->stream);
    if (d->copies)
        ops->stream_destroy(host, d->device->number, d->copies);
    if (d->done.event)
        ops->event_destroy(host, d->device->number, d->done.event);
    if (d->copied.event)
        ops->event_destroy(host, d->device->number, d->copied.event);
    if (d->segment && !d->is_lent)
        ops->free(host, d->device->number, d->segment);
    d->stream = d->copies = d->done.event = d->copied.event = d->segment = NULL;
}
