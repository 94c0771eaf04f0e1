/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine under a model's load: the gradients of all its tensors, last layers first, submitted by one call and all
 * waited for; alternating with the same reductions by MPI.
 *
 * The tensors are adjacent in one block, in order of forward. MPI gets them one by one, or the block in buckets up to
 * the engine's threshold: like a program whose fusion is perfect and costs nothing.
 *
 * With computing there are two more kinds of step: computing alone, and the same with each tensor submitted when its
 * part is computed. The difference is the communication that was not hidden, by the wire or by the processor.
 */
#include "perf/src/engine/engine.h"
#include "perf/src/engine/work.h"
#include "perf/src/stats.h"
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

enum { WARMUP = 5, TIMEOUT_MS = 60000 }; /* WARMUP: steps, at most the number of measured ones */

struct replay {
    size_t count;                    /* of tensors */
    size_t *elements;                /* owned: of each */
    size_t *starts;                  /* owned: where each begins */
    size_t total;                    /* elements of all */
    float *data;                     /* owned: by perf_engine_free; the sums */
    float *given;                    /* the gradients: data, or owned by the same function */
    float *near;                     /* owned, by perf_engine_free_near: data as the program can access them */
    struct halay_tensor **tensors;   /* owned: in order of submission, last layers first */
    struct halay_request **requests; /* owned */
    double *times[PERF_STEP_ROWS];   /* owned: seconds of each step */
    double *exposed[PERF_STEP_ROWS]; /* owned */
    struct perf_work work;
    double compute_seconds; /* of a step; 0: none */
};

enum { NAME_ROOM = 48 };

/* Describes the model's i-th tensor; name: of NAME_ROOM. */
static struct halay_tensor_info describe_tensor(const struct perf_engine *engine, const struct perf_model *model,
                                                size_t i, size_t elements, const float *in, float *out, char *name)
{
    snprintf(name, NAME_ROOM, "perf.%s.%zu", model->name, i);
    return (struct halay_tensor_info){
        .struct_size = sizeof(struct halay_tensor_info),
        .name = name,
        .collective = HALAY_ALLREDUCE,
        .dtype = HALAY_F32,
        .dimensions = 1,
        .shape = { elements },
        .in = in,
        .out = out,
        .reduction = HALAY_SUM,
        .wire = engine->wire,
        .memory = engine->memory == PERF_DEVICE ? HALAY_MEMORY_DEVICES : HALAY_MEMORY_ANY,
    };
}

static enum halay_status replay_open(struct perf_engine *engine, const struct perf_model *model, size_t steps,
                                     struct replay *r)
{
    void *block;

    *r = (struct replay){ .count = perf_model_expand(model->pattern, NULL, 0) };
    r->elements = calloc(r->count, sizeof *r->elements);
    r->starts = calloc(r->count, sizeof *r->starts);
    r->tensors = calloc(r->count, sizeof(struct halay_tensor *));
    r->requests = calloc(r->count, sizeof(struct halay_request *));
    int ok = r->elements && r->starts && r->tensors && r->requests;
    for (int row = 0; row < PERF_STEP_ROWS; row++) {
        ok &= (r->times[row] = calloc(steps, sizeof(double))) != NULL;
        ok &= (r->exposed[row] = calloc(steps, sizeof(double))) != NULL;
    }
    if (!ok)
        return HALAY_ERR_NO_MEMORY;
    perf_model_expand(model->pattern, r->elements, r->count);
    for (size_t i = 0; i < r->count; r->total += r->elements[i++])
        r->starts[i] = r->total;
    enum halay_status status = perf_engine_alloc(engine, sizeof(float) * r->total, &block);
    if (status == HALAY_OK)
        r->given = r->data = block;
    if (status == HALAY_OK && engine->is_apart)
        status = perf_engine_alloc(engine, sizeof(float) * r->total, &block);
    if (status == HALAY_OK)
        r->given = block;
    if (status == HALAY_OK)
        status = perf_engine_near(engine, r->data, r->total, &r->near);
    for (size_t i = 0; i < r->count && status == HALAY_OK; i++) {
        char name[NAME_ROOM];
        const struct halay_tensor_info info =
            describe_tensor(engine, model, i, r->elements[i], r->given + r->starts[i], r->data + r->starts[i], name);
        status = halay_register(engine->context, &info, &r->tensors[r->count - 1 - i]);
    }
    return status;
}

static void replay_close(struct perf_engine *engine, struct replay *r)
{
    for (size_t i = 0; r->tensors && i < r->count; i++)
        if (r->tensors[i])
            halay_unregister(r->tensors[i]);
    perf_engine_free_near(engine, r->near);
    if (r->given != r->data)
        perf_engine_free(engine, r->given);
    perf_engine_free(engine, r->data);
    for (int row = 0; row < PERF_STEP_ROWS; row++) {
        free(r->times[row]);
        free(r->exposed[row]);
    }
    free(r->requests);
    free(r->tensors);
    free(r->starts);
    free(r->elements);
}

/* Waits for the first requests, failed or not: until then the engine owns their memory. */
static enum halay_status wait_all(struct replay *r, size_t count)
{
    enum halay_status status = halay_wait_all(r->requests, count, TIMEOUT_MS);

    for (size_t i = 0; i < count; i++)
        halay_request_free(r->requests[i]);
    return status;
}

/* Computes this tensor's part of the step. */
static void compute_part(const struct replay *r, size_t tensor)
{
    perf_work_do(&r->work, r->compute_seconds * (double)r->elements[tensor] / (double)r->total);
}

static enum halay_status step_of_computing(const struct replay *r, double *seconds)
{
    double start = perf_now();

    for (size_t left = r->count; left; left--)
        compute_part(r, left - 1);
    *seconds = perf_now() - start;
    return HALAY_OK;
}

static enum halay_status step_by_engine(struct replay *r, int computes, double *seconds, double *exposed)
{
    enum halay_status status = HALAY_OK;
    size_t submitted = 0;
    double start = perf_now();

    if (!computes) {
        status = halay_submit_many(r->tensors, r->count, NULL, NULL, r->requests);
        submitted = status == HALAY_OK ? r->count : 0;
    }
    for (; submitted < r->count && status == HALAY_OK; submitted += status == HALAY_OK) {
        compute_part(r, r->count - 1 - submitted);
        status = halay_submit(r->tensors[submitted], NULL, NULL, &r->requests[submitted]);
    }
    double last = perf_now();
    enum halay_status waited = wait_all(r, submitted);
    double end = perf_now();
    *seconds = end - start;
    *exposed = end - last;
    return status != HALAY_OK ? status : waited;
}

static enum halay_status call_peer(const struct perf_peer_ops *peer, float *data, size_t count)
{
    const struct perf_call call = {
        .collective = PERF_ALLREDUCE, .in = data, .out = data, .count = count, .dtype = HALAY_F32, .op = HALAY_SUM
    };
    char text[256];

    if (!peer->call(&call, text, sizeof text))
        return HALAY_OK;
    fprintf(stderr, "halay-perf engine: %s\n", text);
    return HALAY_ERR_SYSTEM;
}

static enum halay_status step_by_peer(const struct perf_engine *engine, const struct replay *r, int by_bucket,
                                      double *seconds)
{
    size_t most = engine->bucket_bytes / sizeof(float);
    enum halay_status status = HALAY_OK;
    char text[256];
    double start = perf_now();

    for (size_t i = 0, end; i < r->count && status == HALAY_OK; i = end) {
        size_t count = r->elements[i];
        for (end = i + 1; by_bucket && end < r->count && count + r->elements[end] <= most; end++)
            count += r->elements[end];
        status = call_peer(engine->peer, r->data + r->starts[i], count);
    }
    if (status == HALAY_OK && engine->peer->finish && engine->peer->finish(text, sizeof text)) {
        fprintf(stderr, "halay-perf engine: %s\n", text);
        status = HALAY_ERR_SYSTEM;
    }
    *seconds = perf_now() - start;
    return status;
}

/* Writes each rank's gradients, and fills the memory of the sums. */
static enum halay_status set_values(struct perf_engine *engine, struct replay *r, float value)
{
    for (size_t i = 0; i < r->total; i++)
        r->near[i] = value;
    enum halay_status status = perf_engine_put(engine, r->near, r->total, r->data);
    if (status == HALAY_OK && r->given != r->data && engine->memory == PERF_DEVICE)
        return perf_engine_put(engine, r->near, r->total, r->given);
    for (size_t i = 0; status == HALAY_OK && r->given != r->data && i < r->total; i++)
        r->given[i] = value;
    return status;
}

static enum halay_status check_values(struct perf_engine *engine, struct replay *r, float expected)
{
    enum halay_status status = perf_engine_get(engine, r->data, r->total, r->near);

    for (size_t i = 0; status == HALAY_OK && i < r->total; i++)
        engine->wrong |= r->near[i] < expected || r->near[i] > expected;
    return status;
}

static enum halay_status step_of_kind(struct perf_engine *engine, struct replay *r, enum perf_step_row row, size_t step)
{
    float mine = (float)(engine->rank + 1), expected = (float)(engine->size * (engine->size + 1) / 2);
    double ready = 0;

    if (row == PERF_STEP_COMPUTE)
        expected = mine; /* nothing is reduced */

    enum halay_status status = set_values(engine, r, mine);
    if (status == HALAY_OK)
        status = perf_engine_worst(engine, &ready, 1); /* the barrier */
    if (status == HALAY_OK && row == PERF_STEP_ENGINE)
        status = step_by_engine(r, 0, &r->times[row][step], &r->exposed[row][step]);
    else if (status == HALAY_OK && row == PERF_STEP_OVERLAPPED)
        status = step_by_engine(r, 1, &r->times[row][step], &r->exposed[row][step]);
    else if (status == HALAY_OK && row == PERF_STEP_COMPUTE)
        status = step_of_computing(r, &r->times[row][step]);
    else if (status == HALAY_OK)
        status = step_by_peer(engine, r, row == PERF_STEP_PEER_BUCKETS, &r->times[row][step]);
    return status == HALAY_OK ? check_values(engine, r, expected) : status;
}

static int has_row(const struct perf_engine *engine, const struct replay *r, int row)
{
    if (row == PERF_STEP_COMPUTE || row == PERF_STEP_OVERLAPPED)
        return r->compute_seconds > 0;
    return row == PERF_STEP_ENGINE || engine->peer;
}

/* Alternates all kinds of step, so that changes of the machine's speed affect all alike. */
static enum halay_status run_steps(struct perf_engine *engine, struct replay *r, long steps)
{
    enum halay_status status = HALAY_OK;

    for (long i = steps < WARMUP ? -steps : -WARMUP; i < steps && status == HALAY_OK; i++) {
        perf_progress_show(engine->progress, "model: step %ld of %ld", i < 0 ? 0 : i, steps);
        for (int row = 0; row < PERF_STEP_ROWS && status == HALAY_OK; row++)
            if (has_row(engine, r, row))
                status = step_of_kind(engine, r, (enum perf_step_row)row, i < 0 ? 0 : (size_t)i);
    }
    return status;
}

static enum halay_status count_messages(struct perf_engine *engine, double *messages)
{
    struct halay_counters counters = { .struct_size = sizeof counters };
    enum halay_status status = halay_counters_read(engine->context, &counters);

    *messages = (double)counters.messages_sent;
    return status;
}

/* Returns the messages of all ranks in one of several steps in succession, at most 10. Nothing else is submitted
 * between them, so a plan that has only the step is in force by then. */
static enum halay_status messages_of_step(struct perf_engine *engine, struct replay *r, long steps, double *messages)
{
    enum { BEFORE = 10, STEPS_MAX = 10 };
    double before = 0, after;
    int count = steps < STEPS_MAX ? (int)steps : STEPS_MAX;
    enum halay_status status = HALAY_OK;

    for (int i = 0; i < BEFORE + count && status == HALAY_OK; i++) {
        if (i == BEFORE)
            status = count_messages(engine, &before);
        if (status == HALAY_OK)
            status = step_by_engine(r, 0, &r->times[0][0], &r->exposed[0][0]);
    }
    if (status == HALAY_OK)
        status = count_messages(engine, &after);
    if (status != HALAY_OK)
        return status;
    *messages = (after - before) / count;
    return halay_allreduce(engine->context, "perf.messages", messages, messages, 1, HALAY_F64, HALAY_SUM);
}

/* ---- cost of a step's calls a tensor ----------------------------------------------------------------------------- */

/* Makes a step by one call a tensor. seconds: of PERF_CALL_SUBMIT and PERF_CALL_COMPLETE. */
static enum halay_status step_by_tensor(struct replay *r, double *seconds)
{
    enum halay_status status = HALAY_OK;
    size_t submitted = 0;
    double start = perf_now();

    while (submitted < r->count && status == HALAY_OK) {
        status = halay_submit(r->tensors[submitted], NULL, NULL, &r->requests[submitted]);
        submitted += status == HALAY_OK;
    }
    seconds[PERF_CALL_SUBMIT] = perf_now() - start;
    enum halay_status waited = halay_wait_all(r->requests, submitted, TIMEOUT_MS);
    start = perf_now();
    for (size_t i = 0; i < submitted; i++) {
        if (halay_test(r->requests[i]) != HALAY_OK && waited == HALAY_OK)
            waited = HALAY_ERR_SYSTEM;
        halay_request_free(r->requests[i]);
    }
    seconds[PERF_CALL_COMPLETE] = perf_now() - start;
    return status == HALAY_OK ? waited : status;
}

/* The callbacks of a step, which are called one after the other. */
struct delivery {
    size_t count, left;
    double first, last;
    enum halay_status status;
    sem_t done;
};

static void note_delivery(void *arg, enum halay_status status, const char *text)
{
    struct delivery *d = arg;

    (void)text;
    if (status != HALAY_OK)
        d->status = status;
    if (d->left == d->count)
        d->first = perf_now();
    if (--d->left)
        return;
    d->last = perf_now();
    sem_post(&d->done);
}

/* Makes a step by names, in another block than the tensors' own, each with a callback. seconds: of PERF_CALL_NAMED and
 * PERF_CALL_CALLBACK. */
static enum halay_status step_by_names(struct perf_engine *engine, const struct perf_model *model, struct replay *r,
                                       float *block, double *seconds)
{
    struct delivery d = { .count = r->count, .left = r->count, .status = HALAY_OK };
    enum halay_status status = sem_init(&d.done, 0, 0) ? HALAY_ERR_SYSTEM : HALAY_OK;
    char name[NAME_ROOM];

    seconds[PERF_CALL_NAMED] = 0;
    for (size_t i = r->count; i-- > 0 && status == HALAY_OK;) {
        float *at = block + r->starts[i];
        const struct halay_tensor_info info = describe_tensor(engine, model, i, r->elements[i], at, at, name);
        double start = perf_now();
        status = halay_submit_named(engine->context, &info, note_delivery, &d, NULL);
        seconds[PERF_CALL_NAMED] += perf_now() - start;
    }
    if (status != HALAY_OK)
        return status; /* the engine has failed, and the program ends */
    while (sem_wait(&d.done) && errno == EINTR)
        continue;
    seconds[PERF_CALL_CALLBACK] = d.last - d.first;
    sem_destroy(&d.done);
    return d.status;
}

/* Makes steps in succession, at most 50, and returns medians. The data are zero, so that sums of sums are, too. */
static enum halay_status measure_calls(struct perf_engine *engine, const struct perf_model *model, struct replay *r,
                                       float *blocks[2], long steps, double *calls)
{
    enum { BEFORE = 10, STEPS_MAX = 50 };
    double all[PERF_CALLS][STEPS_MAX], each[PERF_CALLS] = { 0 };
    int count = steps < STEPS_MAX ? (int)steps : STEPS_MAX;
    enum halay_status status = set_values(engine, r, 0);

    for (int i = 0; i < BEFORE + count && status == HALAY_OK; i++) {
        status = step_by_tensor(r, each);
        for (int row = PERF_CALL_SUBMIT; row <= PERF_CALL_COMPLETE && i >= BEFORE; row++)
            all[row][i - BEFORE] = each[row];
    }
    for (int i = 0; i < BEFORE + count && status == HALAY_OK; i++) {
        status = step_by_names(engine, model, r, blocks[i % 2], each);
        for (int row = PERF_CALL_NAMED; row <= PERF_CALL_CALLBACK && i >= BEFORE; row++)
            all[row][i - BEFORE] = each[row];
    }
    if (status != HALAY_OK)
        return status;
    for (int row = 0; row < PERF_CALLS; row++)
        calls[row] = perf_median(all[row], (size_t)count) / (double)r->count;
    return perf_engine_worst(engine, calls, PERF_CALLS);
}

/* Only for models whose tensors fit into memory twice with ease, and are accessible to the program. */
static enum halay_status calls_of_step(struct perf_engine *engine, const struct perf_model *model, struct replay *r,
                                       long steps, double *calls)
{
    enum { MOST_BYTES = 16 << 20 };
    size_t bytes = r->total * sizeof(float);
    void *block;

    if (bytes > MOST_BYTES || engine->memory == PERF_DEVICE)
        return HALAY_OK;
    enum halay_status status = perf_engine_alloc(engine, bytes, &block);
    if (status != HALAY_OK)
        return status;
    float *blocks[2] = { r->data, block };
    for (size_t i = 0; i < r->total; i++)
        blocks[1][i] = 0;
    status = measure_calls(engine, model, r, blocks, steps, calls);
    perf_engine_free(engine, block);
    return status;
}

enum halay_status perf_engine_replay(struct perf_engine *engine, const struct perf_model *model, long steps,
                                     double compute_seconds, struct perf_step *step)
{
    struct replay r;
    enum halay_status status = replay_open(engine, model, (size_t)steps, &r);

    r.compute_seconds = compute_seconds;
    if (compute_seconds > 0)
        perf_work_calibrate(&r.work);

    *step = (struct perf_step){ .tensors = r.count, .bytes = sizeof(float) * r.total };
    if (status == HALAY_OK)
        status = run_steps(engine, &r, steps);
    for (int row = 0; row < PERF_STEP_ROWS && status == HALAY_OK; row++) {
        status = perf_engine_worst(engine, r.times[row], (size_t)steps);
        step->seconds[row] = perf_median(r.times[row], (size_t)steps);
        if (status == HALAY_OK)
            status = perf_engine_worst(engine, r.exposed[row], (size_t)steps);
        step->exposed_seconds[row] = perf_median(r.exposed[row], (size_t)steps);
    }
    if (step->seconds[PERF_STEP_OVERLAPPED] > 0 && step->seconds[PERF_STEP_ENGINE] > 0)
        step->hidden = 1 - (step->seconds[PERF_STEP_OVERLAPPED] - step->seconds[PERF_STEP_COMPUTE]) /
                               step->seconds[PERF_STEP_ENGINE];
    if (status == HALAY_OK)
        status = messages_of_step(engine, &r, steps, &step->messages);
    if (status == HALAY_OK)
        status = calls_of_step(engine, model, &r, steps, step->calls);
    replay_close(engine, &r);
    return status;
}
