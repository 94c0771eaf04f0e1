/* SPDX-License-Identifier: Apache-2.0
 *
 * Abort: the program gives up the job. Only the driver may end what it owns, so a flag asks it to: that needs no memory
 * and no wait, whatever the other ranks do.
 */
#include "base/error_text.h"
#include "fusion/api/wait.h"
#include "fusion/engine/driver.h"
#include "fusion/requests/context.h"
#include <stdio.h>

enum halay_status halay_abort(struct halay_context *ctx, const char *reason)
{
    if (!ctx)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_abort: no context");
    if (halay_is_child(ctx))
        return halay_refuse_child();
    pthread_mutex_lock(&ctx->lock);
    if (!ctx->queue.is_aborted) {
        snprintf(ctx->queue.reason, sizeof ctx->queue.reason, "%s", reason ? reason : "no reason given");
        ctx->queue.is_aborted = 1;
        atomic_store_explicit(&ctx->queue.has_events, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&ctx->lock);
    halay_driver_wake(ctx);
    return HALAY_OK;
}
