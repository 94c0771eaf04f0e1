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

/* The result of a first pass over the buckets, so that one look makes only two. */
struct look {
    /* The buckets with the lowest numbers that lack tensors of this rank: one of each channel, and one of those on
     * devices; NULL: none. */
    const struct halay_plan_bucket *on_channel[HALAY_CHANNELS], *on_devices;
    const struct halay_plan_bucket *awaited; /* the program waits for a tensor of it, or NULL */
};

static void note_incomplete(struct look *look, const struct halay_plan_bucket *b)
{
    const struct halay_plan_bucket **at = &look->on_channel[b->number % HALAY_CHANNELS];

    if (b->state != HALAY_PLAN_FILLING)
        return;
    if (!*at || b->number < (*at)->number)
        *at = b;
    if (b->is_on_devices && (!look->on_devices || b->number < look->on_devices->number))
        look->on_devices = b;
}

/* Returns the incomplete bucket, b or one before it, by which this rank's program holds b up, or NULL. A bucket that
 * waits only for complete ones waits for other ranks. */
static const struct halay_plan_bucket *find_holder(const struct look *look, const struct halay_plan_bucket *b)
{
    const struct halay_plan_bucket *before = look->on_channel[b->number % HALAY_CHANNELS];

    if (b->state != HALAY_PLAN_READY)
        return is_partial(b) ? b : NULL;
    if (!b->plan->is_active)
        return NULL;
    if (before && before->number < b->number)
        return before;
    return b->is_on_devices && look->on_devices && look->on_devices->number < b->number ? look->on_devices : NULL;
}

/* Returns the bucket of the tensor that the program waits for, or NULL. */
static const struct halay_plan_bucket *find_awaited(struct halay_context *ctx)
{
    const struct halay_plan_bucket *b = NULL;

    pthread_mutex_lock(&ctx->lock);
    struct halay_request *r = atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed);
    if (r && r->entry && (r->entry->request == r || halay_steady_is_in_flight(r)))
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
        struct halay_request *steady = halay_steady_of(b->entries[i]);
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

/* Notes changes of a bucket. A steady submission records no time, so it is noticed here. */
static void note_changes(struct halay_plan_bucket *b, int64_t now_us)
{
    size_t missing = atomic_load_explicit(&b->missing, memory_order_acquire);

    if (b->state == HALAY_PLAN_FILLING && missing != b->seen_missing) {
        b->seen_missing = missing;
        b->since_us = now_us;
    }
    if (b->state == HALAY_PLAN_FILLING && !missing) /* its event was lost for want of memory */
        halay_plan_set_ready(b);
}

/* Returns nonzero if this rank's program has held the bucket up for too long. */
static int is_held_up(const struct look *look, const struct halay_plan_bucket *b, int64_t age_us)
{
    const struct halay_plan_bucket *holder = age_us >= WAITS_US ? find_holder(look, b) : NULL;

    return holder && (age_us >= HELD_US || (b == look->awaited && lacks_submissions(holder)));
}

static void look_for_reasons(struct halay_replay *p)
{
    struct halay_context *ctx = p->set->ctx;

    if (ctx->now_us - p->looked_us < LOOK_US)
        return;
    p->looked_us = ctx->now_us;
    struct look look = { .awaited = find_awaited(ctx) };
    for (size_t i = 0; i < p->count; i++) {
        note_changes(p->buckets[i], ctx->now_us);
        note_incomplete(&look, p->buckets[i]);
    }
    for (size_t i = 0; i < p->count && p->state == PLAN_PLANNED; i++) {
        const struct halay_plan_bucket *b = p->buckets[i];
        int64_t age_us = ctx->now_us - b->since_us;
        if (b->state != HALAY_PLAN_FILLING && age_us >= slow_us(ctx))
            halay_replay_break(p->set, HALAY_BREAK_SLOW);
        if (is_held_up(&look, b, age_us))
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
