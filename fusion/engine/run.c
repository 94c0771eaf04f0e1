/* SPDX-License-Identifier: Apache-2.0
 *
 * Run: starts dispatched buckets in order, progresses and ends them.
 */
#include "collectives/api/calls.h"
#include "collectives/group/epoch.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/fail.h"
#include "fusion/observe/recorder.h"
#include "fusion/replay/plan.h"
#include "fusion/replay/steady.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/join.h"
#include "fusion/run/bucket.h"
#include "fusion/run/deliver.h"
#include "fusion/run/operations.h"
#include "fusion/run/result.h"
#include "fusion/run/sets.h"

static enum halay_status start_operation(struct halay_context *ctx, struct halay_bucket *b)
{
    if (b->requests[0]->signature.is_on_devices)
        return ctx->carrier->ops->start(b);
    switch ((int)b->requests[0]->signature.collective) {
    case HALAY_BROADCAST:
        return halay_broadcast_run(b);
    case HALAY_ALLGATHER:
        return halay_allgather_run(ctx, b);
    case HALAY_REDUCE_SCATTER:
        return halay_reduce_scatter_run(ctx, b);
    case HALAY_ALLTOALL:
    case HALAY_SCATTER:
        return halay_alltoall_run(ctx, b);
    case HALAY_REDUCE:
        return halay_reduce_run(ctx, b);
    case HALAY_GATHER:
        return halay_gather_run(ctx, b);
    case HALAY_BARRIER:
        return b->planned ? halay_group_barrier_start(b->set->group, &b->coll)
                          : HALAY_OK; /* the agreement is the barrier */
    case HALAY_CHANGE_SETS:
        return halay_process_sets_change(ctx, b->requests[0]);
    case HALAY_JOIN:
        b->requests[0]->other_rank = (int)b->requests[0]->entry->answer.at[0];
        return HALAY_OK;
    default:
        return halay_allreduce_run(b);
    }
}

static enum halay_status start_bucket(struct halay_context *ctx, struct halay_bucket *b)
{
    return b->is_voting ? halay_group_barrier_start(b->set->group, &b->coll) : start_operation(ctx, b);
}

static int is_on_devices(const struct halay_bucket *b)
{
    const struct halay_signature *s = &b->requests[0]->signature;

    return s->is_on_devices && b->set->ctx->carrier->ops->may_take(b->set, s);
}

/* Returns nonzero if a bucket of a plan has to wait for another one: devices reduce one at a time, in the order in
 * which all ranks have entered them. */
static int waits_for_devices(const struct halay_bucket *b)
{
    if (!is_on_devices(b))
        return 0;
    for (const struct halay_bucket *other = b->set->running; other; other = other->next)
        if (is_on_devices(other) && other->number < b->number)
            return 1;
    return b->set->ctx->carrier->ops->excludes(b->set);
}

/* Starts the next collective of a bucket of a plan, or marks it as due if it has to wait. */
static enum halay_status start_next(struct halay_context *ctx, struct halay_bucket *b)
{
    b->is_due = waits_for_devices(b);
    if (b->is_due)
        return HALAY_IN_PROGRESS;
    halay_bucket_number_next(b);
    enum halay_status status = start_operation(ctx, b);
    return status == HALAY_OK && b->coll ? HALAY_IN_PROGRESS : status;
}

/* Starts the bucket's next collective after the end of one. HALAY_OK: the bucket has no other. */
static enum halay_status continue_bucket(struct halay_context *ctx, struct halay_bucket *b)
{
    enum halay_status status = HALAY_OK;

    if (b->coll)
        halay_coll_end(b->coll);
    b->coll = NULL;
    while (status == HALAY_OK && halay_bucket_continue(b))
        status = start_next(ctx, b);
    return status;
}

/* Progresses a running bucket. */
static enum halay_status progress_bucket(struct halay_context *ctx, struct halay_bucket *b)
{
    if (b->is_due)
        return start_next(ctx, b);
    if (b->coll)
        return halay_coll_progress(b->coll);
    return b->requests[0]->signature.is_on_devices ? ctx->carrier->ops->progress_bucket(b)
                                                   : halay_process_sets_progress(ctx, b->requests[0]);
}

static void bucket_end(struct halay_context *ctx, struct halay_bucket *b)
{
    const struct halay_signature *s = &b->requests[0]->signature;

    if (b->coll)
        halay_coll_end(b->coll);
    b->coll = NULL;
    if (b->record.kind)
        halay_record_finished(ctx, &b->record, HALAY_OK);
    if (s->collective == HALAY_REDUCE_SCATTER || s->collective == HALAY_REDUCE)
        halay_reduce_finish(b->requests[0]);
    int is_steady = b->planned && halay_replay_ended(b->planned);
    for (size_t i = 0; i < b->count && !(is_steady && b->is_steady); i++)
        if (--b->requests[i]->buckets_left || halay_steady_is_in_plan(b->requests[i]))
            continue;
        else if (b->requests[i]->is_part)
            halay_join_part_end(b->requests[i]);
        else
            halay_result_end(b->requests[i]);
    if (is_steady)
        halay_requests_deliver_planned(ctx, b->planned, b->requests);
    halay_bucket_put(ctx, b);
}

/* Fails a bucket. Other ranks may have started what this one could not: if it continued, its next collectives would
 * match the wrong ones. The bucket is on no list, or on that of running ones. */
static void fail_bucket(struct halay_context *ctx, struct halay_bucket *b, enum halay_status status, int is_listed)
{
    const struct halay_request *first = b->requests[0];
    struct halay_process_set *set = b->set;
    int lacks_result = status == HALAY_ERR_NO_MEMORY && !first->is_part && halay_result_is_missing(first);

    if (!is_listed)
        halay_bucket_drop(ctx, b);
    if (!lacks_result)
        halay_engine_fail_group(set, status, "a collective failed");
    else
        halay_engine_fail(
            ctx, status, ctx->rank,
            "tensor '%.*s': rank %d has no memory for its result of %zu bytes; exchange fewer rows at a time",
            (int)first->entry->node.length, first->entry->node.name, ctx->rank, first->result_bytes);
}

/* Starts a bucket that can be started. */
static void start_now(struct halay_process_set *set, struct halay_bucket *b)
{
    struct halay_context *ctx = set->ctx;
    enum halay_status status;

    b->next = NULL;
    halay_count(&ctx->meters->tally.collectives, 1);
    if (b->is_same && b->record.kind && !halay_recording_all(ctx))
        halay_record_restarted(ctx, b->number, &b->record);
    else if (halay_recording(ctx))
        halay_record_started(ctx, b->requests, b->count, b->number, b->dtype, &b->record);
    if (!ctx->execution->running_count)
        halay_tally_busy(&ctx->meters->tally, ctx->now_us * 1000);
    status = start_bucket(ctx, b);
    if (b->coll || status == HALAY_IN_PROGRESS) {
        b->next = set->running;
        set->running = b;
        ctx->execution->running_count++;
    } else if (status == HALAY_OK) {
        bucket_end(ctx, b); /* nothing to move */
    } else {
        fail_bucket(ctx, b, status, 0);
    }
    if (!ctx->execution->running_count)
        halay_tally_idle(&ctx->meters->tally);
}

/* Starts the first bucket in the queue. */
static void start_first(struct halay_process_set *set)
{
    struct halay_bucket *b = set->waiting;

    set->waiting = b->next;
    set->ctx->execution->waiting_count--;
    if (!set->waiting)
        set->waiting_last = &set->waiting;
    start_now(set, b);
}

/* Starts ready buckets of a plan. */
static size_t enter_planned(struct halay_process_set *set)
{
    struct halay_plan_bucket *planned;
    size_t did = 0;

    for (; set->ctx->status == HALAY_OK && (planned = halay_replay_next(set)); did++) {
        struct halay_bucket *b = halay_bucket_make(set, planned);
        if (!b) {
            halay_engine_fail_group(set, HALAY_ERR_NO_MEMORY, "a collective failed");
            return did;
        }
        start_now(set, b);
    }
    return did;
}

/* Takes back buckets that not all ranks have entered; their requests stay in flight. */
static size_t take_back_planned(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    struct halay_bucket *b;
    size_t did = 0;

    for (; (b = halay_replay_take_back(set)); did++) {
        struct halay_bucket **at = &set->running;
        while (*at != b)
            at = &(*at)->next;
        *at = b->next;
        halay_coll_withdraw(b->coll);
        b->coll = NULL;
        halay_bucket_revert(b);
        if (!--ctx->execution->running_count)
            halay_tally_idle(&ctx->meters->tally);
        halay_bucket_put(ctx, b);
    }
    return did;
}

static int can_start(struct halay_process_set *set)
{
    const struct halay_request *first = set->waiting->requests[0];

    return halay_group_can_start(set->group) && !set->ctx->carrier->ops->excludes(set) &&
           (first->signature.collective != HALAY_CHANGE_SETS || halay_process_sets_may_change(set->ctx, first));
}

/* Progresses the buckets of one set. Returns nonzero if anything progressed. */
static size_t progress_set(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;
    size_t did = 0;
    unsigned long work = halay_group_work(set->group); /* a collective may progress without ending */

    for (; set->waiting && can_start(set); did++)
        start_first(set);
    if (halay_replay_is_inactive(set) && !set->waiting && !set->ctx->carrier->ops->excludes(set))
        halay_replay_activate(set);
    if (set->replay)
        did += enter_planned(set) + take_back_planned(set);
    for (struct halay_bucket **at = &set->running; *at;) {
        struct halay_bucket *b = *at;
        enum halay_status status = progress_bucket(ctx, b);
        if (status == HALAY_OK)
            status = continue_bucket(ctx, b);
        if (status == HALAY_IN_PROGRESS) {
            at = &b->next;
            continue;
        }
        did++;
        if (status != HALAY_OK) {
            fail_bucket(ctx, b, status, 1); /* may empty the list */
            return did;
        }
        *at = b->next;
        if (!--ctx->execution->running_count)
            halay_tally_idle(&ctx->meters->tally);
        bucket_end(ctx, b);
    }
    return did + (halay_group_work(set->group) != work);
}

size_t halay_buckets_progress(struct halay_context *ctx)
{
    size_t did = 0;

    /* Buckets of a set whose group is still being made here wait for it. Sets without work are skipped: there may be
     * many sets. */
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (set->group &&
            (set->running || set->waiting || halay_replay_has_ready(set) || halay_replay_is_inactive(set)))
            did += progress_set(set);
    if (ctx->engine->is_draining && !halay_buckets_are_pending(ctx))
        halay_engine_drained(ctx);
    return did;
}
