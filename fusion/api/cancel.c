/* SPDX-License-Identifier: Apache-2.0
 *
 * Cancel: withdraws a request that has not started. The driver does the work (engine/withdraw.c).
 */
#include "base/error_text.h"
#include "fusion/api/wait.h"
#include "fusion/engine/driver.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/requests.h"

static int is_in_flight(struct halay_request *request)
{
    if (halay_steady_is_in_plan(request))
        return halay_steady_is_in_flight(request);
    return request->entry && !halay_steady_is_done(request);
}

enum halay_status halay_cancel(struct halay_request *request)
{
    enum halay_status status = HALAY_OK;

    if (!request)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_cancel: no request");
    struct halay_context *ctx = request->ctx;
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (request->signature.collective == HALAY_JOIN)
        return halay_refuses(HALAY_ERR_UNSUPPORTED, "halay_cancel: a join cannot be canceled");
    pthread_mutex_lock(&ctx->lock);
    if (is_in_flight(request)) { /* it cannot end before the driver gets the lock */
        status = halay_queue_push_locked(&ctx->queue,
                                         &(struct halay_event){ .kind = HALAY_EVENT_CANCELED, .request = request });
        if (status == HALAY_OK)
            atomic_fetch_add_explicit(&request->references, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&ctx->lock);
    halay_driver_wake(ctx);
    return halay_returns(status);
}
