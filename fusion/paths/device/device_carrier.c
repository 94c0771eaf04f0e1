/* SPDX-License-Identifier: Apache-2.0
 *
 * The carrier of data on devices: results that are being copied back, and its table.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "collectives/transport/bell.h"
#include "fusion/paths/device/deferred.h"
#include "fusion/paths/device/device_state.h"
#include "fusion/paths/device/direct.h"
#include "fusion/paths/device/nccl.h"
#include "fusion/paths/device/segments.h"
#include "fusion/paths/device/staging.h"
#include "fusion/requests/names.h"
#include "fusion/requests/requests.h"
#include "fusion/run/deliver.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_US = 250 }; /* the longest sleep while a device is at work */

/* ---- results ---- */

/* Gives up results that wait for other ranks. */
static void give_up(struct halay_context *ctx)
{
    for (struct halay_request *r = halay_device_carrier_of(ctx)->landing; r; r = r->next) {
        if (r->final != HALAY_OK || !r->cargo->is_direct)
            continue;
        r->final = halay_staging_look(halay_staging_of(r));
        if (r->final == HALAY_IN_PROGRESS)
            r->final = ctx->status != HALAY_OK ? ctx->status : HALAY_ERR_CLOSED;
    }
    halay_direct_fail(ctx);
}

/* Takes an ended request. The program's memory must not be accessed after the end, so a request that fails waits for
 * the copies in progress. */
static int carrier_land(struct halay_context *ctx, struct halay_request *request)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    if (request->final == HALAY_OK && request->cargo->is_direct && halay_direct_has_failed(ctx))
        request->final = ctx->status != HALAY_OK ? ctx->status : HALAY_ERR_CLOSED;
    enum halay_status status = request->final == HALAY_OK ? halay_staging_finish(request) : request->final;
    if (status != HALAY_IN_PROGRESS) {
        if (request->final == HALAY_OK && status != HALAY_OK)
            devices->status = status;
        request->final = status;
        if (!halay_staging_leave(halay_staging_of(request)))
            return 0;
    }
    request->next = NULL;
    *devices->landing_last = request;
    devices->landing_last = &request->next;
    devices->launched = devices->launched ? devices->launched : request;
    devices->copied_us = ctx->now_us;
    return 1;
}

/* Returns the status of a result that lands, HALAY_IN_PROGRESS until then. */
static enum halay_status look_at_result(struct halay_context *ctx, const struct halay_request *r)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    if (r->cargo->is_direct && halay_nccl_has_dropped(ctx))
        return HALAY_IN_PROGRESS;
    enum halay_status status = halay_staging_look(halay_staging_of(r));
    if (status == HALAY_OK && r->final == HALAY_OK && r->cargo->is_direct)
        status = devices->status != HALAY_OK ? devices->status : halay_nccl_verdict(ctx);
    return status;
}

/* Has direct results end with all that the stream has been given up to now. */
static void follow_stream(struct halay_context *ctx)
{
    const struct halay_direct *d = &halay_device_carrier_of(ctx)->direct;

    for (struct halay_request *r = halay_device_carrier_of(ctx)->landing; r; r = r->next)
        if (r->cargo->is_direct && halay_staging_of(r)->transit.state == HALAY_TRANSIT_MOVES)
            halay_staging_of(r)->transit.moved = d->done;
}

static size_t take_landed(struct halay_context *ctx, int is_over)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);
    enum halay_status marked = devices->launched ? halay_staging_mark(devices->launched) : HALAY_OK;
    size_t did = 0;

    if (devices->status == HALAY_OK)
        devices->status = marked;

    if (halay_nccl_let_go(ctx))
        follow_stream(ctx);
    for (struct halay_request **at = &devices->landing, *r; (r = *at);) {
        enum halay_status status = look_at_result(ctx, r);
        if (status == HALAY_IN_PROGRESS && !is_over) {
            if (!devices->failed_us)
                break;
            at = &r->next; /* it may wait for an abort of NCCL's, and the next one not */
            continue;
        }
        if (r->final == HALAY_OK)
            r->final = status == HALAY_IN_PROGRESS ? HALAY_ERR_CLOSED : status;
        if (status != HALAY_IN_PROGRESS && devices->status == HALAY_OK)
            devices->status = status;
        *at = r->next;
        if (devices->launched == r)
            devices->launched = r->next;
        if (!*at)
            devices->landing_last = at;
        did++;
        if (r->final != HALAY_OK && !r->text && *ctx->text)
            r->text = strdup(ctx->text);
        halay_request_landed(r);
        devices->copied_us = ctx->now_us;
    }
    return did;
}

/* Publishes launched results, for threads in halay_wait_stream. Their names may be submitted again, by submissions that
 * follow the results. */
static void publish_launched(struct halay_context *ctx)
{
    struct halay_request *first = halay_device_carrier_of(ctx)->launched;

    halay_device_carrier_of(ctx)->launched = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (struct halay_request *r = first; r; r = r->next) {
        if (r->final != HALAY_OK)
            continue;
        halay_request_detach_locked(r);
        atomic_store_explicit(&r->cargo->is_launched, 1, memory_order_release);
    }
    if (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
        pthread_cond_broadcast(&ctx->waiter_wakes);
    pthread_mutex_unlock(&ctx->lock);
}

static size_t carrier_progress(struct halay_context *ctx, enum halay_status *status)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);
    unsigned long work = halay_hosts_work(ctx);
    size_t did = take_landed(ctx, 0) + (work != devices->hosts_work);

    devices->hosts_work = work;
    if (devices->failed_us && devices->landing && ctx->now_us - devices->failed_us > HALAY_DEVICE_GRACE_US)
        give_up(ctx);
    if (devices->status == HALAY_OK && devices->landing)
        devices->status = halay_nccl_check(ctx);
    *status = devices->status;
    if (devices->launched)
        publish_launched(ctx);
    return did;
}

/* Returns the sleep that fits the time since a device moved last. It is bounded for a submission alone after a long
 * step of the program: of 10 ms an eighth would be a tenth of the step. */
static long sleep_us(const struct halay_context *ctx)
{
    const struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    if (!devices->landing && !devices->carrier.deferred_count && !halay_direct_is_at_work(ctx))
        return HALAY_RINGS;
    long us = halay_unrung_sleep_us(ctx->now_us - devices->copied_us);
    return us < LOOK_US ? us : LOOK_US;
}

static void carrier_drop(struct halay_context *ctx)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    halay_deferred_drop(ctx);
    devices->failed_us = devices->failed_us ? devices->failed_us : halay_now_us();
}

/* ---- streams ---- */

static enum halay_status carrier_join(struct halay_context *ctx, struct halay_cargo *cargo, void *stream)
{
    const struct halay_staging *s = (const struct halay_staging *)cargo;

    return halay_devices_ops(ctx)->event_wait(&halay_devices_of(ctx)->host, s->transit.device->number, stream,
                                              s->transit.moved.event);
}

/* ---- life ---- */

static void carrier_open(struct halay_context *ctx)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    devices->landing_last = &devices->landing;
    devices->status = HALAY_OK;
    devices->failed_us = 0;
    halay_direct_init(ctx);
}

/* Ends NCCL's access to the requests' memory. */
static void end_nccl(struct halay_context *ctx)
{
    const struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    if (halay_nccl_end(ctx))
        follow_stream(ctx);
    int64_t deadline_us = halay_deadline_us(HALAY_SEGMENT_CLOSE_MS);
    while (devices->landing && devices->direct.nccl.is_aborted && !halay_deadline_passed(deadline_us))
        if (!take_landed(ctx, 0))
            usleep(HALAY_UNRUNG_MIN_US);
}

static void carrier_end(struct halay_context *ctx)
{
    ctx->now_us = halay_now_us(); /* no more messages will be received */
    take_landed(ctx, 0);          /* what giving up would void */
    give_up(ctx);
    if (ctx->status != HALAY_OK)
        end_nccl(ctx);
    take_landed(ctx, 1);
}

static void carrier_stop(struct halay_context *ctx)
{
    halay_direct_close(ctx);
    halay_staging_close(ctx);
    free(halay_device_carrier_of(ctx)->deferred.events);
    halay_device_carrier_of(ctx)->deferred = (struct halay_events){ 0 };
}

static void close_devices(struct halay_context *ctx)
{
    halay_staging_free_all(ctx);
    halay_direct_free(ctx);
    halay_devices_close(halay_devices_of(ctx));
}

static void carrier_destroy(struct halay_carrier *carrier)
{
    halay_devices_fini(&((struct halay_device_carrier *)carrier)->devices);
    free(carrier);
}

static const struct halay_carrier_ops ops = { .unreachable = "data on a device cannot be reached",
                                              .lost = "results on a device have failed",
                                              .load = halay_staging_load,
                                              .prepare = halay_staging_prepare,
                                              .join = carrier_join,
                                              .apply_locked = halay_staging_apply_locked,
                                              .put_locked = halay_staging_put_cargo_locked,
                                              .defer = halay_deferred_add,
                                              .release = halay_deferred_release,
                                              .drop = carrier_drop,
                                              .start = halay_direct_start,
                                              .progress_bucket = halay_direct_progress,
                                              .drop_bucket = halay_direct_drop,
                                              .check = halay_hosts_check,
                                              .may_take = halay_direct_may_take,
                                              .excludes = halay_direct_is_busy,
                                              .land = carrier_land,
                                              .progress = carrier_progress,
                                              .sleep_us = sleep_us,
                                              .open = carrier_open,
                                              .end = carrier_end,
                                              .stop = carrier_stop,
                                              .close = close_devices,
                                              .destroy = carrier_destroy };

struct halay_carrier *halay_device_carrier_create(void)
{
    struct halay_device_carrier *devices = calloc(1, sizeof *devices);

    if (!devices)
        return NULL;
    devices->carrier.ops = &ops;
    halay_devices_init(&devices->devices, sizeof(struct halay_staging_device));
    return &devices->carrier;
}
