/* SPDX-License-Identifier: Apache-2.0
 *
 * Step: a bounded part of all the driver's work; never blocks.
 *
 *     submissions        -> to the coordinator
 *     messages           -> applied
 *     decisions          -> to the peers
 *     ----------------------------------------
 *     buckets            -> started, progressed, ended
 *     paths              -> progressed
 *     carrier            -> results are copied back
 *     ended requests     -> callbacks, waiters
 *     nothing happened   -> check for dead and silent ranks, and for stalls
 *
 * A steady step is the part of it that a plan needs.
 */
#include "fusion/engine/step.h"
#include "base/clock.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/fail.h"
#include "fusion/engine/negotiate.h"
#include "fusion/engine/withdraw.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/messenger.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/path.h"
#include "fusion/run/bucket.h"
#include "fusion/run/deliver.h"
#include "fusion/run/sets.h"

#define CHECK_US 100000 /* peers and stalls are checked this often while something is pending */

static void fail_receiving(struct halay_context *ctx, enum halay_status status, int rank)
{
    if (ctx->status != HALAY_OK || ctx->engine->is_done)
        return; /* after DONE every rank may leave */
    if (status == HALAY_ERR_PEER)
        halay_engine_peer_is_gone(ctx, rank);
    else if (status == HALAY_ERR_FORMAT || status == HALAY_ERR_VERSION)
        halay_engine_fail(ctx, status, rank, "rank %d sent an invalid message: %s", rank, halay_status_string(status));
    else
        halay_engine_expect_ok(ctx, status, "control messages failed");
}

int halay_engine_is_pending(const struct halay_context *ctx)
{
    return atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed) ||
           (ctx->all.coordinator && halay_coordinator_waiting(ctx->all.coordinator));
}

/* Checks whether another rank is lost while the collectives in flight complete. */
static void check_draining(struct halay_context *ctx)
{
    if (ctx->now_us - ctx->engine->checked_us < CHECK_US)
        return;
    ctx->engine->checked_us = ctx->now_us;
    halay_process_sets_check(ctx);
    halay_buckets_progress(ctx);
}

static void look_at_paths(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    struct halay_path_look look = { .report_us = (int64_t)config->stall_check_ms * 1000,
                                    .limit_us = (int64_t)config->stall_shutdown_ms * 1000 };

    for (struct halay_path *path = ctx->paths; path && ctx->status == HALAY_OK; path = path->next)
        if (path->ops->look(path, &look) != HALAY_OK)
            halay_engine_fail(ctx, HALAY_ERR_PEER, look.rank, "%s", look.text);
}

/* Checks for dead and silent ranks, and for stalls. */
static void check_ranks(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    int rank = -1;

    if (ctx->engine->is_draining)
        check_draining(ctx);
    if (ctx->status != HALAY_OK || ctx->engine->is_done)
        return;
    if (ctx->size > 1 && halay_world_check_peers(ctx->world, &rank) != HALAY_OK) {
        halay_engine_fail_peer(ctx, rank);
        return;
    }
    if (!halay_engine_is_pending(ctx)) {
        halay_messenger_check_reset(ctx->messenger);
        return;
    }
    if (ctx->now_us - ctx->engine->checked_us < CHECK_US)
        return;
    ctx->engine->checked_us = ctx->now_us;
    if (halay_recording(ctx))
        halay_record_in_flight(ctx);
    if (ctx->execution->running_count)
        halay_process_sets_check(ctx);
    if (ctx->execution->running_count && halay_process_sets_status(ctx) != HALAY_OK) {
        halay_buckets_progress(ctx); /* they fail with the set's status */
        return;
    }
    if (config->peer_timeout_ms > 0 &&
        halay_messenger_check(ctx->messenger, ctx->now_us, (int64_t)config->peer_timeout_ms * 1000, &rank) != HALAY_OK)
        halay_engine_fail(ctx, HALAY_ERR_PEER, rank, "rank %d has not answered for %g s", rank,
                          config->peer_timeout_ms / 1e3);
    if (ctx->status == HALAY_OK && ctx->all.coordinator)
        halay_negotiate_stalls(ctx);
    look_at_paths(ctx);
    halay_messenger_flush(ctx->messenger);
}

/* Returns nonzero if no collective of a set is in flight here. */
static int set_is_idle(const void *arg)
{
    const struct halay_process_set *set = arg;

    return !set->running && !set->waiting;
}

static int decide_all_sets(struct halay_context *ctx)
{
    int emitted = 0, all = 0;

    if (!ctx->all.coordinator || ctx->status != HALAY_OK || ctx->execution->is_changing)
        return 0;
    enum halay_status status = halay_coordinator_decide_children(ctx->all.coordinator, set_is_idle, &all);
    if (status == HALAY_OK)
        status = halay_coordinator_decide(ctx->all.coordinator, set_is_idle(&ctx->all), &emitted);
    halay_engine_expect_ok(ctx, status, "negotiation failed");
    return all + emitted;
}

/* Sets has_left once halay_fini may continue. */
static void check_leaving(struct halay_context *ctx)
{
    if (!ctx->engine->has_sent_bye && ctx->status == HALAY_OK)
        return;
    int is_over = (ctx->status != HALAY_OK && !ctx->engine->is_draining) ||
                  (ctx->engine->is_done && !atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed));
    if (is_over && halay_messenger_is_quiet(ctx->messenger))
        atomic_store_explicit(&ctx->has_left, 1, memory_order_release);
}

/* Sends and receives messages. */
static size_t exchange_messages(struct halay_context *ctx)
{
    int messages = 0, rank = -1;

    ctx->now_us = halay_now_us();
    size_t did = halay_negotiate_submitted(ctx);
    if (ctx->status == HALAY_OK)
        did += halay_withdraw_overdue(ctx);
    enum halay_status status = halay_messenger_receive(ctx->messenger, halay_negotiate_receive, ctx, &messages, &rank);
    if (status != HALAY_OK)
        fail_receiving(ctx, status, rank);
    did += (size_t)messages;
    halay_count(&ctx->meters->tally.messages_received, (uint64_t)messages);
    halay_count(&ctx->meters->tally.steps, 1);
    did += (size_t)decide_all_sets(ctx);
    did += halay_negotiate_replay(ctx);
    did += (size_t)halay_negotiate_leave(ctx);
    halay_messenger_flush(ctx->messenger);
    return did;
}

/* Returns nonzero if data can move. They cannot while the group is closed, and the cause is not known yet. */
static int can_move_data(struct halay_context *ctx)
{
    if (ctx->status != HALAY_OK)
        return ctx->engine->is_draining;
    return !ctx->engine->suspected_us || halay_process_sets_status(ctx) == HALAY_OK;
}

static size_t progress_paths(struct halay_context *ctx)
{
    enum halay_status status = HALAY_OK;
    size_t did = 0;
    int rank;

    if (ctx->status != HALAY_OK || ctx->engine->suspected_us)
        return 0;
    for (struct halay_path *path = ctx->paths; path && status == HALAY_OK; path = path->next) {
        status = path->ops->progress(path, &did, &rank);
        if (status == HALAY_ERR_PEER)
            halay_engine_peer_is_gone(ctx, rank);
        else
            halay_engine_expect_ok(ctx, status, path->ops->failed);
    }
    return did;
}

/* Progresses results that have to be copied back. */
static size_t progress_carrier(struct halay_context *ctx)
{
    enum halay_status status;

    size_t did = ctx->carrier->ops->progress(ctx, &status);
    if (ctx->status == HALAY_OK)
        halay_engine_expect_ok(ctx, status, ctx->carrier->ops->lost);
    return did;
}

int halay_engine_is_steady(const struct halay_context *ctx)
{
    if (ctx->status != HALAY_OK || ctx->engine->suspected_us || ctx->execution->is_changing ||
        halay_carrier_is_loaded(ctx) || atomic_load_explicit(&ctx->is_closing, memory_order_relaxed))
        return 0;
    for (const struct halay_process_set *set = &ctx->all; set; set = set->next)
        if (halay_replay_is_steady(set))
            return 1;
    return 0;
}

int halay_engine_step_steady(struct halay_context *ctx, int64_t now_us)
{
    ctx->now_us = now_us;
    size_t did = halay_negotiate_submitted(ctx);
    halay_messenger_flush(ctx->messenger);
    if (ctx->status == HALAY_OK)
        did += halay_buckets_progress(ctx);
    halay_count(&ctx->meters->tally.steps, 1);
    return did + halay_requests_deliver(ctx) > 0;
}

int halay_engine_step(struct halay_context *ctx)
{
    size_t did = exchange_messages(ctx);

    ctx->engine->stepped_us = ctx->now_us;

    if (ctx->engine->suspected_us)
        halay_engine_check_suspect(ctx);
    if (can_move_data(ctx))
        did += halay_buckets_progress(ctx);
    did += progress_paths(ctx);
    did += progress_carrier(ctx);
    did += halay_requests_deliver(ctx);
    if (!did) {
        check_ranks(ctx);
        did = ctx->execution->ended != NULL; /* to be delivered before the driver sleeps */
    }
    if (atomic_load_explicit(&ctx->is_closing, memory_order_relaxed))
        check_leaving(ctx);
    return did > 0;
}
