/* SPDX-License-Identifier: Apache-2.0
 *
 * Open and close: the engine over a world.
 *
 * Leaving has three steps: close (submissions are refused; this rank sends BYE, and drives until all ranks have sent it
 * and nothing is left to do, at most LEAVE_MS), stop (the thread ends, requests still in flight end with
 * HALAY_ERR_CLOSED), destroy. So ranks that leave together never unmap memory that others use.
 *
 * Cleanup: reverse-order labels while it is opened, close takes an open one.
 */
#include "fusion/api/open.h"
#include "base/error_text.h"
#include "base/memory.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/engine/driver.h"
#include "fusion/engine/engine.h"
#include "fusion/engine/fail.h"
#include "fusion/engine/negotiate.h"
#include "fusion/observe/recorder.h"
#include "fusion/paths/paths.h"
#include "fusion/place/placement.h"
#include "fusion/protocol/messenger.h"
#include "fusion/replay/branch.h"
#include "fusion/replay/replay.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/path.h"
#include "fusion/run/bucket.h"
#include "fusion/run/deliver.h"
#include "fusion/run/sets.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAVE_MS = 5000, LEAVE_FAILED_MS = 500, IDS_MAX = 16384 };

static enum halay_status create_coordinator(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;

    if (ctx->rank != 0)
        return HALAY_OK;
    return halay_coordinator_create(&(struct halay_coordinator_options){ .size = ctx->size,
                                                                         .threshold = config->fusion_threshold,
                                                                         .deterministic = config->deterministic,
                                                                         .join_average = config->join_average,
                                                                         .replay = config->replay,
                                                                         .ids_max = IDS_MAX,
                                                                         .log = ctx->log,
                                                                         .emit = halay_negotiate_emit,
                                                                         .arg = &ctx->all },
                                    &ctx->all.coordinator);
}

/* Frees the arrays with an element for each rank. */
static void free_ranks(struct halay_context *ctx)
{
    free(ctx->execution->counts);
    free(ctx->left);
    ctx->execution->counts = NULL;
    ctx->left = NULL;
}

static enum halay_status take_world(struct halay_context *ctx, struct halay_world *world)
{
    ctx->world = world;
    ctx->log = world->log;
    ctx->rank = world->rank;
    ctx->size = world->size;
    ctx->control = world->size > 1 ? world->control : NULL;
    ctx->degree = HALAY_BRANCH_DEGREE;
    ctx->all.size = ctx->size;
    ctx->all.rank = ctx->rank;
    ctx->left = calloc((size_t)ctx->size, 1);
    *ctx->engine = (struct halay_engine){ 0 };
    *ctx->execution = (struct halay_execution){ .ended_last = &ctx->execution->ended,
                                                .counts = calloc(2 * (size_t)ctx->size, sizeof(size_t)) };
    return ctx->left && ctx->execution->counts ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world)
{
    enum halay_status status = halay_world_open_control(world);
    if (status != HALAY_OK)
        return status;
    status = take_world(ctx, world);
    if (status != HALAY_OK)
        goto err_free_left;
    status = halay_messenger_create(ctx->control, ctx->rank, ctx->size, ctx->log, &ctx->messenger);
    if (status != HALAY_OK)
        goto err_free_left;
    status = create_coordinator(ctx);
    if (status != HALAY_OK)
        goto err_end_set;
    status = halay_group_create(world, &ctx->all.group);
    if (status != HALAY_OK)
        goto err_end_set;
    halay_group_set_deterministic(ctx->all.group, world->config.deterministic);
    ctx->carrier->ops->open(ctx);
    status = halay_recorder_open(ctx);
    if (status != HALAY_OK)
        goto err_end_set;
    status = halay_driver_start(ctx);
    if (status != HALAY_OK)
        goto err_close_recorder;
    status = halay_placement_apply(world, ctx->driver->thread);
    if (status != HALAY_OK)
        goto err_stop_driver;
    return HALAY_OK;

err_stop_driver:
    halay_driver_stop(ctx);
err_close_recorder:
    halay_recorder_close(ctx);
err_end_set:
    halay_process_sets_end(ctx);
    halay_messenger_destroy(ctx->messenger);
    ctx->messenger = NULL;
err_free_left:
    free_ranks(ctx);
    return status;
}

/* A context, and its parts that belong to higher layers than its own. */
struct whole {
    struct halay_context ctx; /* first */
    _Alignas(HALAY_CONTEXT_ALIGNMENT) struct halay_driver driver;
    _Alignas(HALAY_CONTEXT_ALIGNMENT) struct halay_engine engine;
    struct halay_execution execution;
    _Alignas(HALAY_CONTEXT_ALIGNMENT) struct halay_recorder recorder;
};

struct halay_context *halay_context_new(void)
{
    struct whole *whole = halay_aligned_alloc(HALAY_CONTEXT_ALIGNMENT, sizeof *whole);

    if (!whole)
        return NULL;
    memset(whole, 0, sizeof *whole);
    struct halay_context *ctx = &whole->ctx;
    ctx->completion_fd = -1;
    ctx->driver = &whole->driver;
    ctx->engine = &whole->engine;
    ctx->execution = &whole->execution;
    ctx->recorder = &whole->recorder;
    ctx->meters = &whole->recorder.own;
    halay_driver_init(ctx);
    pthread_mutex_init(&ctx->recorder->lock, NULL);
    return ctx;
}

void halay_context_destroy(struct halay_context *ctx)
{
    halay_paths_destroy(ctx);
    halay_driver_fini(ctx);
    if (ctx->completion_fd >= 0)
        close(ctx->completion_fd);
    pthread_mutex_destroy(&ctx->recorder->lock);
    halay_fork_unmark(ctx->is_parent);
    free(ctx);
}

enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out)
{
    struct halay_context *ctx = halay_context_new();

    if (!ctx)
        return HALAY_ERR_NO_MEMORY;
    ctx->is_parent = halay_fork_mark();
    halay_process_set_init(&ctx->all, ctx, world->size, world->rank);
    enum halay_status status = halay_paths_create(ctx);
    if (status == HALAY_OK)
        status = halay_context_open(ctx, world);
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

static void engine_leave(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    atomic_store_explicit(&ctx->is_closing, 1, memory_order_release);
    int has_failed = ctx->status != HALAY_OK;
    pthread_mutex_unlock(&ctx->lock);
    if (halay_recording(ctx))
        halay_record_event(ctx, HALAY_RECORD_LEFT);
    halay_driver_wake(ctx);
    halay_driver_wait(ctx, has_left, ctx, has_failed ? LEAVE_FAILED_MS : LEAVE_MS);
}

/* The background thread has stopped: this thread has the engine to itself. */
static void end_rest(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    size_t in_flight = atomic_load_explicit(&ctx->queue.in_flight, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (in_flight)
        halay_engine_fail(ctx, HALAY_ERR_CLOSED, ctx->rank, "rank %d has left with %zu tensors in flight", ctx->rank,
                          in_flight);
    ctx->carrier->ops->end(ctx);
    halay_requests_deliver(ctx);
}

void halay_context_close(struct halay_context *ctx)
{
    engine_leave(ctx);
    halay_driver_stop(ctx);
    halay_error_mute(1); /* no call returns these errors */
    end_rest(ctx);
    halay_error_mute(0);

    if (ctx->all.coordinator)
        halay_coordinator_report_stragglers(ctx->all.coordinator);
    halay_recorder_close(ctx);
    for (struct halay_path *path = ctx->paths; path; path = path->next)
        path->ops->abandon(path);
    halay_buckets_abandon(ctx);
    ctx->carrier->ops->stop(ctx);
    halay_count(&ctx->meters->tally.sent_before, halay_messenger_sent(ctx->messenger));
    halay_messenger_destroy(ctx->messenger);
    halay_buckets_free_all(ctx);
    halay_process_sets_end(ctx);
    free_ranks(ctx);
    ctx->messenger = NULL;
}
