/* SPDX-License-Identifier: Apache-2.0
 *
 * Timeline: start and stop. While a timeline is on, the engine's records go into a ring in memory; the thread that
 * stops it converts them into a file. That thread may block; it is never the one that moves data. The newest records
 * are kept: a timeline that is on all day is as large as one of a few steps.
 *
 * The ring stays until the context ends: a hook that began before stop may still write into it. Such a record has a
 * number after the last one that was read, or is incomplete and is skipped.
 */
#include "base/error_text.h"
#include "base/output_file.h"
#include "base/trace.h"
#include "fusion/observe/recorder.h"
#include "fusion/requests/context.h"
#include "halay_tools.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sets the ring that takes records, or NULL. */
static void set_timeline(struct halay_context *ctx, struct halay_ring *ring)
{
    atomic_store_explicit(&ctx->recorder->timeline, ring, memory_order_release);
    atomic_store_explicit(&ctx->recording,
                          ring                    ? HALAY_RECORDS_ALL
                          : ctx->recorder->flight ? HALAY_RECORDS_FLIGHT
                                                  : HALAY_RECORDS_NOTHING,
                          memory_order_relaxed);
}

static enum halay_status timeline_start_locked(struct halay_context *ctx, const char *pattern)
{
    struct halay_recorder *recorder = ctx->recorder;

    if (recorder->path) {
        halay_error(ctx->log, "a timeline is on already, for '%s'", recorder->path);
        return HALAY_ERR_DUPLICATE;
    }
    char *path = halay_recorder_path(ctx, pattern);
    if (!path)
        return HALAY_ERR_NO_MEMORY;
    if (!recorder->store) {
        enum halay_status status = halay_ring_create(ctx->log, NULL, ctx->world->config.timeline_bytes, ctx->rank,
                                                     ctx->size, &recorder->store);
        if (status != HALAY_OK) {
            free(path);
            return status;
        }
    }
    recorder->path = path;
    recorder->from = halay_ring_begun(recorder->store) + 1;
    set_timeline(ctx, recorder->store);
    return HALAY_OK;
}

static enum halay_status timeline_write_file(struct halay_context *ctx, const struct halay_recorder *recorder)
{
    struct halay_output out = { 0 };
    enum halay_status status = halay_output_open(NULL, recorder->path, &out);

    if (!status)
        status = halay_trace_write(recorder->store, recorder->from, out.file);
    if (!status)
        status = halay_output_commit(&out);
    if (status)
        halay_error(ctx->log, "cannot write the timeline '%s': %s", recorder->path,
                    status == HALAY_ERR_SYSTEM ? strerror(errno) : halay_status_string(status));
    halay_output_abort(&out);
    return status;
}

static enum halay_status timeline_stop_locked(struct halay_context *ctx)
{
    struct halay_recorder *recorder = ctx->recorder;

    if (!recorder->path)
        return halay_refuses(HALAY_ERR_ARGUMENT, "halay_timeline_stop: no timeline is on");
    set_timeline(ctx, NULL);
    enum halay_status status = timeline_write_file(ctx, recorder);
    free(recorder->path);
    recorder->path = NULL;
    return status;
}

enum halay_status halay_timeline_set(struct halay_context *ctx, const char *path)
{
    if (!ctx || (path && !*path))
        return halay_refuses(HALAY_ERR_ARGUMENT, "a timeline: no %s", ctx ? "path" : "context");
    if (halay_is_child(ctx))
        return halay_refuses(HALAY_ERR_UNSUPPORTED, "a child of fork has no context");
    pthread_mutex_lock(&ctx->recorder->lock);
    enum halay_status status = path ? timeline_start_locked(ctx, path) : timeline_stop_locked(ctx);
    pthread_mutex_unlock(&ctx->recorder->lock);
    return halay_returns(status);
}
