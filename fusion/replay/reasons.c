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

/* Buckets with the lowest numbers that lack tensors of this rank: one of each channel, and one of those on devices;
 * NULL: none. */
struct holders {
    const struct halay_plan_bucket *on_channel[HALAY_CHANNELS], *on_devices;
};

static void note_holder(struct holders *h, const struct halay_plan_bucket *b)
{
    const struct halay_plan_bucket **at = &h->on_channel[b->number % HALAY_CHANNELS];

    if (b->state != HALAY_PLAN_FILLING)
        return;
    if (!*at || b->number < (*at)->number)
        *at = b;
    if (b->is_on_devices && (!h->on_devices || b->number < h->on_devices->number))
        h->on_devices = b;
}

/* Returns the incomplete bucket, b or one before it, by which this rank's program holds b up, or NULL. A bucket that
 * waits only for complete ones waits for other ranks. */
static const struct halay_plan_bucket *find_holder(const struct holders *h, const struct halay_plan_bucket *b)
{
    const struct halay_plan_bucket *before = h->on_channel[b->number % HALAY_CHANNELS];

    if (b->state != HALAY_PLAN_READY)
        return halay_plan_is_partial(b) ? b : NULL;
    if (!b->plan->is_active)
        return NULL;
    if (before && before->number < b->number)
        return before;
    return b->is_on_devices && h->on_devices && h->on_devices->number < b->number ? h->on_devices : NULL;
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

static void look_for_reasons(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;
    const struct halay_plan_bucket *awaited = NULL, *holder;
    struct holders holders = { .on_devices = NULL };
    int64_t slow = slow_us(ctx);
    int has_looked = 0;

    if (ctx->now_us - p->looked_us < LOOK_US)
        return;
    p->looked_us = ctx->now_us;
    for (size_t i = 0; i < p->count; i++)
        note_holder(&holders, p->buckets[i]);
    for (size_t i = 0; i < p->count && p->state == PLAN_PLANNED; i++) {
        struct halay_plan_bucket *b = p->buckets[i];
        int64_t age_us = look_at_bucket(b, ctx->now_us);
        if (b->state != HALAY_PLAN_FILLING && age_us >= slow)
            halay_replay_break(p->set, HALAY_BREAK_SLOW);
        if (age_us < WAITS_US || !(holder = find_holder(&holders, b)))
            continue;
        if (!has_looked)
            awaited = find_awaited(p->set);
        has_looked = 1;
        if (age_us >= HELD_US || (b == awaited && lacks_submissions(holder)))
            halay_replay_break(p->set, HALAY_BREAK_WAITS);
    }
}

enum halay_status halay_replay_look(struct halay_context *ctx)
{
    enum halay_status status = ctx->queue.changes_status;

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
        long limit = p->ready || halay_plan_has_partial(p) ? HELD_US : p->busy ? (long)slow_us(ctx) : LONG_MAX;
        if (limit == HELD_US &&
            atomic_load_explicit(&((struct halay_context *)ctx)->waiting.waited, memory_order_relaxed))
            limit = WAITS_US;
        least = limit < least ? limit : least;
    }
    return least;
}
