/* SPDX-License-Identifier: Apache-2.0
 *
 * Express: this rank's side; the whole is in fusion/protocol/enrolment.h.
 */
#include "fusion/paths/express.h"
#include "base/clock.h"
#include "fusion/coordinator/express_rounds.h"
#include "fusion/observe/recorder.h"
#include "fusion/requests/requests.h"
#include "fusion/state/entry.h"

int halay_express_start(struct halay_context *ctx, struct halay_request *r)
{
    struct halay_express *x = &ctx->driven.negotiation.express;
    const struct halay_enrolment *e = &r->entry->enrolment;

    if (!e->pair || !halay_express_suits(&r->signature) || e->round < r->entry->held)
        return 0;
    r->is_told = 0;
    r->put_us = ctx->driven.now_us;
    r->started_ns = halay_recording(&ctx->observers.recorder) ? halay_now_ns() : 0;
    x->requests[x->count++] = r; /* one a pair at most */
    x->untold++;
    halay_express_put(ctx->all.group, e->pair - 1, e->round + 1, r->in, r->bytes);
    return 1;
}

/* Nonzero if the request has left express. */
static int look_at_slots(struct halay_context *ctx, struct halay_request *r)
{
    struct halay_enrolment *e = &r->entry->enrolment;
    const struct halay_signature *s = &r->signature;

    if (r->life >= HALAY_LIFE_RUNNING)
        return 1;
    if (!halay_express_take(ctx->all.group, e->pair - 1, e->round + 1, r->out, r->count, (enum halay_dtype)s->dtype,
                            (enum halay_reduction)s->reduction))
        return 0;
    e->round++;
    halay_count(&ctx->observers.meters->tally.collectives, 1);
    halay_count(&ctx->observers.meters->tally.bytes, r->bytes);
    if (ctx->driven.negotiation.coordinator)
        halay_coordinator_round_is_over(ctx->driven.negotiation.coordinator, r->entry->id, e->round,
                                        ctx->driven.now_us);
    if (r->started_ns && halay_recording(&ctx->observers.recorder))
        halay_record_express(ctx, r);
    halay_request_end(r, HALAY_OK, NULL);
    return 1;
}

size_t halay_express_progress(struct halay_context *ctx)
{
    struct halay_express *x = &ctx->driven.negotiation.express;
    size_t before = x->count;

    for (size_t i = 0; i < x->count;) {
        struct halay_request *r = x->requests[i];
        if (!look_at_slots(ctx, r)) {
            i++;
            continue;
        }
        x->untold -= !r->is_told;
        x->requests[i] = x->requests[--x->count];
    }
    return before - x->count;
}
