/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasons to leave a plan, other than submissions. No program may hang with a plan that would not hang under
 * negotiation. So a rank leaves the plan if
 *
 *   - its program waits for a tensor whose bucket it holds up itself, by tensors that it has not submitted (WAITS_US),
 *   - it holds up a bucket for longer, even if its program does not wait (HELD_US), or
 *   - a bucket whose tensors it has all submitted does not end (slow_us): the coordinator then reports the stall.
 */
#include "fusion/replay/reasons.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/replay.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/entry.h"
#include <limits.h>

#define WAITS_US 1000   /* how long a program may wait for a tensor whose bucket it holds up */
#define LOOK_US 200     /* time between two checks */
#define HELD_US 50000   /* how long a bucket may stay incomplete, or held up by an incomplete one */
#define SLOW_US 1000000 /* how long a bucket may be ready or running */

/* Returns nonzero if some tensors of the bucket are submitted and others are not. */
static int is_partial(const struct halay_plan_bucket *b)
{
    size_t missing = atomic_load_explicit(&((struct halay_plan_bucket *)b)->missing, memory_order_relaxed);

    return b->state == HALAY_PLAN_FILLING && missing && missing < b->count;
}

/* Returns nonzero if b, which is ready, cannot be entered before the other bucket, which lacks tensors of this rank. A
 * bucket that waits only for complete ones waits for other ranks. */
static int must_follow(const struct halay_plan_bucket *b, const struct halay_plan_bucket *other)
{
    return other->state == HALAY_PLAN_FILLING && other->number < b->number &&
           (other->number % HALAY_CHANNELS == b->number % HALAY_CHANNELS || (other->is_on_devices && b->is_on_devices));
}

/* Returns nonzero if the program waits for a tensor of the bucket. */
static int is_awaited(const struct halay_plan_bucket *b)
{
    struct halay_context *ctx = b->plan->set->ctx;

    pthread_mutex_lock(&ctx->lock);
    struct halay_request *r = atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed);
    int is = r && r->entry && r->entry->planned == b && (r->entry->request == r || halay_steady_is_in_flight(r));
    pthread_mutex_unlock(&ctx->lock);
    return is;
}

/* Returns nonzero if the program has not submitted all tensors of the bucket. A tensor that it has submitted may not
 * count in the bucket yet: its data are being copied from a device. */
static int lacks_submissions(const struct halay_plan_bucket *b)
{
    struct halay_context *ctx = b->plan->set->ctx;
    int lacks = 0;

    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < b->count && !lacks; i++) {
        const struct halay_request *ordinary = b->entries[i]->request;
        struct halay_request *steady = atomic_load_explicit(&b->entries[i]->steady, memory_order_relaxed);
        lacks = !(ordinary && ordinary->life != HALAY_LIFE_ENDED) && !(steady && halay_steady_is_in_flight(steady));
    }
    pthread_mutex_unlock(&ctx->lock);
    return lacks;
}

static int64_t slow_us(const struct halay_context *ctx)
{
    int64_t quarter = (int64_t)ctx->world->config.stall_check_ms * 250;

    return quarter && quarter < SLOW_US ? quarter : SLOW_US;
}

/* Returns how long a bucket has not changed. A steady submission records no time, so it is noticed here. */
static int64_t look_at_bucket(struct halay_plan_bucket *b, int64_t now_us)
{
    size_t missing = atomic_load_explicit(&b->missing, memory_order_acquire);

    if (b->state == HALAY_PLAN_FILLING && missing != b->seen_missing) {
        b->seen_missing = missing;
        b->since_us = now_us;
    }
    if (b->state == HALAY_PLAN_FILLING && !missing) /* its event was lost for want of memory */
        halay_plan_set_ready(b);
    return now_us - b->since_us;
}

/* Returns nonzero if this rank's program has held b up for too long by the other bucket, or by b itself. */
static int holds_up(const struct halay_plan_bucket *other, const struct halay_plan_bucket *b, int64_t age_us)
{
    return age_us >= HELD_US || (is_awaited(b) && lacks_submissions(other));
}

static int is_held_up(const struct halay_plan_bucket *b, int64_t age_us)
{
    const struct halay_replay *p = b->plan;
    int is = is_partial(b) && holds_up(b, b, age_us);

    for (size_t i = 0; i < p->count && b->state == HALAY_PLAN_READY && p->is_active && !is; i++)
        is = must_follow(b, p->buckets[i]) && holds_up(p->buckets[i], b, age_us);
    return is;
}

static void look_for_reasons(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;

    if (ctx->now_us - p->looked_us < LOOK_US)
        return;
    p->looked_us = ctx->now_us;
    for (size_t i = 0; i < p->count && p->state == PLAN_PLANNED; i++) {
        struct halay_plan_bucket *b = p->buckets[i];
        int64_t age_us = look_at_bucket(b, ctx->now_us);
        if (b->state != HALAY_PLAN_FILLING && age_us >= slow_us(ctx))
            halay_replay_break(p->set, HALAY_BREAK_SLOW);
        if (age_us >= WAITS_US && is_held_up(b, age_us))
            halay_replay_break(p->set, HALAY_BREAK_WAITS);
    }
}

enum halay_status halay_replay_look(struct halay_context *ctx)
{
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->replay && set->replay->state == PLAN_PLANNED)
            look_for_reasons(set->replay);
    return ctx->queue.failed;
}

long halay_replay_sleep_us(const struct halay_context *ctx)
{
    long least = LONG_MAX;

    for (const struct halay_process_set *set = &ctx->all; set; set = set->next) {
        const struct halay_replay *p = set->replay;
        if (!p || p->state != PLAN_PLANNED)
            continue;
        int may_be_held = p->ready != NULL;
        for (size_t i = 0; i < p->count && !may_be_held; i++)
            may_be_held = is_partial(p->buckets[i]);
        long limit = !may_be_held ? p->busy ? (long)slow_us(ctx) : LONG_MAX
                     : atomic_load_explicit(&((struct halay_context *)ctx)->waiting.waited, memory_order_relaxed)
                         ? WAITS_US
                         : HELD_US;
        least = limit < least ? limit : least;
    }
    return least;
}
