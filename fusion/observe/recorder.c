/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorder: makes the records and passes them to the rings that need them.
 *
 * A submission is recorded when it is made and when it ends; the second record has the times between, so that a
 * timeline needs no other record to draw a tensor. So are collectives. When a job hangs the first
 * records show which ranks have not submitted, or not started, a tensor that others have.
 *
 * The flight recorder is on in every job that halayrun starts, so it must cost next to nothing. It has the start and
 * the end of each collective, at the time of the driver's step, and those submissions, waits and errors that a report
 * of a job that hung needs: a tensor that has not been started when the driver looks for stalls or the engine fails, a
 * wait that lasts. So no tensor costs a record of its own. A timeline has them all.
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

enum { DEFAULT_BYTES = 256 << 10 }; /* of a file that the user did not ask for */
#define LONG_WAIT_US 50000          /* the flight recorder has waits that last longer */

static void add_record(struct halay_context *ctx, const struct halay_record *record)
{
    struct halay_ring *timeline = atomic_load_explicit(&ctx->recorder->timeline, memory_order_acquire);

    if (ctx->recorder->flight)
        halay_ring_add(ctx->recorder->flight, record);
    if (timeline)
        halay_ring_add(timeline, record);
}

/* Returns the time, in the driver: for the flight recorder that of its step, which costs nothing. */
static int64_t driver_ns(const struct halay_context *ctx)
{
    return halay_recording_all(ctx) ? halay_now_ns() : ctx->now_us * 1000;
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
    uint64_t hash = requests[0]->hash * 31 + requests[count - 1]->hash; /* their order is the coordinator's */
    size_t bytes = 0;
    int marks = halay_recording_all(ctx) || ctx->recorder->late;

    *record = (struct halay_record){ .kind = HALAY_RECORD_STARTED, .time_ns = driver_ns(ctx) };
    describe_request(record, requests[0]);
    for (size_t i = 0; i < count; i++) {
        bytes += requests[i]->bytes;
        if (!marks)
            continue; /* their lines of the cache are not touched */
        requests[i]->started_ns = record->time_ns;
        requests[i]->collective = collective;
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
    finished.time_ns = driver_ns(ctx);
    finished.status = (uint8_t)status;
    add_record(ctx, &finished);
}

/* Returns nonzero if the flight recorder needs the end: of a submission that it has, if it shows that all ranks have
 * made it; or an error of this tensor alone. */
static int needs_end(struct halay_context *ctx, const struct halay_request *request, enum halay_status status)
{
    if (ctx->recorder->late && request->submitted_ns) {
        ctx->recorder->late--;
        return request->collective != 0;
    }
    return status != HALAY_OK && ctx->status == HALAY_OK;
}

void halay_record_ended(struct halay_context *ctx, const struct halay_request *request, enum halay_status status)
{
    struct halay_record record = { .kind = HALAY_RECORD_ENDED,
                                   .time_ns = driver_ns(ctx),
                                   .begin_ns = request->submitted_ns,
                                   .start_ns = request->started_ns,
                                   .collective = request->collective,
                                   .status = (uint8_t)status };

    if (!halay_recording_all(ctx) && !needs_end(ctx, request, status))
        return;
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

/* ---- of the flight recorder alone ---- */

void halay_record_restarted(struct halay_context *ctx, uint64_t collective, struct halay_record *record)
{
    record->time_ns = ctx->now_us * 1000;
    record->collective = collective;
    add_record(ctx, record);
}

void halay_record_plan(struct halay_context *ctx, int change)
{
    struct halay_recorder *recorder = ctx->recorder;

    recorder->plans += change;
    if (recorder->flight)
        halay_ring_set_plans(recorder->flight, (uint64_t)recorder->plans);
}

void halay_record_in_flight(struct halay_context *ctx)
{
    if (halay_recording_all(ctx))
        return;
    pthread_mutex_lock(&ctx->lock);
    for (struct halay_process_set *set = &ctx->all; set; set = set->next)
        for (size_t i = 0; i < set->names.size; i++)
            for (struct halay_table_node *node = set->names.chains[i]; node; node = node->next) {
                struct halay_request *r = ((struct halay_entry *)node)->request;
                if (!r || r->life >= HALAY_LIFE_RUNNING || r->collective || r->submitted_ns)
                    continue;
                halay_record_submitted(ctx, r);
                ctx->recorder->late++;
            }
    pthread_mutex_unlock(&ctx->lock);
}

void halay_record_long_wait(struct halay_context *ctx, int64_t since_us)
{
    struct halay_recorder *recorder = ctx->recorder;
    struct halay_record record = { .kind = HALAY_RECORD_WAITS, .time_ns = since_us * 1000 };

    if (halay_recording_all(ctx) || since_us == recorder->long_wait_us || ctx->now_us - since_us < LONG_WAIT_US)
        return;
    pthread_mutex_lock(&ctx->lock);
    struct halay_request *waited = atomic_load_explicit(&ctx->waiting.waited, memory_order_relaxed);
    if (waited && waited->entry)
        describe_request(&record, waited);
    recorder->long_wait = record;
    atomic_store_explicit(&recorder->long_waited, waited, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    recorder->long_wait_us = since_us;
    if (waited)
        add_record(ctx, &record);
}

void halay_record_wait_ended(struct halay_context *ctx, const struct halay_request *waited)
{
    struct halay_recorder *recorder = ctx->recorder;

    if (atomic_load_explicit(&recorder->long_waited, memory_order_relaxed) != waited)
        return;
    pthread_mutex_lock(&ctx->lock);
    struct halay_record record = recorder->long_wait;
    atomic_store_explicit(&recorder->long_waited, NULL, memory_order_relaxed);
    pthread_mutex_unlock(&ctx->lock);
    halay_record_waited(ctx, &record);
}

/* ---- life ---- */

char *halay_recorder_path(const struct halay_context *ctx, const char *pattern)
{
    const struct halay_carried *carried = ctx->world->carried;

    return halay_rank_path(pattern, ctx->rank, carried ? halay_elastic_client_generation(carried->elastic_client) : 0);
}

static void drop_line(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

/* Creates a file that the user did not ask for; a failure is not an error, and leaves the rank without one. */
static enum halay_status create_default(struct halay_context *ctx, const char *path)
{
    struct halay_log quiet;

    halay_log_init(&quiet, HALAY_LOG_ERROR);
    quiet.write = drop_line;
    if (halay_ring_create(&quiet, path, DEFAULT_BYTES, ctx->rank, ctx->size, &ctx->recorder->flight) != HALAY_OK)
        ctx->recorder->flight = NULL;
    halay_log_fini(&quiet);
    if (!ctx->recorder->flight)
        halay_info(ctx->log, "no flight recorder: '%s' cannot be written", path);
    return HALAY_OK;
}

static enum halay_status open_flight(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    char *path = halay_recorder_path(ctx, config->flight ? config->flight : config->default_flight);

    if (!path)
        return HALAY_ERR_NO_MEMORY;
    enum halay_status status = config->flight ? halay_ring_create(ctx->log, path, config->flight_bytes, ctx->rank,
                                                                  ctx->size, &ctx->recorder->flight)
                                              : create_default(ctx, path);
    free(path);
    if (status != HALAY_OK || !ctx->recorder->flight)
        return status;
    ctx->meters = halay_ring_meters(ctx->recorder->flight);
    memcpy(ctx->meters, &ctx->recorder->own, sizeof ctx->recorder->own);
    atomic_store_explicit(&ctx->recording, HALAY_RECORDS_FLIGHT, memory_order_relaxed);
    return HALAY_OK;
}

enum halay_status halay_recorder_open(struct halay_context *ctx)
{
    const struct halay_config *config = &ctx->world->config;
    enum halay_status status = HALAY_OK;

    if (config->flight || config->default_flight)
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
    atomic_store_explicit(&ctx->recording, HALAY_RECORDS_NOTHING, memory_order_relaxed);
}
