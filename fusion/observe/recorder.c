/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorder: makes the records and passes them to the rings that need them.
 *
 * A submission is recorded when it is made and when it ends; the second record has the times between, so that a
 * timeline needs no other record to draw a tensor. So are collectives. When a job hangs the first
 * records show which ranks have not submitted, or not started, a tensor that others have.
 */
#include "fusion/observe/recorder.h"
#include "base/clock.h"
#include "collectives/transport/bootstrap/elastic_client.h"
#include "fusion/requests/context.h"
#include "fusion/requests/entry.h"
#include "fusion/requests/request.h"
#include "halay_tools.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void add_record(struct halay_context *ctx, const struct halay_record *record)
{
    struct halay_ring *timeline = atomic_load_explicit(&ctx->recorder->timeline, memory_order_acquire);

    if (ctx->recorder->flight)
        halay_ring_add(ctx->recorder->flight, record);
    if (timeline)
        halay_ring_add(timeline, record);
}

static void describe_request(struct halay_record *record, const struct halay_request *r)
{
    record->operation = r->signature.collective;
    record->dtype = r->signature.dtype;
    record->op = r->signature.reduction;
    record->set = (int32_t)r->set->number;
    record->bytes = r->bytes;
    record->ordinal = r->ordinal;
    record->count = 1;
    record->hash = r->hash;
    if (r->entry) /* an operation without this rank's data has no entry */
        halay_record_set_name(record, r->entry->node.name, r->entry->node.length);
}

void halay_record_submitted(struct halay_context *ctx, struct halay_request *request)
{
    struct halay_record record = { .kind = HALAY_RECORD_SUBMITTED, .time_ns = halay_now_ns() };

    describe_request(&record, request);
    request->submitted_ns = record.time_ns;
    add_record(ctx, &record);
}

void halay_record_started(struct halay_context *ctx, struct halay_request *const *requests, size_t count,
                          uint64_t collective, enum halay_dtype dtype, struct halay_record *record)
{
    uint64_t hash = 0;
    size_t bytes = 0;

    *record = (struct halay_record){ .kind = HALAY_RECORD_STARTED, .time_ns = halay_now_ns() };
    describe_request(record, requests[0]);
    for (size_t i = 0; i < count; i++) {
        requests[i]->started_ns = record->time_ns;
        requests[i]->collective = collective;
        bytes += requests[i]->bytes;
        hash = hash * 31 + requests[i]->hash;
    }
    record->count = (uint32_t)count;
    record->dtype = (uint8_t)dtype;
    record->bytes = bytes;
    record->hash = hash;
    record->ordinal = 0;
    record->collective = collective;
    add_record(ctx, record);
}

void halay_record_finished(struct halay_context *ctx, const struct halay_record *record, enum halay_status status)
{
    struct halay_record finished = *record;

    finished.kind = HALAY_RECORD_FINISHED;
    finished.begin_ns = record->time_ns;
    finished.time_ns = halay_now_ns();
    finished.status = (uint8_t)status;
    add_record(ctx, &finished);
}

void halay_record_ended(struct halay_context *ctx, const struct halay_request *request, enum halay_status status)
{
    struct halay_record record = { .kind = HALAY_RECORD_ENDED,
                                   .time_ns = halay_now_ns(),
                                   .begin_ns = request->submitted_ns,
                                   .start_ns = request->started_ns,
                                   .collective = request->collective,
                                   .status = (uint8_t)status };

    describe_request(&record, request);
    add_record(ctx, &record);
}

void halay_record_waits(struct halay_context *ctx, struct halay_request *request, struct halay_record *record)
{
    *record = (struct halay_record){ .kind = HALAY_RECORD_WAITS, .time_ns = halay_now_ns() };
    pthread_mutex_lock(&ctx->lock); /* the end of the request frees the entry */
    if (request->entry)
        describe_request(record, request);
    pthread_mutex_unlock(&ctx->lock);
    add_record(ctx, record);
}

void halay_record_waited(struct halay_context *ctx, struct halay_record *record)
{
    record->kind = HALAY_RECORD_WAITED;
    record->begin_ns = record->time_ns;
    record->time_ns = halay_now_ns();
    add_record(ctx, record);
}

void halay_record_slept(struct halay_context *ctx, int64_t since_ns)
{
    add_record(ctx,
               &(struct halay_record){ .kind = HALAY_RECORD_SLEPT, .begin_ns = since_ns, .time_ns = halay_now_ns() });
}

void halay_record_event(struct halay_context *ctx, enum halay_record_kind kind)
{
    add_record(ctx, &(struct halay_record){ .kind = (uint8_t)kind, .time_ns = halay_now_ns() });
}

void halay_record_failed(struct halay_context *ctx, enum halay_status status, const char *cause)
{
    struct halay_record record = { .kind = HALAY_RECORD_FAILED, .time_ns = halay_now_ns(), .status = (uint8_t)status };
    size_t length = strlen(cause);

    do {
        size_t part = halay_record_set_part(&record, cause + record.bytes, length - record.bytes);
        add_record(ctx, &record);
        record.bytes += part;
    } while (record.bytes < length);
}

void halay_record_set(struct halay_context *ctx, const struct halay_process_set *set)
{
    struct halay_record record = { .kind = HALAY_RECORD_SET, .time_ns = halay_now_ns(), .set = (int32_t)set->number };
    char ranks[200];

    halay_process_set_print_ranks(set, ranks, sizeof ranks);
    halay_record_set_name(&record, ranks, strlen(ranks));
    add_record(ctx, &record);
}

/* ---- life ---- */

char *halay_recorder_path(const struct halay_context *ctx, const char *pattern)
{
    const struct halay_carried *carried = ctx->world->carried;

    return halay_rank_path(pattern, ctx->rank, carried ? halay_elastic_client_generation(carried->elastic_client) : 0);
}

static enum halay_status open_flight(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    char *path = halay_recorder_path(ctx, config->flight);

    if (!path)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status =
        halay_ring_create(ctx->log, path, config->flight_bytes, ctx->rank, ctx->size, &ctx->recorder->flight);
    free(path);
    if (status != HALAY_OK || !ctx->recorder->flight)
        return status;
    ctx->meters = halay_ring_meters(ctx->recorder->flight);
    memcpy(ctx->meters, &ctx->recorder->own, sizeof ctx->recorder->own);
    atomic_store_explicit(&ctx->is_recording, 1, memory_order_relaxed);
    return HALAY_OK;
}

enum halay_status halay_recorder_open(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    enum halay_status status = HALAY_OK;

    if (config->flight)
        status = open_flight(ctx);
    /* "DYNAMIC" is Horovod's word for a timeline that the program will start. */
    if (status == HALAY_OK && config->timeline && strcasecmp(config->timeline, "DYNAMIC") != 0)
        status = halay_timeline_start(ctx, config->timeline);
    if (status != HALAY_OK)
        halay_recorder_close(ctx);
    else if (halay_recording(ctx))
        halay_record_event(ctx, HALAY_RECORD_JOINED);
    return status;
}

void halay_recorder_close(struct halay_context *ctx)
{
    struct halay_recorder *recorder = ctx->recorder;

    if (recorder->path)
        halay_timeline_stop(ctx); /* it logs the cause itself */
    if (recorder->flight) {
        memcpy(&recorder->own, ctx->meters, sizeof recorder->own);
        ctx->meters = &recorder->own;
    }
    halay_ring_destroy(recorder->flight);
    halay_ring_destroy(recorder->store);
    recorder->flight = recorder->store = NULL;
    atomic_store_explicit(&ctx->is_recording, 0, memory_order_relaxed);
}
