/* SPDX-License-Identifier: Apache-2.0
 *
 * Wait: what a program asks of its requests.
 */
#include "fusion/api/wait.h"
#include "base/clock.h"
#include "base/error_text.h"
#include "fusion/observe/recorder.h"
#include "fusion/rank/driver.h"
#include "fusion/rank/requests.h"

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

static enum halay_status status_of(struct halay_request *request)
{
    return (enum halay_status)atomic_load_explicit(&request->status, memory_order_acquire);
}

/* A thread waits, so what is ready must not accumulate any longer. In the deterministic modes this decides what runs
 * alone (streams.h): its position among this rank's submissions counts, whether or not the awaited request has ended; a
 * second wait without a submission in between adds nothing. */
static void note_waiter(struct halay_context *ctx, int is_test)
{
    if (ctx->world->config.deterministic == HALAY_DETERMINISTIC_OFF) {
        if (!is_test)
            atomic_store_explicit(&ctx->waiting.flush_wanted, 1, memory_order_relaxed);
        return;
    }
    if (!atomic_load_explicit(&ctx->waiting.is_unwaited, memory_order_relaxed))
        return;
    pthread_mutex_lock(&ctx->lock);
    if (atomic_load_explicit(&ctx->waiting.is_unwaited, memory_order_relaxed) &&
        halay_queue_push_locked(&ctx->queue, &(struct halay_event){ .kind = HALAY_EVENT_WAITED }) == HALAY_OK)
        atomic_store_explicit(&ctx->waiting.is_unwaited, 0, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (is_test)
        halay_driver_wake(ctx);
}

/* The status of a request, for the program. */
static enum halay_status say_status(struct halay_request *request)
{
    enum halay_status status = status_of(request);

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
    note_waiter(request->ctx, 1);
    enum halay_status status = say_status(request);
    if (status == HALAY_IN_PROGRESS)
        halay_driver_pay(request->ctx);
    return status;
}

static int has_ended(void *request)
{
    return status_of(request) != HALAY_IN_PROGRESS;
}

enum halay_status halay_wait(struct halay_request *request, int timeout_ms)
{
    if (!request)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_wait: no request");
    if (halay_is_child(request->ctx))
        return halay_refuse_child();
    note_waiter(request->ctx, 0);
    if (has_ended(request))
        return say_status(request);
    struct halay_context *ctx = request->ctx;
    struct halay_record record = { .kind = 0 };
    if (halay_may_block(ctx, "halay_wait") != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    atomic_store_explicit(&ctx->waiting.waited, request, memory_order_relaxed);
    if (halay_recording(&ctx->observers.recorder))
        halay_record_waits(ctx, request, &record);
    int is_over = halay_driver_wait(ctx, has_ended, request, halay_deadline_us(timeout_ms));
    if (record.kind)
        halay_record_waited(ctx, &record);
    if (atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed) == request)
        atomic_store_explicit(&ctx->waiting.waited, NULL, memory_order_relaxed);
    return is_over ? say_status(request)
                   : halay_refuses(HALAY_ERR_TIMEOUT, "the request has not ended after %d ms", timeout_ms);
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
        halay_driver_pay(ctx);
}
