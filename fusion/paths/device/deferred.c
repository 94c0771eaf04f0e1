/* SPDX-License-Identifier: Apache-2.0
 *
 * Deferred queue. These events wait in it:
 *
 *     a submission whose data are not in host memory yet (staging.h)
 *     after a submission of a path: later ones of that path, because the n-th send of a tag matches the n-th receive
 *     after any submission: a join, or a change of process sets, because it must not precede earlier submissions
 *     after a submission: its cancellation
 *
 * All other events overtake these, so that a tensor in host memory does not wait for a device.
 */
#include "fusion/paths/device/deferred.h"
#include "fusion/paths/device/staging.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"

/* Returns the path that takes the event without the coordinator, or NULL. */
static const struct halay_path *path_of(const struct halay_event *e)
{
    return e->kind == HALAY_EVENT_SUBMITTED ? halay_request_path(e->request) : NULL;
}

/* Returns nonzero if the event must not overtake those before it. */
static int must_follow(const struct halay_event *front, size_t count, const struct halay_event *e)
{
    if (!count)
        return 0;
    if (e->kind == HALAY_EVENT_CANCELED) {
        for (size_t i = 0; i < count; i++)
            if (front[i].request == e->request && front[i].kind == HALAY_EVENT_SUBMITTED)
                return 1;
        return 0;
    }
    if (e->kind == HALAY_EVENT_SUBMITTED && e->request->signature.collective >= HALAY_JOIN)
        return 1;
    for (size_t i = 0; i < count && path_of(e); i++)
        if (path_of(&front[i]) == path_of(e))
            return 1;
    return 0;
}

enum halay_status halay_deferred_add(struct halay_context *ctx, const struct halay_event *e, int *is_deferred)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);
    struct halay_events *all = &devices->deferred;
    struct halay_staging *s = e->kind == HALAY_EVENT_SUBMITTED ? halay_staging_of(e->request) : NULL;
    enum halay_status status = s ? halay_staging_start(s) : HALAY_OK;

    *is_deferred = status == HALAY_OK &&
                   ((s && s->transit.state != HALAY_TRANSIT_STILL) || must_follow(all->events, all->count, e));
    if (!*is_deferred)
        return status;
    devices->copied_us = ctx->now_us;
    status = halay_events_append(all, e);
    devices->carrier.deferred_count = all->count;
    return status;
}

/* Checks whether the data have arrived. late: a device whose copies are known to be unfinished; since they are made in
 * order, stagings that wait for one need not be checked. HALAY_IN_PROGRESS, HALAY_OK, or an error of the device. */
static enum halay_status check_arrival(struct halay_staging *s, const struct halay_device **late)
{
    if (s->transit.state == HALAY_TRANSIT_MOVES && s->transit.device == *late)
        return HALAY_IN_PROGRESS;
    enum halay_status status = halay_staging_look(s);
    if (status == HALAY_IN_PROGRESS && s->transit.state == HALAY_TRANSIT_MOVES)
        *late = s->transit.device;
    return status;
}

enum halay_status halay_deferred_release(struct halay_context *ctx)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);
    struct halay_events *all = &devices->deferred;
    const struct halay_device *late = NULL;
    enum halay_status status = HALAY_OK;
    size_t kept = 0;

    for (size_t i = 0; i < all->count; i++) {
        const struct halay_event e = all->events[i];
        struct halay_staging *s = e.kind == HALAY_EVENT_SUBMITTED ? halay_staging_of(e.request) : NULL;
        int is_there = !s || s->transit.state == HALAY_TRANSIT_STILL;
        if (!is_there && status == HALAY_OK) {
            enum halay_status is = check_arrival(s, &late);
            is_there = is == HALAY_OK;
            status = is == HALAY_IN_PROGRESS ? status : is;
        }
        if (is_there && !must_follow(all->events, kept, &e) &&
            halay_events_append(&ctx->queue.resubmitted, &e) == HALAY_OK)
            devices->copied_us = ctx->now_us;
        else
            all->events[kept++] = e;
    }
    all->count = devices->carrier.deferred_count = kept;
    return status;
}

void halay_deferred_drop(struct halay_context *ctx)
{
    struct halay_device_carrier *devices = halay_device_carrier_of(ctx);

    for (size_t i = 0; i < devices->deferred.count; i++)
        if (devices->deferred.events[i].kind == HALAY_EVENT_CANCELED)
            halay_request_put(devices->deferred.events[i].request);
    devices->deferred.count = devices->carrier.deferred_count = 0;
}
