/* SPDX-License-Identifier: Apache-2.0
 *
 * Context: the life of the engine, from joining the job to leaving it, and the queries of a context.
 *
 * In an elastic job open and close run several times in the life of a context (elastic.c); registered tensors and
 * requests are kept.
 */
#include "base/error_text.h"
#include "base/struct_size.h"
#include "fusion/api/elastic.h"
#include "fusion/api/open.h"
#include "fusion/api/start.h"
#include "fusion/api/wait.h"
#include "fusion/replay/plan.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/path.h"
#include "fusion/requests/requests.h"
#include "fusion/run/sets.h"
#include "halay_elastic.h"
#include <stdio.h>
#include <stdlib.h>

/* Refuses static process sets in an elastic job: after the first change of ranks they would have other members. */
static enum halay_status refuse_sets(struct halay_world *world, const struct halay_options *how)
{
    if (!world->carried || (!how->process_set_count && !world->config.process_sets))
        return HALAY_OK;
    halay_error(world->log, "process sets that are made at the start are not possible in an elastic job: "
                            "halay_process_set_create makes them anew after each change of ranks");
    return HALAY_ERR_UNSUPPORTED;
}

static enum halay_status take_options(struct halay_context *ctx, const struct halay_options *how)
{
    ctx->stream = how->stream;
    ctx->stream_arg = how->stream_arg;
    return how->uses_devices ? ctx->carrier->ops->load(ctx) : HALAY_OK;
}

/* Starts the engine. A rank that cannot continue reports this to the others, so that they do not wait for it. Owns
 * world. */
static enum halay_status start_engine(struct halay_world *world, const struct halay_options *how,
                                      struct halay_context **out)
{
    struct halay_context *ctx = NULL;
    int are_sets = 0;

    enum halay_status status = refuse_sets(world, how);
    if (status == HALAY_OK)
        status = halay_context_create(world, &ctx);
    if (status == HALAY_OK)
        status = take_options(ctx, how);
    if (status == HALAY_OK)
        status = halay_process_sets_read_static(ctx, how->process_sets, how->process_set_count, &are_sets);
    if (status != HALAY_ERR_TIMEOUT && status != HALAY_ERR_PEER) /* else a rank is missing, on all ranks */
        status = halay_world_agree(world, status, &are_sets);
    if (status == HALAY_OK && are_sets)
        status = halay_process_sets_create_static(ctx, how->process_sets, how->process_set_count);
    if (status == HALAY_OK)
        *out = ctx;
    else if (ctx)
        halay_fini(ctx);
    else
        halay_world_close(world);
    return status;
}

/* Bootstraps even if the options are wrong: the other ranks must not wait for this rank. */
static enum halay_status start_context(const void *comm, enum halay_mpi_abi abi, const struct halay_options *options,
                                       struct halay_boot_watch *watch, struct halay_context **out)
{
    struct halay_options how;
    struct halay_carried carried = { 0 };
    struct halay_world_options start;
    struct halay_world *world;
    enum halay_status status;

    halay_world_options_read(options, &how, &start);
    start.comm = comm;
    start.comm_abi = abi;
    start.watch = watch;
    start.carried = &carried;
    start.lost = -1;
    if (!out)
        start.status = halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_init: no place for the context");
    do {
        status = halay_world_open(&start, &world);
        if (status == HALAY_OK)
            status = start_engine(world, &how, out);
    } while (carried.log && halay_elastic_may_retry(status));
    if (status == HALAY_OK) {
        halay_world_finish_start((*out)->world);
        atomic_store_explicit(&(*out)->log->reports_errors, how.reports_errors != 0, memory_order_relaxed);
    }
    if (carried.log && status == HALAY_OK)
        status = halay_elastic_init(*out, &how, &carried);
    else
        halay_carried_fini(&carried);
    return status;
}

enum halay_status halay_init(const struct halay_options *options, struct halay_context **out)
{
    return halay_returns(start_context(NULL, 0, options, NULL, out));
}

enum halay_status halay_init_watched(const struct halay_options *options, struct halay_boot_watch *watch,
                                     struct halay_context **out)
{
    return halay_returns(start_context(NULL, 0, options, watch, out));
}

enum halay_status halay_init_communicator(const void *comm, enum halay_mpi_abi abi, const struct halay_options *options,
                                          struct halay_context **out)
{
    if (!comm)
        return halay_returns(
            halay_fail_somewhere(NULL, HALAY_ERR_ARGUMENT, "halay_init_communicator: no communicator"));
    return halay_returns(start_context(comm, abi, options, NULL, out));
}

/* ---- leaving ---- */

void halay_fini(struct halay_context *ctx)
{
    if (!ctx || halay_is_child(ctx) || halay_may_block(ctx, "halay_fini") != HALAY_OK)
        return;
    halay_calls_end(ctx);
    halay_memories_keep(ctx);
    if (ctx->messenger) /* otherwise an elastic job has continued without this rank */
        halay_context_close(ctx);
    for (struct halay_process_set *set = ctx->removed, *next; set; set = next) {
        next = set->next;
        halay_names_free_all(set);
        free(set->ranks);
        free(set);
    }
    halay_names_free_all(&ctx->all);
    for (struct halay_path *path = ctx->paths; path; path = path->next)
        halay_names_free_all(&path->names);
    halay_queue_clear(&ctx->queue);
    halay_requests_free_all(ctx);
    halay_replay_free_all(ctx);
    ctx->carrier->ops->close(ctx);
    halay_world_close(ctx->world);
    halay_elastic_fini(ctx);
    halay_memories_leave(ctx);
    halay_context_destroy(ctx);
}

/* ---- queries ---- */

enum halay_status halay_context_read(const struct halay_context *ctx, struct halay_context_info *info)
{
    if (!ctx || !info || !halay_struct_has_size(info))
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_context_read: no %s", ctx ? "struct_size" : "context");
    const struct halay_world *world = ctx->world;
    struct halay_context_info all = { .rank = ctx->rank,
                                      .size = ctx->size,
                                      .local_rank = world->local_rank,
                                      .local_size = world->local_size,
                                      .cross_rank = world->cross_rank,
                                      .cross_size = world->cross_size,
                                      .is_homogeneous = world->is_homogeneous,
                                      .is_elastic = halay_is_elastic(ctx) };
    halay_struct_write(&all, sizeof all, info);
    return HALAY_OK;
}

enum halay_status halay_context_status(struct halay_context *ctx, char *text, size_t size)
{
    if (halay_is_child(ctx)) {
        if (text && size)
            snprintf(text, size, "a child of fork has no context");
        return halay_refuse_child();
    }
    pthread_mutex_lock(&ctx->lock);
    enum halay_status status = ctx->status;
    if (text && size)
        snprintf(text, size, "%s", ctx->text);
    if (status != HALAY_OK)
        halay_refuses(status, "%s", ctx->text);
    pthread_mutex_unlock(&ctx->lock);
    return status;
}
