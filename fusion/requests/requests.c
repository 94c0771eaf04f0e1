/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests, and the events by which the driver gets them.
 *
 * There is one for each submission, from a pool, with a reference count: the engine's until it is delivered
 * (run/deliver.c), and the caller's, if it wants a handle. A submission allocates nothing once as many requests exist
 * as were ever in flight, except the text of an error.
 */
#include "fusion/requests/requests.h"
#include "base/memory.h"
#include "fusion/requests/carrier.h"
#include <stdlib.h>

enum { SLAB_REQUESTS = 64 };

struct request_slab {
    struct request_slab *next;
    struct halay_request requests[SLAB_REQUESTS];
};

void halay_request_reset(struct halay_request *request)
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
    request->expires_us = request->overdue_us = request->retry_us = 0;
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
    halay_request_reset(request);
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

void halay_request_unwatch(struct halay_request *request)
{
    if (!request->watched_at)
        return;
    *request->watched_at = request->watched_next;
    if (request->watched_next)
        request->watched_next->watched_at = request->watched_at;
    request->watched_at = NULL;
}

static void request_free(struct halay_request *request)
{
    free(request->text);
    free(request->held);
    halay_payload_fini(&request->payload);
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

/* ---- events ---- */

enum halay_status halay_queue_reserve_locked(struct halay_queue *queue, size_t count)
{
    struct halay_events *q = &queue->submitted;
    size_t wanted;

    if (halay_add_overflows(q->count, count, &wanted))
        return HALAY_ERR_NO_MEMORY;
    if (wanted > q->capacity && wanted < 2 * q->capacity)
        wanted = 2 * q->capacity;
    return halay_list_reserve(&q->events, wanted, &q->capacity, sizeof *q->events);
}

enum halay_status halay_events_append(struct halay_events *list, const struct halay_event *event)
{
    if (halay_list_grow(&list->events, list->count, &list->capacity, sizeof *event) != HALAY_OK)
        return HALAY_ERR_NO_MEMORY;
    list->events[list->count++] = *event;
    return HALAY_OK;
}

enum halay_status halay_queue_push_locked(struct halay_queue *queue, const struct halay_event *event)
{
    enum halay_status status = halay_events_append(&queue->submitted, event);

    if (status == HALAY_OK) /* relaxed: the driver takes the lock to read the events; this flag only wakes it */
        atomic_store_explicit(&queue->has_events, 1, memory_order_relaxed);
    return status;
}

void halay_queue_clear(struct halay_queue *queue)
{
    struct halay_events *lists[] = { &queue->submitted, &queue->batch, &queue->changes, &queue->resubmitted };

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        free(lists[i]->events);
        *lists[i] = (struct halay_events){ 0 };
    }
    queue->failed = HALAY_OK;
}
