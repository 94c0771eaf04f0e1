/* SPDX-License-Identifier: Apache-2.0
 *
 * Reasons to leave a plan that no submission gives. Liveness is that of negotiation: a rank leaves if its program waits
 * for a tensor that can't be entered (WAITS_US), if a bucket stays incomplete or can't be entered (HELD_US), and if one
 * that it has entered does not complete for long, so that the coordinator reports stalls (slow_us).
 */
#include "fusion/replay/reasons.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/replay.h"
#include "fusion/replay/steady.h"
#include "fusion/state/entry.h"
#include <limits.h>

#define WAITS_US 1000   /* how long a program may wait for a tensor whose bucket can't be entered */
#define LOOK_US 200     /* how often it is looked for reasons */
#define HELD_US 50000   /* how long a bucket may stay incomplete, or held up by an incomplete one */
#define SLOW_US 1000000 /* how long a bucket may be under way */

/* Returns nonzero if the bucket can't be entered because of this rank's program. */
static int is_held_up(const struct halay_replay *p, const struct halay_plan_bucket *b)
{
    if (b->state == HALAY_PLAN_READY)
        return p->is_active && halay_plan_must_wait(b);
    return halay_plan_is_partial(b);
}

/* Returns the bucket of the tensor that the program waits for, or NULL. */
static const struct halay_plan_bucket *find_awaited(const struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    const struct halay_plan_bucket *b = NULL;

    pthread_mutex_lock(&ctx->lock);
    struct halay_request *r = atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed);
    if (r && r->set == set && r->entry && (r->entry->request == r || halay_steady_is_in_flight(r)))
        b = r->entry->planned;
    pthread_mutex_unlock(&ctx->lock);
    return b;
}

/* Returns nonzero if the program has not submitted all tensors of the bucket. What it has submitted and the bucket
 * lacks is on its way: its data come from a device. */
static int lacks_submissions(const struct halay_plan_bucket *b)
{
    struct halay_context *ctx = b->plan->set->ctx;
    int lacks = 0;

    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < b->count && !lacks; i++) {
        const struct halay_request *ordinary = b->entries[i]->request;
        lacks = !(ordinary && ordinary->life != HALAY_LIFE_ENDED) &&
                !(b->steady[i] && halay_steady_is_in_flight(b->steady[i]));
    }
    pthread_mutex_unlock(&ctx->lock);
    return lacks;
}

static int64_t slow_us(const struct halay_context *ctx)
{
    int64_t quarter = (int64_t)ctx->world->config.stall_check_ms * 250;

    return quarter && quarter < SLOW_US ? quarter : SLOW_US;
}

/* How long a bucket has been as it is. A submission without a lock leaves no time: it is seen here. */
static int64_t look_at_bucket(struct halay_plan_bucket *b, int64_t now_us)
{
    size_t missing = atomic_load_explicit(&b->missing, memory_order_acquire);

    if (b->state == HALAY_PLAN_FILLING && missing != b->seen_missing) {
        b->seen_missing = missing;
        b->since_us = now_us;
    }
    if (b->state == HALAY_PLAN_FILLING && !missing) /* there was no memory for the event that says so */
        halay_plan_set_ready(b);
    return now_us - b->since_us;
}

static void look_for_reasons(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;
    const struct halay_plan_bucket *awaited = NULL;
    int64_t slow = slow_us(ctx);
    int has_looked = 0;

    if (ctx->driven.now_us - p->looked_us < LOOK_US)
        return;
    p->looked_us = ctx->driven.now_us;
    for (size_t i = 0; i < p->count && p->state == PLAN_PLANNED; i++) {
        struct halay_plan_bucket *b = p->buckets[i];
        int64_t age_us = look_at_bucket(b, ctx->driven.now_us);
        if (b->state != HALAY_PLAN_FILLING && age_us >= slow)
            halay_replay_break(p->set, HALAY_BREAK_SLOW);
        if (age_us < WAITS_US || !is_held_up(p, b))
            continue;
        if (!has_looked)
            awaited = find_awaited(p->set);
        has_looked = 1;
        if (age_us >= HELD_US || (b == awaited && (b->state == HALAY_PLAN_READY || lacks_submissions(b))))
            halay_replay_break(p->set, HALAY_BREAK_WAITS);
    }
}

enum halay_status halay_replay_look(struct halay_context *ctx)
{
    enum halay_status status = ctx->driven.changes_status;

    for (struct halay_process_set *set = &ctx->all; set && status == HALAY_OK; set = set->next) {
        if (halay_replay_is_off(set))
            continue;
        if (set->replay->state == PLAN_PLANNED)
            look_for_reasons(set->replay);
        status = set->replay->failed;
    }
    return status;
}

long halay_replay_sleep_us(const struct halay_context *ctx)
{
    long least = LONG_MAX;

    for (const struct halay_process_set *set = &ctx->all; set; set = set->next) {
        const struct halay_replay *p = set->replay;
        if (!p || p->state != PLAN_PLANNED)
            continue;
        long limit = p->ready_count || halay_plan_has_partial(p) ? HELD_US
                     : p->running_count                          ? (long)slow_us(ctx)
                                                                 : LONG_MAX;
        if (limit == HELD_US &&
            atomic_load_explicit(&((struct halay_context *)ctx)->waiting.waited, memory_order_relaxed))
            limit = WAITS_US;
        least = limit < least ? limit : least;
    }
    return least;
}
