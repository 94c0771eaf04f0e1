/* SPDX-License-Identifier: Apache-2.0
 *
 * Delivery: the end of requests.
 *
 *     end       the driver knows the outcome: final and text are set, the request is on the list of ended requests, or,
 *               while its results are copied to a device, with its carrier (carrier.h): its name may be submitted again
 *               meanwhile, by submissions that follow them
 *     deliver   no longer in flight (its name may be submitted again) -> callback -> status is final -> waiters wake
 *
 * So a callback may submit the same tensor again, and a thread that sees a final status knows that the callback has
 * returned.
 */
#include "fusion/run/deliver.h"
#include "base/error_text.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/set_change.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/names.h"
#include "fusion/requests/requests.h"
#include "fusion/run/execution.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

static void append_ended(struct halay_context *ctx, struct halay_request *request)
{
    request->next = NULL;
    *ctx->execution->ended_last = request;
    ctx->execution->ended_last = &request->next;
}

void halay_request_landed(struct halay_request *request)
{
    append_ended(request->ctx, request);
}

void halay_request_end(struct halay_request *request, enum halay_status status, const char *text)
{
    struct halay_context *ctx = request->ctx;

    if (request->life == HALAY_LIFE_ENDED)
        return;
    if (halay_recording(ctx))
        halay_record_ended(ctx, request, status);
    halay_request_unwatch(request);
    halay_request_move(request, HALAY_LIFE_ENDED);
    request->final = status;
    request->text = text && *text ? strdup(text) : NULL; /* without memory there is only the status */
    if (!request->cargo || !ctx->carrier->ops->land(ctx, request))
        append_ended(ctx, request);
}

/* Reopens a process set whose removal has failed. */
static void keep_set_locked(struct halay_context *ctx, const struct halay_request *r)
{
    if (r->final == HALAY_OK || r->payload.at[0] != HALAY_SET_REMOVE)
        return;
    for (struct halay_process_set *set = ctx->all.next; set; set = set->next)
        if ((uint64_t)set->number == r->payload.at[1] && set->state == HALAY_SET_CLOSING)
            set->state = HALAY_SET_OPEN;
}

static void call_program(struct halay_context *ctx, halay_callback callback, void *arg, enum halay_status status,
                         const char *text)
{
    int is_muted = halay_error_mute(0);

    atomic_store_explicit(&ctx->calling_back, pthread_self(), memory_order_relaxed);
    callback(arg, status, text);
    atomic_store_explicit(&ctx->calling_back, 0, memory_order_relaxed);
    halay_error_mute(is_muted);
}

/* Wakes the threads that wait for requests, whose statuses are final, and ends the engine's references to the listed
 * ones. */
static void wake_waiters(struct halay_context *ctx, struct halay_request *listed)
{
    uint64_t one = 1;

    atomic_fetch_add_explicit(&ctx->queue.deliveries, 1, memory_order_release);
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
        pthread_cond_broadcast(&ctx->waiter_wakes);
    for (struct halay_request *r = listed, *next; r; r = next) {
        next = r->next;
        halay_request_put_locked(r);
    }
    int fd = ctx->completion_fd; /* a thread that asks for it later sees final statuses */
    pthread_mutex_unlock(&ctx->lock);
    while (fd >= 0 && write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue; /* EAGAIN: it is readable already */
}

static void call_steady(struct halay_context *ctx, halay_callback callback, void *arg)
{
    call_program(ctx, callback, arg, HALAY_OK, "");
}

void halay_requests_deliver_planned(struct halay_context *ctx, struct halay_plan_bucket *bucket,
                                    struct halay_request *const *requests)
{
    halay_count(&ctx->meters->tally.ended[HALAY_OK], halay_replay_deliver(bucket, requests, call_steady));
    wake_waiters(ctx, NULL);
}

size_t halay_requests_deliver(struct halay_context *ctx)
{
    struct halay_request *first = ctx->execution->ended;
    size_t count = 0;

    if (!first)
        return 0;
    ctx->execution->ended = NULL;
    ctx->execution->ended_last = &ctx->execution->ended;
    pthread_mutex_lock(&ctx->lock);
    for (struct halay_request *r = first; r; r = r->next, count++) {
        if (r->signature.collective == HALAY_JOIN) {
            ctx->queue.is_joined = 0;
            halay_unnamed_restart_locked(ctx);
        }
        if (r->signature.collective == HALAY_CHANGE_SETS)
            keep_set_locked(ctx, r);
        halay_request_detach_locked(r);
    }
    atomic_fetch_sub_explicit(&ctx->queue.in_flight, count, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);

    for (struct halay_request *r = first; r; r = r->next) {
        halay_count(&ctx->meters->tally.ended[r->final], 1);
        if (r->callback)
            call_program(ctx, r->callback, r->arg, r->final, r->text ? r->text : "");
        atomic_store_explicit(&r->status, (int)r->final, memory_order_release); /* see halay_request.status */
    }
    wake_waiters(ctx, first);
    return count;
}
