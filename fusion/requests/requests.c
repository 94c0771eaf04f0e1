/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: one for each submission, from a pool, with a reference count.
 *
 *     submit    references: engine, caller (if it wants a handle)
 *     end       the driver knows the outcome: final and text are set, the request is on the list of ended requests, or,
 *               while its results are copied to a device, with its carrier (carrier.h): its name may be submitted again
 *               meanwhile, by submissions that follow them
 *     deliver   no longer in flight (its name may be submitted again) -> callback -> status is final -> waiters wake
 *
 * So a callback may submit the same tensor again, and a thread that sees a final status knows that the callback has
 * returned. A submission allocates nothing once as many requests exist as were ever in flight, except the text of an
 * error.
 */
#include "fusion/requests/requests.h"
#include "base/error_text.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/set_words.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/names.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLAB_REQUESTS = 64 };

struct request_slab {
    struct request_slab *next;
    struct halay_request requests[SLAB_REQUESTS];
};

/* Resets a request, except what it keeps for its next use. */
static void request_reset(struct halay_request *request)
{
    request->next = NULL;
    request->set = NULL;
    request->entry = NULL;
    request->ordinal = 0;
    request->text = NULL;
    request->held = NULL;
    request->has_rows = 0;
    request->result_rows = request->result_bytes = 0;
    request->life = HALAY_LIFE_QUEUED;
    request->is_part = 0;
    request->timeout_ms = 0;
    request->expires_us = request->overdue_us = request->again_us = 0;
    request->withdrawn = HALAY_OK;
    request->watched_at = NULL;
    request->submitted_ns = request->started_ns = 0;
    request->collective = 0;
    atomic_store_explicit(&request->word, HALAY_STEADY_MOVED, memory_order_relaxed);
    atomic_store_explicit(&request->status, HALAY_IN_PROGRESS, memory_order_relaxed);
}

struct halay_request *halay_request_get_locked(struct halay_context *ctx)
{
    if (!ctx->queue.free_requests) {
        struct request_slab *slab = calloc(1, sizeof *slab);
        if (!slab)
            return NULL;
        slab->next = ctx->queue.slabs;
        ctx->queue.slabs = slab;
        for (int i = 0; i < SLAB_REQUESTS; i++) {
            slab->requests[i].next = ctx->queue.free_requests;
            ctx->queue.free_requests = &slab->requests[i];
        }
    }
    struct halay_request *request = ctx->queue.free_requests;
    ctx->queue.free_requests = request->next;
    request->ctx = ctx;
    request_reset(request);
    atomic_store_explicit(&request->references, 2, memory_order_relaxed);
    return request;
}

void halay_request_put_locked(struct halay_request *request)
{
    struct halay_context *ctx = request->ctx;

    /* acq_rel: the other holders' accesses happen before the reuse. */
    if (atomic_fetch_sub_explicit(&request->references, 1, memory_order_acq_rel) != 1)
        return;
    free(request->text);
    free(request->held);
    request->text = request->held = NULL;
    if (request->cargo) {
        ctx->carrier->ops->put_locked(request->cargo);
        request->cargo = NULL;
    }
    request->next = ctx->queue.free_requests;
    ctx->queue.free_requests = request;
}

void halay_request_drop_locked(struct halay_request *request)
{
    atomic_store_explicit(&request->references, 1, memory_order_relaxed);
    halay_request_put_locked(request);
}

void halay_request_put(struct halay_request *request)
{
    struct halay_context *ctx = request->ctx;

    pthread_mutex_lock(&ctx->lock);
    halay_request_put_locked(request);
    pthread_mutex_unlock(&ctx->lock);
}

struct halay_request *halay_steady_idle_locked(struct halay_entry *entry)
{
    struct halay_request *r = atomic_load_explicit(&entry->steady, memory_order_relaxed);

    if (!r)
        return NULL;
    if (atomic_load_explicit(&r->references, memory_order_acquire) != 1) {
        halay_steady_drop_locked(entry);
        return NULL;
    }
    free(r->text);
    free(r->held);
    request_reset(r);
    return r;
}

void halay_steady_drop_locked(struct halay_entry *entry)
{
    struct halay_request *r = atomic_load_explicit(&entry->steady, memory_order_relaxed);

    if (!r)
        return;
    atomic_store_explicit(&entry->steady, NULL, memory_order_relaxed);
    int was_in_plan = halay_steady_is_in_plan(r);
    if (was_in_plan)
        halay_replay_detach_locked(entry, r);
    if (!was_in_plan || !halay_steady_is_held(r)) /* else the reference is the program's */
        halay_request_put_locked(r);
}

void halay_request_unwatch(struct halay_request *request)
{
    if (!request->watched_at)
        return;
    *request->watched_at = request->watched_next;
    if (request->watched_next)
        request->watched_next->watched_at = request->watched_at;
    request->watched_at = NULL;
}

static void append_ended(struct halay_context *ctx, struct halay_request *request)
{
    request->next = NULL;
    *ctx->driven.execution.ended_last = request;
    ctx->driven.execution.ended_last = &request->next;
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
    if (halay_recording(&ctx->observers.recorder))
        halay_record_ended(ctx, request, status);
    halay_request_unwatch(request);
    halay_request_move(request, HALAY_LIFE_END);
    request->final = status;
    request->text = text && *text ? strdup(text) : NULL; /* without memory there is only the status */
    if (!request->cargo || !ctx->carrier->ops->land(ctx, request))
        append_ended(ctx, request);
}

/* Reopens a process set whose removal has failed. */
static void keep_set_locked(struct halay_context *ctx, const struct halay_request *r)
{
    if (r->final == HALAY_OK || r->words.at[0] != HALAY_SET_REMOVE)
        return;
    for (struct halay_process_set *set = ctx->all.next; set; set = set->next)
        if ((uint64_t)set->number == r->words.at[1] && set->state == HALAY_SET_CLOSING)
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

/* Signals after the lock was held: a thread that asks for the descriptor later sees final statuses. */
static void signal_completion(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        continue; /* EAGAIN: it is readable already */
}

void halay_request_detach_locked(struct halay_request *r)
{
    if (!r->entry)
        return;
    if (r->entry->request == r) /* else a steady one follows it */
        r->entry->request = NULL;
    halay_entry_release_locked(r->entry);
    r->entry = NULL;
}

static void call_steady(struct halay_context *ctx, halay_callback callback, void *arg)
{
    call_program(ctx, callback, arg, HALAY_OK, "");
}

void halay_requests_deliver_planned(struct halay_context *ctx, struct halay_plan_bucket *bucket,
                                    struct halay_request *const *requests)
{
    halay_count(&ctx->observers.meters->tally.ended[HALAY_OK], halay_replay_deliver(bucket, requests, call_steady));
    atomic_fetch_add_explicit(&ctx->queue.deliveries, 1, memory_order_release);
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
        pthread_cond_broadcast(&ctx->driver.waiter_wakes);
    int fd = ctx->completion_fd;
    pthread_mutex_unlock(&ctx->lock);
    if (fd >= 0)
        signal_completion(fd);
}

size_t halay_requests_deliver(struct halay_context *ctx)
{
    struct halay_request *first = ctx->driven.execution.ended, *next;
    size_t count = 0;

    if (!first)
        return 0;
    ctx->driven.execution.ended = NULL;
    ctx->driven.execution.ended_last = &ctx->driven.execution.ended;
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
        halay_count(&ctx->observers.meters->tally.ended[r->final], 1);
        if (r->callback)
            call_program(ctx, r->callback, r->arg, r->final, r->text ? r->text : "");
        atomic_store_explicit(&r->status, (int)r->final, memory_order_release); /* see halay_request.status */
    }

    atomic_fetch_add_explicit(&ctx->queue.deliveries, 1, memory_order_release);
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->waiting.waiters, memory_order_relaxed))
        pthread_cond_broadcast(&ctx->driver.waiter_wakes);
    for (struct halay_request *r = first; r; r = next) {
        next = r->next;
        halay_request_put_locked(r);
    }
    int fd = ctx->completion_fd;
    pthread_mutex_unlock(&ctx->lock);
    if (fd >= 0)
        signal_completion(fd);
    return count;
}

static void request_free(struct halay_request *request)
{
    free(request->text);
    free(request->held);
    halay_words_fini(&request->words);
    free(request->rows);
    free(request->buffers);
}

void halay_requests_free_all(struct halay_context *ctx)
{
    for (struct request_slab *slab = ctx->queue.slabs, *next; slab; slab = next) {
        next = slab->next;
        for (int i = 0; i < SLAB_REQUESTS; i++)
            request_free(&slab->requests[i]);
        free(slab);
    }
    ctx->queue.slabs = NULL;
    ctx->queue.free_requests = NULL;
}
