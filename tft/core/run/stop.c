/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop: a flag, and the largest of all ranks' flags.
 */
#include "tft/core/run/stop.h"

void tft_stop_ask(struct tft_stop *stop, int reason)
{
    atomic_store_explicit(&stop->reason, reason, memory_order_relaxed);
}

int tft_stop_asked(const struct tft_stop *stop)
{
    return stop ? atomic_load_explicit(&stop->reason, memory_order_relaxed) : 0;
}

enum halay_status tft_stop_share(struct halay_context *ctx, struct tft_stop *stop, int *reason)
{
    int32_t most = tft_stop_asked(stop);
    enum halay_status status = HALAY_OK;

    if (halay_size(ctx) > 1)
        status = halay_allreduce(ctx, "interrupt", NULL, &most, 1, HALAY_I32, HALAY_MAX);
    if (status)
        return status;
    if (most && stop)
        tft_stop_ask(stop, most);
    *reason = most;
    return HALAY_OK;
}
