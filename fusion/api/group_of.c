/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of the ranks of a context or of a process set, for a program that uses the engine and the collectives below
 * it.
 *
 * A connection is driven by one thread at a time, and the context's connections are the engine's driver's. So the group
 * has a world of its own, with its own connections, and needs nothing of the engine once it is open. Its ranks
 * bootstrap over the engine:
 *
 *     all-reduce (max) of the number of groups each rank opened of this set   -> a number that no earlier start has had
 *     world's bootstrap:  one all-gather of bytes a round, under a name with that number
 *
 * Starts that failed half-way on some ranks leave submissions only under their number, which no later start matches.
 *
 * Cleanup: reverse-order labels; the world owns the bootstrap.
 */
#include "base/error_text.h"
#include "collectives/api/group_open.h"
#include "collectives/transport/bootstrap/boot.h"
#include "fusion/api/submit.h"
#include "fusion/api/wait.h"
#include "fusion/requests/carrier.h"
#include "fusion/requests/context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_NAME "halay group" /* prefix of the names submitted here */

struct boot_context {
    struct halay_boot base;
    struct halay_process_set *set; /* borrowed */
    char name[sizeof GROUP_NAME + 24];
};

/* Submits and waits until all ranks have submitted, at most timeout_ms. A withdrawal by another rank counts as a
 * time-out as well: that rank has waited for the same time. */
static enum halay_status submit_and_wait(struct halay_process_set *set, struct halay_tensor_info *info,
                                         struct halay_log *log)
{
    struct halay_request *request = NULL;

    info->struct_size = sizeof *info;
    info->set = set;
    enum halay_status status = halay_submit_info(set->ctx, info, NULL, NULL, HALAY_WILL_WAIT, &request);
    if (status == HALAY_OK)
        status = halay_wait(request, -1);
    if (status != HALAY_OK)
        halay_error(log, "%s", request ? halay_request_text(request) : halay_error_text());
    halay_request_free(request);
    return status == HALAY_ERR_CANCELED ? HALAY_ERR_TIMEOUT : status;
}

static enum halay_status context_allgather(struct halay_boot *boot, const void *mine, size_t bytes, void *all,
                                           int timeout_ms)
{
    struct boot_context *self = (struct boot_context *)boot;
    size_t total = bytes * (size_t)boot->size;
    void *unwanted = all ? NULL : malloc(total);

    if (!all && !unwanted)
        return halay_fail(boot->log, HALAY_ERR_NO_MEMORY, "no memory for what %d ranks exchange", boot->size);
    struct halay_tensor_info info = { .name = self->name,
                                      .collective = HALAY_ALLGATHER,
                                      .dtype = HALAY_U8,
                                      .dimensions = 2,
                                      .shape = { 1, bytes },
                                      .in = mine,
                                      .out = all ? all : unwanted,
                                      .out_bytes = total,
                                      .timeout_ms = timeout_ms };
    enum halay_status status = submit_and_wait(self->set, &info, boot->log);
    free(unwanted);
    return status;
}

/* Uses the context's secret: it is kept until halay_fini, though the context itself no longer needs it. */
static void context_secret(struct halay_boot *boot, unsigned char *secret)
{
    struct halay_boot *parent = ((struct boot_context *)boot)->set->ctx->world->boot;

    parent->ops->secret(parent, secret);
}

static void context_destroy(struct halay_boot *boot)
{
    free(boot);
}

static const struct halay_boot_ops context_ops = {
    .name = "context",
    .allgather = context_allgather,
    .secret = context_secret,
    .destroy = context_destroy,
};
static const struct halay_boot_ops context_ops_without_secret = {
    .name = "context",
    .allgather = context_allgather,
    .destroy = context_destroy,
};

/* Agrees on the number of this start. */
static enum halay_status agree_on_number(struct halay_process_set *set, int timeout_ms, unsigned *number)
{
    struct halay_context *ctx = set->ctx;
    int64_t most;

    pthread_mutex_lock(&ctx->lock);
    int64_t mine = set->groups;
    pthread_mutex_unlock(&ctx->lock);
    struct halay_tensor_info info = { .name = GROUP_NAME,
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_I64,
                                      .reduction = HALAY_MAX,
                                      .in = &mine,
                                      .out = &most,
                                      .timeout_ms = timeout_ms };
    enum halay_status status = submit_and_wait(set, &info, ctx->log);
    if (status != HALAY_OK)
        return status;
    *number = (unsigned)most + 1;
    pthread_mutex_lock(&ctx->lock);
    set->groups = *number;
    pthread_mutex_unlock(&ctx->lock);
    return HALAY_OK;
}

static enum halay_status open_group(struct halay_process_set *set, struct halay_group **group)
{
    struct halay_context *ctx = set->ctx;
    int timeout_ms = ctx->world->config.start_timeout_ms;
    unsigned number;

    enum halay_status status = agree_on_number(set, timeout_ms, &number);
    if (status != HALAY_OK)
        return status;
    struct boot_context *boot = calloc(1, sizeof *boot);
    if (!boot)
        return HALAY_ERR_NO_MEMORY;
    boot->base = (struct halay_boot){
        .ops = ctx->world->boot->ops->secret ? &context_ops : &context_ops_without_secret,
        .rank = set->rank,
        .size = set->size,
        .log = ctx->log,
    };
    boot->set = set;
    snprintf(boot->name, sizeof boot->name, GROUP_NAME " %u", number);
    return halay_group_open_world(&(struct halay_world_options){ .boot = &boot->base,
                                                                 .config = &ctx->world->config,
                                                                 .uses_devices = halay_carrier_is_loaded(ctx),
                                                                 .stream = ctx->stream,
                                                                 .stream_arg = ctx->stream_arg,
                                                                 .log_write = ctx->log->write,
                                                                 .log_arg = ctx->log->arg },
                                  atomic_load_explicit(&ctx->log->reports_errors, memory_order_relaxed), group);
}

/* Returns why the call cannot be made; NULL: it can. */
static const char *find_fault(const struct halay_context *ctx, const struct halay_process_set *set,
                              struct halay_group *const *group)
{
    if (!ctx || !group)
        return ctx ? "no place for the group" : "no context";
    if (set && set->ctx != ctx)
        return "the process set is of another context";
    return set && set->rank < 0 ? "this rank is not a member of the process set" : NULL;
}

enum halay_status halay_group_of(struct halay_context *ctx, struct halay_process_set *set, struct halay_group **group)
{
    const char *fault = find_fault(ctx, set, group);

    if (fault)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_group_of: %s", fault);
    if (halay_is_child(ctx))
        return halay_refuse_child();
    if (halay_may_block(ctx, "halay_group_of") != HALAY_OK)
        return HALAY_ERR_UNSUPPORTED;
    halay_call_begin(ctx);
    enum halay_status status = open_group(set ? set : &ctx->all, group);
    halay_call_end(ctx);
    return halay_returns(status);
}
