/* SPDX-License-Identifier: Apache-2.0
 *
 * Failure: the engine ends, once, and the first cause is kept.
 *
 * A rank that finds a cause reports it: to the coordinator, which forwards it, or, on the coordinator's rank, to all. A
 * rank that died reports nothing; the others detect it themselves (halay_world_check_peers, the transport). The group
 * is closed, so that peers in the middle of a collective with this rank leave it; they complete what this rank has
 * completed.
 *
 * A rank that is gone, and has neither died nor sent BYE, left for a cause that another rank knows, and whose report
 * may arrive after the closed group or connection is noticed. This rank waits for that report, for at most REPORT_US
 * and a sleep, so that all ranks report the first cause.
 */
#include "fusion/engine/fail.h"
#include "base/number_text.h"
#include "fusion/engine/engine.h"
#include "fusion/observe/recorder.h"
#include "fusion/protocol/messenger.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"
#include "fusion/run/bucket.h"
#include "fusion/run/deliver.h"
#include "fusion/run/sets.h"
#include <stdio.h>
#include <string.h>

#define REPORT_US 1000000

static void end_requests_locked(struct halay_process_set *set)
{
    struct halay_context *ctx = set->ctx;

    for (size_t i = 0; i < set->names.size; i++)
        for (struct halay_table_node *node = set->names.chains[i]; node; node = node->next) {
            struct halay_request *r = ((struct halay_entry *)node)->request;
            if (r && (set->path || !ctx->engine->is_draining || r->life != HALAY_LIFE_RUNNING))
                halay_request_end(r, ctx->status, ctx->text);
        }
}

/* Ends all requests in flight, and drops their events that are queued for the driver. */
static void end_all(struct halay_context *ctx)
{
    ctx->carrier->ops->drop(ctx);
    pthread_mutex_lock(&ctx->lock);
    for (size_t i = 0; i < ctx->queue.submitted.count; i++)
        if (ctx->queue.submitted.events[i].kind == HALAY_EVENT_CANCELED)
            halay_request_put_locked(ctx->queue.submitted.events[i].request);
    ctx->queue.submitted.count = 0;
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        end_requests_locked(set);
    for (struct halay_path *path = ctx->paths; path; path = path->next)
        end_requests_locked(&path->names);
    pthread_mutex_unlock(&ctx->lock);
}

/* Sends the cause to the other ranks, once. */
static void send_cause(struct halay_context *ctx, enum halay_status status, int rank)
{
    char text[HALAY_TEXT_MAX];
    struct halay_item item = {
        .kind = HALAY_ITEM_FAIL, .status = HALAY_ERR_PEER, .text = text, .rank = rank >= 0 ? rank : ctx->rank
    };

    if (status != HALAY_ERR_PEER || ctx->has_lost_sums)
        item.status = HALAY_ERR_CLOSED;

    if (ctx->engine->has_sent_fail)
        return;
    ctx->engine->has_sent_fail = 1;
    if (status == HALAY_ERR_PEER)
        snprintf(text, sizeof text, "%s", ctx->text);
    else if (status == HALAY_ERR_CANCELED) /* "aborted: ..." */
        snprintf(text, sizeof text, "rank %d %.900s", ctx->rank, ctx->text);
    else
        snprintf(text, sizeof text, "rank %d has failed: %.900s", ctx->rank, ctx->text);
    item.text_length = strlen(text);
    /* Without memory for the message, the other ranks notice the closed group. */
    if (halay_messenger_append(ctx->messenger, ctx->all.coordinator ? -1 : 0, &item) != HALAY_OK)
        return;
    halay_messenger_flush(ctx->messenger);
}

/* Closes all groups. failed_rank: the rank that the others report; -1: this rank. */
static void close_groups(struct halay_context *ctx, int failed_rank)
{
    ctx->engine->is_draining = 0;
    halay_process_sets_fail(ctx, failed_rank);
    halay_buckets_abandon(ctx);
    halay_replay_drop(ctx);
    end_all(ctx);
}

void halay_engine_drained(struct halay_context *ctx)
{
    close_groups(ctx, -1); /* no rank still needs this one for what it has completed */
}

static void fail_once(struct halay_context *ctx, enum halay_status status, int rank, const char *text)
{
    if (ctx->status != HALAY_OK) {
        if (ctx->engine->is_draining)
            close_groups(ctx, rank);
        return;
    }
    if (halay_recording(ctx))
        halay_record_in_flight(ctx);
    pthread_mutex_lock(&ctx->lock);
    snprintf(ctx->text, sizeof ctx->text, "%s", text);
    ctx->status = status;
    ctx->lost = rank;
    pthread_mutex_unlock(&ctx->lock);
    if (halay_recording(ctx))
        halay_record_failed(ctx, status, text);
    /* Other ranks may leave: no error for a rank that does not need them. */
    if (status == HALAY_ERR_PEER && !atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed))
        halay_info(ctx->log, "%s", text);
    else
        halay_error(ctx->log, "%s", text);
    send_cause(ctx, status, rank);
    halay_messenger_stop_receiving(ctx->messenger);
    for (struct halay_path *path = ctx->paths; path; path = path->next)
        path->ops->abandon(path);
    /* A rank that has left did its part of the collectives in flight, so they complete. */
    ctx->engine->is_draining =
        status == HALAY_ERR_PEER && rank >= 0 && ctx->left[rank] && halay_buckets_are_pending(ctx);
    if (ctx->engine->is_draining)
        end_all(ctx);
    else
        close_groups(ctx, rank);
}

void halay_engine_fail(struct halay_context *ctx, enum halay_status status, int rank, const char *format, ...)
{
    char text[HALAY_TEXT_MAX];
    va_list args;

    va_start(args, format);
    halay_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail_once(ctx, status, rank, text);
}

void halay_engine_expect_ok(struct halay_context *ctx, enum halay_status status, const char *what)
{
    if (status != HALAY_OK)
        halay_engine_fail(ctx, status, ctx->rank, "%s on rank %d: %s", what, ctx->rank, halay_status_string(status));
}

void halay_engine_fail_peer(struct halay_context *ctx, int rank)
{
    char text[160];

    if (rank < 0)
        snprintf(text, sizeof text, "a rank is gone");
    else if (ctx->left[rank])
        snprintf(text, sizeof text, "rank %d has left", rank);
    else if (halay_world_is_unreachable(ctx->world, rank))
        snprintf(text, sizeof text, "rank %d on '%s' cannot be reached", rank, halay_world_host(ctx->world, rank));
    else if (halay_world_has_died(ctx->world, rank))
        snprintf(text, sizeof text, "rank %d has died", rank);
    else
        snprintf(text, sizeof text, "rank %d has closed its connection", rank);
    fail_once(ctx, HALAY_ERR_PEER, rank, text);
}

static int is_explained(const struct halay_context *ctx, int rank)
{
    return rank >= 0 && (ctx->left[rank] || halay_world_has_died(ctx->world, rank));
}

void halay_engine_peer_is_gone(struct halay_context *ctx, int rank)
{
    if (ctx->status != HALAY_OK || is_explained(ctx, rank)) {
        halay_engine_fail_peer(ctx, rank);
    } else if (!ctx->engine->suspected_us) {
        ctx->engine->suspect = rank;
        ctx->engine->suspected_us = ctx->now_us;
    }
}

void halay_engine_fail_group(struct halay_process_set *set, enum halay_status status, const char *what)
{
    struct halay_context *ctx = set->ctx;
    int rank = -1;

    if (status == HALAY_ERR_PEER) {
        halay_group_fail(set->group, status, -1); /* close it if it is open: nothing moves until the cause is known */
        halay_group_failure(set->group, &rank);
        rank = rank >= 0 && set->ranks ? set->ranks[rank] : rank;
        if (rank < 0)
            halay_world_check_peers(ctx->world, &rank);
        halay_engine_peer_is_gone(ctx, rank);
        return;
    }
    halay_engine_expect_ok(ctx, status, what);
}

void halay_engine_check_suspect(struct halay_context *ctx)
{
    if (ctx->status == HALAY_OK &&
        (is_explained(ctx, ctx->engine->suspect) || ctx->now_us - ctx->engine->suspected_us > REPORT_US))
        halay_engine_fail_peer(ctx, ctx->engine->suspect);
}
