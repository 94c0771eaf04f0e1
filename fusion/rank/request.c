/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: one submission each, from a pool, with a reference count.
 *
 *     submit    references: engine, caller (if he wants a handle)
 *     end       the driver knows the outcome: final and text are set, the request is on the list of the ended
 *     deliver   no longer in flight (its name may be submitted again) -> callback -> status is final -> waiters wake
 *
 * So a callback may submit the same tensor again, and who sees a final status knows that the callback has returned.
 * Nothing is allocated for a submission once as many requests exist as were ever in flight, except the text of an
 * error.
 */
#include "base/clock.h"
#include "fusion/engine.h"
#include <stdlib.h>
#include <string.h>

enum { SLAB_REQUESTS = 64 };

struct request_slab {
    struct request_slab *next;
    struct halay_request requests[SLAB_REQUESTS];
};

struct halay_request *halay_request_get_locked(struct halay_context *ctx)
{
    if (!ctx->free_requests) {
        struct request_slab *slab = calloc(1, sizeof *slab);
        if (!slab)
            return NULL;
        slab->next = ctx->slabs;
        ctx->slabs = slab;
        for (int i = 0; i < SLAB_REQUESTS; i++) {
            slab->requests[i].next = ctx->free_requests;
            ctx->free_requests = &slab->requests[i];
        }
    }
    struct halay_request *request = ctx->free_requests;
    ctx->free_requests = request->next;
    request->ctx = ctx;
    request->next = NULL;
    request->set = NULL;
    request->entry = NULL;
    request->ordinal = 0;
    request->text = NULL;
    request->held = NULL;
    request->has_rows = 0;
    request->result_rows = request->result_bytes = 0;
    request->is_running = request->is_over = request->is_part = 0;
    request->submitted_ns = request->started_ns = 0;
    request->collective = 0;
    atomic_store_explicit(&request->references, 2, memory_order_relaxed);
    atomic_store_explicit(&request->status, HALAY_IN_PROGRESS, memory_order_relaxed);
    return request;
}

void halay_request_put_locked(struct halay_request *request)
{
    struct halay_context *ctx = request->ctx;

    /* acq_rel: what the other holders did with the request comes before its reuse. */
    if (atomic_fetch_sub_explicit(&request->references, 1, memory_order_acq_rel) != 1)
        return;
    free(request->text);
    free(request->held);
    request->text = request->held = NULL;
    request->next = ctx->free_requests;
    ctx->free_requests = request;
}

void halay_request_put(struct halay_request *request)
{
    struct halay_context *ctx = request->ctx;

    pthread_mutex_lock(&ctx->lock);
    halay_request_put_locked(request);
    pthread_mutex_unlock(&ctx->lock);
}

void halay_request_end(struct halay_request *request, enum halay_status status, const char *text)
{
    struct halay_context *ctx = request->ctx;

    if (request->is_over)
        return;
    if (halay_recording(&ctx->recorder))
        halay_record_ended(ctx, request, status);
    request->is_over = 1;
    request->final = status;
    request->text = text && *text ? strdup(text) : NULL; /* without memory the status must do */
    request->next = NULL;
    *ctx->ended_last = request;
    ctx->ended_last = &request->next;
}

static void call_back(struct halay_context *ctx, const struct halay_request *r)
{
    atomic_store_explicit(&ctx->calling_back, pthread_self(), memory_order_relaxed);
    r->callback(r->arg, r->final, r->text ? r->text : "");
    atomic_store_explicit(&ctx->calling_back, 0, memory_order_relaxed);
}

enum halay_status halay_may_block(struct halay_context *ctx, const char *what)
{
    if (!ctx || atomic_load_explicit(&ctx->calling_back, memory_order_relaxed) != pthread_self())
        return HALAY_OK;
    halay_error(ctx->log, "%s in a callback: the engine waits for its return, so it would wait for ever", what);
    return HALAY_ERR_UNSUPPORTED;
}

size_t halay_requests_deliver(struct halay_context *ctx)
{
    struct halay_request *first = ctx->ended, *next;
    size_t count = 0;

    if (!first)
        return 0;
    ctx->ended = NULL;
    ctx->ended_last = &ctx->ended;
    pthread_mutex_lock(&ctx->lock);
    for (struct halay_request *r = first; r; r = r->next, count++) {
        if (r->signature.operation == HALAY_JOIN)
            ctx->is_joined = 0;
        r->entry->request = NULL;
        halay_entry_release_locked(r->entry);
        r->entry = NULL;
    }
    atomic_fetch_sub_explicit(&ctx->in_flight, count, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);

    for (struct halay_request *r = first; r; r = r->next) {
        halay_count(&ctx->tally.ended[r->final], 1);
        if (r->callback)
            call_back(ctx, r);
        atomic_store_explicit(&r->status, (int)r->final, memory_order_release); /* see halay_request.status */
    }

    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->waiters, memory_order_relaxed))
        pthread_cond_broadcast(&ctx->waiter_wakes);
    for (struct halay_request *r = first; r; r = next) {
        next = r->next;
        halay_request_put_locked(r);
    }
    pthread_mutex_unlock(&ctx->lock);
    return count;
}

static void request_free(struct halay_request *request)
{
    free(request->text);
    free(request->held);
    halay_words_fini(&request->words);
    free(request->rows);
    free(request->parts);
}

void halay_requests_free_all(struct halay_context *ctx)
{
    for (struct request_slab *slab = ctx->slabs, *next; slab; slab = next) {
        next = slab->next;
        for (int i = 0; i < SLAB_REQUESTS; i++)
            request_free(&slab->requests[i]);
        free(slab);
    }
    ctx->slabs = NULL;
    ctx->free_requests = NULL;
}

/* ---- public ---- */

static enum halay_status status_of(struct halay_request *request)
{
    return (enum halay_status)atomic_load_explicit(&request->status, memory_order_acquire);
}

/*
 * Somebody waits: don't let it lie and accumulate. In the deterministic modes what runs alone depends on it
 * (streams.h), so it counts at its place among this rank's submissions, whether what is waited for has already ended or
 * not; a second wait without a submission in between says nothing new.
 */
static void note_waiter(struct halay_context *ctx, int is_test)
{
    if (ctx->world->config.deterministic == HALAY_DETERMINISTIC_OFF) {
        if (!is_test)
            atomic_store_explicit(&ctx->flush_wanted, 1, memory_order_relaxed);
        return;
    }
    if (!atomic_load_explicit(&ctx->is_unwaited, memory_order_relaxed))
        return;
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->is_unwaited, memory_order_relaxed) &&
        halay_events_push(ctx, &(struct halay_event){ .kind = HALAY_EVENT_WAITED }) == HALAY_OK)
        atomic_store_explicit(&ctx->is_unwaited, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (is_test)
        halay_cycle_wake(ctx);
}

enum halay_status halay_test(struct halay_request *request)
{
    if (!request)
        return HALAY_ERR_ARGUMENT;
    if (halay_is_child(request->ctx))
        return HALAY_ERR_UNSUPPORTED;
    note_waiter(request->ctx, 1);
    enum halay_status status = status_of(request);
    if (status == HALAY_IN_PROGRESS)
        halay_cycle_pay(request->ctx);
    return status;
}

static int has_ended(void *request)
{
    return status_of(request) != HALAY_IN_PROGRESS;
}

enum halay_status halay_wait(struct halay_request *request, int timeout_ms)
{
    if (!request)
        return HALAY_ERR_ARGUMENT;
    if (halay_is_child(request->ctx))
        return HALAY_ERR_UNSUPPORTED;
    note_waiter(request->ctx, 0);
    if (has_ended(request))
        return status_of(request);
    struct halay_context *ctx = request->ctx;
    struct halay_record record = { .kind = 0 };
    if (halay_may_block(ctx, "halay_wait") != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    atomic_store_explicit(&ctx->waited, request, memory_order_relaxed);
    if (halay_recording(&ctx->recorder))
        halay_record_waits(ctx, request, &record);
    int is_over = halay_cycle_wait(ctx, has_ended, request, halay_deadline_us(timeout_ms));
    if (record.kind)
        halay_record_waited(ctx, &record);
    if (atomic_load_explicit(&ctx->waited, memory_order_relaxed) == request)
        atomic_store_explicit(&ctx->waited, NULL, memory_order_relaxed);
    return is_over ? status_of(request) : HALAY_ERR_TIMEOUT;
}

const char *halay_request_text(const struct halay_request *request)
{
    struct halay_request *r = (struct halay_request *)request; /* atomic loads take no const */

    return r && status_of(r) != HALAY_IN_PROGRESS && r->text ? r->text : "";
}

void halay_request_free(struct halay_request *request)
{
    if (!request || halay_is_child(request->ctx))
        return;
    struct halay_context *ctx = request->ctx;
    int is_left_alone = status_of(request) == HALAY_IN_PROGRESS;
    halay_request_put(request);
    if (is_left_alone)
        halay_cycle_pay(ctx);
}
