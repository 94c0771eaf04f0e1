/* SPDX-License-Identifier: Apache-2.0
 *
 * Context: the life of the engine, from joining the job to leaving it, and the questions about it.
 *
 * Leaving is in three steps: close (submissions are refused; this rank says BYE, and drives on until all ranks have
 * said it and nothing is left to do, at most LEAVE_MS), stop (the thread ends, what is still in flight ends with
 * HALAY_ERR_CLOSED), destroy. So ranks that leave together never pull memory from under each other.
 *
 * In an elastic job open and close take place several times in the life of a context (elastic.c); what is registered
 * stays, and so do requests.
 *
 * Cleanup: reverse-order labels while it is opened, close takes an open one, fini any.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/struct_size.h"
#include "fusion/engine.h"
#include "fusion/observe/placement.h"
#include "halay_elastic.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVE_MS = 5000, LEAVE_FAILED_MS = 500, IDS_MAX = 16384 };

static enum halay_status create_coordinator(struct halay_context *ctx)
{
    if (ctx->rank != 0)
        return HALAY_OK;
    ctx->coordinator_options = (struct halay_coordinator_options){ .size = ctx->size,
                                                                   .threshold = ctx->world->config.fusion_threshold,
                                                                   .deterministic = ctx->world->config.deterministic,
                                                                   .join_average = ctx->world->config.join_average,
                                                                   .ids_max = IDS_MAX,
                                                                   .log = ctx->log,
                                                                   .emit = halay_negotiate_emit,
                                                                   .arg = &ctx->all };
    enum halay_status status = halay_coordinator_create(&ctx->coordinator_options, &ctx->all.coordinator);
    ctx->coordinator = ctx->all.coordinator;
    return status;
}

/* In the deterministic modes buckets are what the registrations say. */
static void set_express(struct halay_context *ctx)
{
    const struct halay_world *world = ctx->world;
    int has_places = world->config.deterministic == HALAY_DETERMINISTIC_OFF && world->data == ctx->control;

    ctx->express.places = has_places ? halay_express_places(ctx->all.group) : 0;
    if (ctx->coordinator)
        halay_coordinator_set_express(ctx->coordinator, ctx->express.places);
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
    ctx->autotune = malloc(sizeof *ctx->autotune);
    if (!ctx->autotune)
        return HALAY_ERR_NO_MEMORY;
    halay_autotune_init(ctx->autotune, config->fusion_threshold, ctx->size);
    return config->autotune_file ? halay_autotune_load(ctx->log, config->autotune_file, ctx->autotune) : HALAY_OK;
}

static void destroy_autotune(struct halay_context *ctx)
{
    if (ctx->autotune && ctx->world->config.autotune_file)
        halay_autotune_save(ctx->log, ctx->world->config.autotune_file, ctx->autotune); /* says itself what is wrong */
    free(ctx->autotune);
}

enum halay_status halay_context_open(struct halay_context *ctx, struct halay_world *world)
{
    enum halay_status status = halay_world_open_control(world);
    if (status != HALAY_OK)
        return status;
    status = HALAY_ERR_NO_MEMORY;
    ctx->world = world;
    ctx->log = world->log;
    ctx->rank = world->rank;
    ctx->size = world->size;
    ctx->control = world->size > 1 ? world->control : NULL;
    ctx->ended_last = &ctx->ended;
    ctx->all.size = ctx->size;
    ctx->all.rank = ctx->rank;
    ctx->left = calloc((size_t)ctx->size, 1);
    ctx->counts = calloc(2 * (size_t)ctx->size, sizeof *ctx->counts);
    if (!ctx->left || !ctx->counts)
        goto err_free_left;
    status = halay_link_create(ctx->control, ctx->rank, ctx->size, ctx->log, &ctx->link);
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
    status = halay_cycle_start(ctx);
    if (status != HALAY_OK)
        goto err_close_recorder;
    status = halay_placement_apply(ctx);
    if (status != HALAY_OK)
        goto err_stop_cycle;
    return HALAY_OK;

err_stop_cycle:
    halay_cycle_stop(ctx);
err_close_recorder:
    halay_recorder_close(ctx);
err_free_autotune:
    free(ctx->autotune);
    ctx->autotune = NULL;
err_end_set:
    halay_process_sets_end(ctx);
    ctx->coordinator = NULL;
    halay_link_destroy(ctx->link);
    ctx->link = NULL;
err_free_left:
    free(ctx->counts);
    free(ctx->left);
    ctx->counts = NULL;
    ctx->left = NULL;
    return status;
}

static void context_free(struct halay_context *ctx)
{
    halay_cycle_fini(ctx);
    pthread_mutex_destroy(&ctx->recorder.lock);
    halay_fork_unmark(ctx->is_parent);
    halay_elastic_fini(ctx);
    free(ctx);
}

enum halay_status halay_context_create(struct halay_world *world, struct halay_context **out)
{
    struct halay_context *ctx = calloc(1, sizeof *ctx);

    if (!ctx)
        return HALAY_ERR_NO_MEMORY;
    ctx->is_parent = halay_fork_mark();
    halay_cycle_init(ctx);
    pthread_mutex_init(&ctx->recorder.lock, NULL);
    halay_process_set_init(&ctx->all, ctx, world->size, world->rank);
    enum halay_status status = halay_context_open(ctx, world);
    if (status == HALAY_OK)
        *out = ctx;
    else
        context_free(ctx);
    return status;
}

/* They would not be what they were after the first change of ranks. */
static enum halay_status refuse_sets(struct halay_world *world, const struct halay_options *how)
{
    if (!world->heritage || (!how->process_set_count && !world->config.process_sets))
        return HALAY_OK;
    halay_error(world->log, "process sets that are made at the start are not possible in an elastic job: "
                            "halay_process_set_create makes them anew after each change of ranks");
    return HALAY_ERR_UNSUPPORTED;
}

/* A rank that cannot go on after all says so: the others do not wait for it. Owns world. */
static enum halay_status start(struct halay_world *world, const struct halay_options *how, struct halay_context **out)
{
    struct halay_context *ctx = NULL;
    int are_sets = 0;

    enum halay_status status = refuse_sets(world, how);
    if (status == HALAY_OK)
        status = halay_context_create(world, &ctx);
    if (status == HALAY_OK)
        status = halay_process_sets_read_static(ctx, how->process_sets, how->process_set_count, &are_sets);
    if (status != HALAY_ERR_TIMEOUT && status != HALAY_ERR_PEER) /* else somebody is missing, on all ranks */
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

/* What the program gives, as far as it can be read. */
static enum halay_status read_options(const struct halay_options *options, struct halay_context *const *out,
                                      struct halay_options *how)
{
    enum { FIRST_VERSION = offsetof(struct halay_options, process_sets) };
    enum halay_status status = HALAY_OK;

    if (options)
        status = halay_struct_read(NULL, "halay_options", options, FIRST_VERSION, sizeof *how, how);
    if (out)
        return status;
    halay_error_somewhere(NULL, "halay_init: no place for the context");
    return HALAY_ERR_ARGUMENT;
}

/* The others are met whatever is wrong with the options: they are not to wait for this rank. */
static enum halay_status init(const void *comm, enum halay_mpi_abi abi, const struct halay_options *options,
                              struct halay_context **out)
{
    struct halay_options how = { 0 };
    struct halay_heritage heritage = { 0 };
    struct halay_world *world;

    enum halay_status readable = read_options(options, out, &how), status;
    do {
        status = halay_world_open(&(struct halay_world_options){ .bootstrap = how.bootstrap,
                                                                 .comm = comm,
                                                                 .comm_abi = abi,
                                                                 .transport = how.transport,
                                                                 .join_average = how.join_average,
                                                                 .log_write = how.log,
                                                                 .log_arg = how.log_arg,
                                                                 .heritage = &heritage,
                                                                 .lost = -1,
                                                                 .status = readable },
                                  &world);
        if (status == HALAY_OK)
            status = start(world, &how, out);
    } while (heritage.log && halay_elastic_may_retry(status));
    if (heritage.log && status == HALAY_OK)
        status = halay_elastic_init(*out, &how, &heritage);
    else
        halay_heritage_fini(&heritage);
    return status;
}

enum halay_status halay_init(const struct halay_options *options, struct halay_context **out)
{
    return init(NULL, 0, options, out);
}

enum halay_status halay_init_communicator(const void *comm, enum halay_mpi_abi abi, const struct halay_options *options,
                                          struct halay_context **out)
{
    if (!comm) {
        halay_error_somewhere(NULL, "halay_init_communicator: no communicator");
        return HALAY_ERR_ARGUMENT;
    }
    return init(comm, abi, options, out);
}

/* ---- leaving ---- */

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
    if (halay_recording(&ctx->recorder))
        halay_record_event(ctx, HALAY_RECORD_LEFT, HALAY_OK, NULL);
    halay_cycle_wake(ctx);
    halay_cycle_wait(ctx, has_left, ctx, halay_deadline_us(has_failed ? LEAVE_FAILED_MS : LEAVE_MS));
}

/* The thread has stopped: this one has the engine to itself. */
static void end_rest(struct halay_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    size_t in_flight = atomic_load_explicit(&ctx->in_flight, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    if (in_flight)
        halay_engine_fail(ctx, HALAY_ERR_CLOSED, ctx->rank, "rank %d has left with %zu tensors in flight", ctx->rank,
                          in_flight);
    halay_requests_deliver(ctx);
}

void halay_context_close(struct halay_context *ctx)
{
    leave(ctx);
    halay_cycle_stop(ctx);
    end_rest(ctx);

    if (ctx->coordinator)
        halay_coordinator_report_stragglers(ctx->coordinator);
    halay_recorder_close(ctx);
    destroy_autotune(ctx);
    halay_buckets_abandon(ctx);
    halay_count(&ctx->tally.sent_before, halay_link_sent(ctx->link));
    halay_link_destroy(ctx->link);
    halay_buckets_free_all(ctx);
    halay_process_sets_end(ctx);
    free(ctx->counts);
    free(ctx->left);
    ctx->autotune = NULL;
    ctx->link = NULL;
    ctx->coordinator = NULL;
    ctx->counts = NULL;
    ctx->left = NULL;
}

void halay_fini(struct halay_context *ctx)
{
    if (!ctx || halay_is_child(ctx) || halay_may_block(ctx, "halay_fini") != HALAY_OK)
        return;
    if (ctx->link) /* else an elastic job has gone on without this rank */
        halay_context_close(ctx);
    halay_process_sets_fini(ctx);
    halay_registry_free_all(ctx);
    halay_requests_free_all(ctx);
    halay_world_close(ctx->world);
    context_free(ctx);
}

/* ---- questions ---- */

int halay_rank(const struct halay_context *ctx)
{
    return ctx->rank;
}

int halay_size(const struct halay_context *ctx)
{
    return ctx->size;
}

int halay_local_rank(const struct halay_context *ctx)
{
    return ctx->world->local_rank;
}

int halay_local_size(const struct halay_context *ctx)
{
    return ctx->world->local_size;
}

int halay_cross_rank(const struct halay_context *ctx)
{
    return ctx->world->cross_rank;
}

int halay_cross_size(const struct halay_context *ctx)
{
    return ctx->world->cross_size;
}

int halay_is_homogeneous(const struct halay_context *ctx)
{
    return ctx->world->is_homogeneous;
}

enum halay_status halay_context_status(struct halay_context *ctx, char *text, size_t size)
{
    if (halay_is_child(ctx)) {
        if (text && size)
            snprintf(text, size, "a child of fork has no context");
        return HALAY_ERR_UNSUPPORTED;
    }
    pthread_mutex_lock(&ctx->lock);
    enum halay_status status = ctx->status;
    if (text && size)
        snprintf(text, size, "%s", ctx->text);
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

void halay_autotune_stop(struct halay_context *ctx)
{
    if (ctx)
        atomic_store_explicit(&ctx->autotune_stops, 1, memory_order_relaxed);
}

/* ---- memory ---- */

enum halay_status halay_alloc(struct halay_context *ctx, size_t bytes, void **ptr)
{
    if (!ctx || !ptr)
        return HALAY_ERR_ARGUMENT;
    if (halay_is_child(ctx))
        return HALAY_ERR_UNSUPPORTED;
    if (halay_elastic_is_on(ctx))
        return halay_elastic_alloc(ctx, bytes, ptr);
    return halay_group_alloc(ctx->all.group, bytes, ptr);
}

void halay_free(struct halay_context *ctx, void *ptr)
{
    if (!ctx || halay_is_child(ctx))
        return;
    if (halay_elastic_is_on(ctx))
        halay_elastic_free(ctx, ptr);
    else
        halay_group_free(ctx->all.group, ptr);
}
