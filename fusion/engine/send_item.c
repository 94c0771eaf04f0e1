/* SPDX-License-Identifier: Apache-2.0
 *
 * Sending: by a call on rank 0, by the messenger elsewhere.
 */
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/fail.h"
#include "fusion/protocol/messenger.h"

/* Rank 0 of the job is rank 0 of each set that it is in. */
void halay_send_item(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    enum halay_status status;

    if (set->coordinator)
        status = halay_coordinator_receive(set->coordinator, 0, item, ctx->now_us);
    else
        status = halay_messenger_append(ctx->messenger, 0, item);
    halay_engine_expect_ok(ctx, status, "negotiation failed");
}
