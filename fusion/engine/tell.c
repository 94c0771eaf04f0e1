/* SPDX-License-Identifier: Apache-2.0
 *
 * Tell: by a call on rank 0, by the messenger elsewhere.
 */
#include "fusion/engine/tell.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/fail.h"
#include "fusion/paths/express.h"
#include "fusion/protocol/messenger.h"
#include "fusion/state/entry.h"
#include "fusion/state/request.h"

/* May the coordinator go by what it has heard of express rounds? Rank 0 looks first, as for the items of the others. */
static int needs_look(enum halay_item_kind kind)
{
    return kind == HALAY_ITEM_ANNOUNCE || kind == HALAY_ITEM_BYE || kind == HALAY_ITEM_WITHDRAW ||
           kind == HALAY_ITEM_HOLD;
}

/* Rank 0 of the job is rank 0 of each set that it is in. */
void halay_tell(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_context *ctx = set->ctx;
    enum halay_status status;

    if (set->coordinator && needs_look(item->kind))
        halay_express_progress(ctx);
    if (set->coordinator)
        status = halay_coordinator_receive(set->coordinator, 0, item, ctx->driven.now_us);
    else
        status = halay_messenger_append(ctx->driven.negotiation.messenger, 0, item);
    if (status != HALAY_OK)
        halay_engine_fail(ctx, status, ctx->rank, "negotiation failed on rank %d: %s", ctx->rank,
                          halay_status_string(status));
}

size_t halay_tell_late(struct halay_context *ctx, int everything)
{
    struct halay_express *x = &ctx->driven.negotiation.express;
    size_t told = 0;

    for (size_t i = 0; i < x->count && x->untold; i++) {
        struct halay_request *r = x->requests[i];
        if (r->is_told || r->life == HALAY_LIFE_ENDED ||
            (!everything && ctx->driven.now_us - r->put_us < HALAY_EXPRESS_LATE_US))
            continue;
        r->is_told = 1;
        x->untold--;
        told++;
        halay_tell(&ctx->all, &(struct halay_item){ .kind = HALAY_ITEM_LATE,
                                                    .id = r->entry->id,
                                                    .round = r->entry->enrolment.round + 1 });
    }
    return told;
}
