/* SPDX-License-Identifier: Apache-2.0
 *
 * Open and close: the engine over a world.
 *
 * Leaving is in three steps: close (submissions are refused; this rank says BYE, and drives on until all ranks have
 * said it and nothing is left to do, at most LEAVE_MS), stop (the thread ends, what is still in flight ends with
 * HALAY_ERR_CLOSED), destroy. So ranks that leave together never pull memory from under each other.
 *
 * Cleanup: reverse-order labels while it is opened, close takes an open one.
 */
#include "fusion/api/open.h"
#include "base/clock.h"
#include "base/memory.h"
#include "fusion/coordinator/autotune.h"
#include "fusion/observe/placement.h"
#include "fusion/observe/recorder.h"
#include "fusion/rank/bucket.h"
#include "fusion/rank/driver.h"
#include "fusion/rank/fail.h"
#include "fusion/rank/link.h"
#include "fusion/rank/negotiate.h"
#include "fusion/rank/requests.h"
#include "fusion/rank/sets.h"
#include <stdlib.h>
#include <string.h>

enum { LEAVE_MS = 5000, LEAVE_FAILED_MS = 500, IDS_MAX = 16384 };

static enum halay_status create_coordinator(struct halay_context *ctx)
{
    if (ctx->rank != 0)
        return HALAY_OK;
    ctx->negotiation.coordinator_options =
        (struct halay_coordinator_options){ .size = ctx->size,
                                            .threshold = ctx->world->config.fusion_threshold,
                                            .deterministic = ctx->world->config.deterministic,
                                            .join_average = ctx->world->config.join_average,
                                            .ids_max = IDS_MAX,
                                            .log = ctx->log,
                                            .emit = halay_negotiate_emit,
                                            .arg = &ctx->all };
    enum halay_status status = halay_coordinator_create(&ctx->negotiation.coordinator_options, &ctx->all.coordinator);
    ctx->negotiation.coordinator = ctx->all.coordinator;
    return status;
}

/* In the deterministic modes buckets are what the registrations say. */
static void set_express(struct halay_context *ctx)
{
    const struct halay_world *world = ctx->world;
    int has_places = world->config.deterministic == HALAY_DETERMINISTIC_OFF && world->data == ctx->control;

    ctx->negotiation.express.places = has_places ? halay_express_places(ctx->all.group) : 0;
    if (ctx->negotiation.coordinator)
        halay_coordinator_set_express(ctx->negotiation.coordinator, ctx->negotiation.express.places);
}

static enum halay_status create_autotune(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;

    if (!config->autotune || ctx->rank != 0)
        return HALAY_OK;
    if (config->deterministic != HALAY_DETERMINISTIC_OFF) {
        halay_warning(ctx->log, "HALAY_AUTOTUNE is not possible with HALAY_DETERMINISTIC: nothing is tuned");
        return HALAY_OK;
    }
    ctx->negotiation.autotune = malloc(sizeof *ctx->negotiation.autotune);
    if (!ctx->negotiation.autotune)
        return HALAY_ERR_NO_MEMORY;
    halay_autotune_init(ctx->negotiation.autotune, config->fusion_threshold, ctx->size);
    return config->autotune_file ? halay_autotune_load(ctx->log, config->autotune_file, ctx->negotiation.autotune)
                                 : HALAY_OK;
}

static void destroy_autotune(struct halay_context *ctx)
{
    if (ctx->negotiation.autotune && ctx->world->config.autotune_file)
        halay_autotune_save(ctx->log, ctx->world->config.autotune_file,
                            ctx->negotiation.autotune); /* says itself what is wrong */
    free(ctx->negotiation.autotune);
}

/* What there is of each rank. */
static void free_ranks(struct halay_context *ctx)
{
    free(ctx->execution.counts);
    free(ctx->negotiation.left);
    ctx->execution.counts = NULL;
    ctx->negotiation.left = NULL;
}

static enum halay_status take_world(struct halay_context *ctx, struct halay_world *world)
{
    ctx->world = world;
    ctx->log = world->log;
    ctx->rank = world->rank;
    ctx->size = world->size;
    ctx->control = world->size > 1 ? world->control : NULL;
    ctx->execution.ended_last = &ctx->execution.ended;
    ctx->all.size = ctx->size;
    ctx->all.rank = ctx->rank;
    ctx->negotiation.left = calloc((size_t)ctx->size, 1);
    ctx->execution.counts = calloc(2 * (size_t)ctx->size, sizeof *ctx->execution.counts);
    return ctx->negotiation.left && ctx->execution.counts ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world)
{
    enum halay_status status = halay_world_open_control(world);
    if (status != HALAY_OK)
        return status;
    status = take_world(ctx, world);
    if (status != HALAY_OK)
        goto err_free_left;
    status = halay_link_create(ctx->control, ctx->rank, ctx->size, ctx->log, &ctx->negotiation.link);
    if (status != HALAY_OK)
        goto err_free_left;
    status = create_coordinator(ctx);
    if (status != HALAY_OK)
        goto err_end_set;
    status = halay_group_create(world, &ctx->all.group);
    if (status != HALAY_OK)
        goto err_end_set;
    halay_group_set_deterministic(ctx->all.group, world->config.deterministic);
    set_express(ctx);
    status = create_autotune(ctx);
    if (status != HALAY_OK)
        goto err_free_autotune;
    status = halay_recorder_open(ctx);
    if (status != HALAY_OK)
        goto err_free_autotune;
    status = halay_driver_start(ctx);
    if (status != HALAY_OK)
        goto err_close_recorder;
    status = halay_placement_apply(ctx);
    if (status != HALAY_OK)
        goto err_stop_cycle;
    return HALAY_OK;

err_stop_cycle:
    halay_driver_stop(ctx);
err_close_recorder:
    halay_recorder_close(ctx);
err_free_autotune:
    free(ctx->negotiation.autotune);
    ctx->negotiation.autotune = NULL;
err_end_set:
    halay_process_sets_end(ctx);
    ctx->negotiation.coordinator = NULL;
    halay_link_destroy(ctx->negotiation.link);
    ctx->negotiation.link = NULL;
err_free_left:
    free_ranks(ctx);
    return status;
}

void halay_context_destroy(struct halay_context *ctx)
{
    halay_driver_fini(ctx);
    pthread_mutex_destroy(&ctx->observers.recorder.lock);
    halay_fork_unmark(ctx->is_parent);
    free(ctx);
}

enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out)
{
    struct halay_context *ctx = halay_aligned_alloc(HALAY_CONTEXT_ALIGNMENT, sizeof *ctx);

    if (!ctx)
        return HALAY_ERR_NO_MEMORY;
    memset(ctx, 0, sizeof *ctx);
    ctx->is_parent = halay_fork_mark();
    halay_driver_init(ctx);
    pthread_mutex_init(&ctx->observers.recorder.lock, NULL);
    halay_process_set_init(&ctx->all, ctx, world->size, world->rank);
    enum halay_status status = halay_context_open(ctx, world);
    if (status == HALAY_OK)
        *out = ctx;
    else
        halay_context_destroy(ctx);
    return status;
}

static int has_left(void *arg)
{
    return atomic_load_explicit(&((struct halay_context *)arg)->has_left, memory_order_acquire);
}

static void leave(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->is_closing, 1, memory_order_release);
    int has_failed = ctx->status != HALAY_OK;
    pthread_mutex_unlock(&ctx->lock);
    if (halay_recording(&ctx->observers.recorder))
        halay_record_event(ctx, HALAY_RECORD_LEFT, HALAY_OK, NULL);
    halay_driver_wake(ctx);
    halay_driver_wait(ctx, has_left, ctx, halay_deadline_us(has_failed ? LEAVE_FAILED_MS : LEAVE_MS));
}

/* The thread has stopped: this one has the engine to itself. */
static void end_rest(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    size_t in_flight = atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (in_flight)
        halay_engine_fail(ctx, HALAY_ERR_CLOSED, ctx->rank, "rank %d has left with %zu tensors in flight", ctx->rank,
                          in_flight);
    halay_requests_deliver(ctx);
}

void halay_context_close(struct halay_context *ctx)
{
    leave(ctx);
    halay_driver_stop(ctx);
    end_rest(ctx);

    if (ctx->negotiation.coordinator)
        halay_coordinator_report_stragglers(ctx->negotiation.coordinator);
    halay_recorder_close(ctx);
    destroy_autotune(ctx);
    halay_buckets_abandon(ctx);
    halay_count(&ctx->observers.tally.sent_before, halay_link_sent(ctx->negotiation.link));
    halay_link_destroy(ctx->negotiation.link);
    halay_buckets_free_all(ctx);
    halay_process_sets_end(ctx);
    free_ranks(ctx);
    ctx->negotiation.autotune = NULL;
    ctx->negotiation.link = NULL;
    ctx->negotiation.coordinator = NULL;
}
