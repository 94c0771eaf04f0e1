/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait: the program's waits for and queries of requests.
 */
#include "fusion/api/wait.h"
#include "base/error_text.h"
#include "fusion/engine/driver.h"
#include "fusion/observe/recorder.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/requests.h"
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_AGAIN_US 50

enum halay_status halay_may_block(struct halay_context *ctx, const char *what)
{
    if (!ctx || atomic_load_explicit(&ctx->calling_back, memory_order_relaxed) != pthread_self())
        return HALAY_OK;
    halay_error(ctx->log, "%s in a callback: the engine waits for its return, so it would wait forever", what);
    return halay_returns(HALAY_ERR_UNSUPPORTED);
}

enum halay_status halay_refuse_child(void)
{
    return halay_refuses(HALAY_ERR_UNSUPPORTED, "a child of fork has no context");
}

void halay_call_begin(struct halay_context *ctx)
{
    if (ctx)
        atomic_fetch_add_explicit(&ctx->waiting.calls, 1, memory_order_relaxed);
}

void halay_call_end(struct halay_context *ctx)
{
    if (ctx)
        atomic_fetch_sub_explicit(&ctx->waiting.calls, 1, memory_order_release);
}

void halay_calls_end(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->waiting.is_ending, 1, memory_order_relaxed);
    pthread_cond_broadcast(&ctx->waiter_wakes);
    pthread_mutex_unlock(&ctx->lock);
    halay_driver_wake(ctx);
    while (atomic_load_explicit(&ctx->waiting.calls, memory_order_acquire)) /* a call may be in a callback */
        usleep(LOOK_AGAIN_US);
}

/* Returns the status of a request for the program. */
static enum halay_status say_status(struct halay_request *request)
{
    enum halay_status status = halay_request_status(request);

    if (status == HALAY_OK || status == HALAY_IN_PROGRESS)
        return status;
    return halay_refuses(status, "%s", request->text ? request->text : halay_status_string(status));
}

enum halay_status halay_test(struct halay_request *request)
{
    if (!request)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_test: no request");
    if (halay_is_child(request->ctx))
        return halay_refuse_child();
    enum halay_status status = say_status(request);
    if (status == HALAY_IN_PROGRESS)
        halay_driver_wake_deferred(request->ctx);
    return status;
}

/* Requests that a thread waits for, of one context; some may be NULL. */
struct awaited {
    struct halay_context *ctx;
    struct halay_request *const *requests;
    size_t count;
    size_t at;           /* all: those before have ended; any: the one that has */
    uint64_t deliveries; /* any: deliveries at the last look */
    int (*done)(void *arg);
};

static enum halay_status set_awaited(struct awaited *a, struct halay_request *const *requests, size_t count,
                                     const char *what)
{
    *a = (struct awaited){ .requests = requests, .count = count, .deliveries = UINT64_MAX };
    if (count && !requests)
        return halay_refuses(HALAY_ERR_ARGUMENT, "%s: no requests", what);
    for (size_t i = 0; i < count; i++) {
        a->ctx = requests[i] && !a->ctx ? requests[i]->ctx : a->ctx;
        if (requests[i] && requests[i]->ctx != a->ctx)
            return halay_refuses(HALAY_ERR_ARGUMENT, "%s: request %zu is of another context", what, i);
    }
    return a->ctx && halay_is_child(a->ctx) ? halay_refuse_child() : HALAY_OK;
}

/* Returns nonzero if a stream can wait for the result. */
static int is_on_its_way(const struct halay_request *request)
{
    return request->cargo && atomic_load_explicit(&request->cargo->is_launched, memory_order_acquire);
}

/* Returns nonzero if the result of one request is on its way. */
static int is_launched(void *arg)
{
    const struct awaited *a = arg;

    return is_on_its_way(a->requests[0]) || halay_request_status(a->requests[0]) != HALAY_IN_PROGRESS;
}

static int have_all_ended(void *arg)
{
    struct awaited *a = arg;

    while (a->at < a->count && (!a->requests[a->at] || halay_request_status(a->requests[a->at]) != HALAY_IN_PROGRESS))
        a->at++;
    return a->at == a->count;
}

/* Checks the requests only if one has ended since the last check. */
static int has_any_ended(void *arg)
{
    struct awaited *a = arg;
    /* Acquire: sees the statuses that were stored before it grew. */
    uint64_t deliveries = atomic_load_explicit(&a->ctx->queue.deliveries, memory_order_acquire);

    if (deliveries == a->deliveries)
        return a->at < a->count;
    a->deliveries = deliveries;
    for (a->at = 0; a->at < a->count; a->at++)
        if (a->requests[a->at] && halay_request_status(a->requests[a->at]) != HALAY_IN_PROGRESS)
            break;
    return a->at < a->count;
}

static int is_over_or_ending(void *arg)
{
    struct awaited *a = arg;

    return a->done(a) || atomic_load_explicit(&a->ctx->waiting.is_ending, memory_order_relaxed);
}

/* Waits until a->done, while the thread is in a blocking call. */
static enum halay_status wait_until(struct awaited *a, int timeout_ms, const char *what)
{
    struct halay_context *ctx = a->ctx;
    struct halay_record record = { .kind = 0 };

    if (a->done(a))
        return HALAY_OK;
    /* Ready tensors must not accumulate any longer. */
    atomic_store_explicit(&ctx->waiting.flush_wanted, 1, memory_order_relaxed);
    if (halay_may_block(ctx, what) != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    size_t first = a->at < a->count ? a->at : 0;
    while (!a->requests[first])
        first++;
    struct halay_request *waited = a->requests[first]; /* for the stall report */
    atomic_store_explicit(&ctx->waiting.waited, waited, memory_order_relaxed);
    if (halay_recording_all(ctx))
        halay_record_waits(ctx, waited, &record);
    int is_over = halay_driver_wait(ctx, is_over_or_ending, a, timeout_ms);
    if (record.kind)
        halay_record_waited(ctx, &record);
    else if (halay_recording(ctx))
        halay_record_wait_ended(ctx, waited);
    if (atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed) == waited)
        atomic_store_explicit(&ctx->waiting.waited, NULL, memory_order_relaxed);
    if (is_over)
        return a->done(a) ? HALAY_OK : halay_refuses(HALAY_ERR_CLOSED, "this rank is in halay_fini");
    const char *text = a->done == has_any_ended ? "no request has ended" : "not all requests have ended";
    return halay_refuses(HALAY_ERR_TIMEOUT, "%s after %d ms", a->count == 1 ? "the request has not ended" : text,
                         timeout_ms);
}

static enum halay_status first_error(const struct awaited *a)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->requests[i] && halay_request_status(a->requests[i]) != HALAY_OK)
            return say_status(a->requests[i]);
    return HALAY_OK;
}

/* Orders later work of the stream after the request's result, if the result is for a device. */
static enum halay_status join_stream(struct halay_request *request, void *stream)
{
    struct halay_context *ctx = request->ctx;
    enum halay_status status = halay_request_status(request);

    if (!is_on_its_way(request) || (status != HALAY_IN_PROGRESS && status != HALAY_OK))
        return say_status(request);
    return halay_returns(ctx->carrier->ops->join(ctx, request->cargo, stream));
}

enum halay_status halay_wait_stream(struct halay_request *request, int timeout_ms, void *stream)
{
    struct awaited a;

    if (!request)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_wait_stream: no request");
    enum halay_status status = set_awaited(&a, &request, 1, "halay_wait_stream");
    if (status != HALAY_OK)
        return status;
    halay_call_begin(a.ctx);
    a.done = is_launched;
    status = wait_until(&a, timeout_ms, "halay_wait_stream");
    if (status == HALAY_OK)
        status = join_stream(request, stream);
    halay_call_end(a.ctx);
    return status;
}

static enum halay_status wait_all(struct halay_request *const *requests, size_t count, int timeout_ms, const char *what)
{
    struct awaited a;

    enum halay_status status = set_awaited(&a, requests, count, what);
    if (status != HALAY_OK || !a.ctx)
        return status;
    halay_call_begin(a.ctx);
    a.done = have_all_ended;
    status = wait_until(&a, timeout_ms, what);
    status = status == HALAY_OK ? first_error(&a) : status;
    halay_call_end(a.ctx);
    return status;
}

enum halay_status halay_wait(struct halay_request *request, int timeout_ms)
{
    if (!request)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_wait: no request");
    return wait_all(&request, 1, timeout_ms, "halay_wait");
}

enum halay_status halay_wait_all(struct halay_request *const *requests, size_t count, int timeout_ms)
{
    return wait_all(requests, count, timeout_ms, "halay_wait_all");
}

enum halay_status halay_wait_any(struct halay_request *const *requests, size_t count, int timeout_ms, size_t *index)
{
    struct awaited a;

    enum halay_status status = set_awaited(&a, requests, count, "halay_wait_any");
    if (status != HALAY_OK)
        return status;
    if (!a.ctx || !index)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_wait_any: no %s", a.ctx ? "place for the index" : "request");
    halay_call_begin(a.ctx);
    a.done = has_any_ended;
    status = wait_until(&a, timeout_ms, "halay_wait_any");
    *index = status == HALAY_OK ? a.at : count;
    status = status == HALAY_OK ? say_status(requests[a.at]) : status;
    halay_call_end(a.ctx);
    return status;
}

int halay_completion_fd(struct halay_context *ctx)
{
    if (!ctx || halay_is_child(ctx))
        return -1;
    pthread_mutex_lock(&ctx->lock);
    if (ctx->completion_fd < 0)
        ctx->completion_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    int fd = ctx->completion_fd, error = errno;
    pthread_mutex_unlock(&ctx->lock);
    if (fd < 0)
        halay_error(ctx->log, "no descriptor for completions: %s", strerror(error));
    else
        halay_driver_wake_deferred(ctx); /* from now on no wake is deferred */
    return fd;
}

const char *halay_request_text(const struct halay_request *request)
{
    struct halay_request *r = (struct halay_request *)request; /* atomic loads take no const */

    return r && halay_request_status(r) != HALAY_IN_PROGRESS && r->text ? r->text : "";
}

void halay_request_free(struct halay_request *request)
{
    if (!request || halay_is_child(request->ctx))
        return;
    struct halay_context *ctx = request->ctx;
    int is_left_alone = halay_request_status(request) == HALAY_IN_PROGRESS;
    if (!halay_steady_free(request))
        halay_request_put(request);
    if (is_left_alone)
        halay_driver_wake_deferred(ctx);
}
