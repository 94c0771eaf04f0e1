/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine under a model's load: many small tensors, all submitted in a step, all waited for.
 */
#include "perf/engine.h"
#include "perf/stats.h"
#include <stdio.h>
#include <stdlib.h>

enum { TENSORS = 1000, ELEMENTS = 1024, WARMUP = 10, TIMEOUT_MS = 60000 };

struct model {
    float *data;                           /* owned: TENSORS blocks of ELEMENTS */
    struct halay_tensor *tensors[TENSORS]; /* owned */
    struct halay_request *requests[TENSORS];
};

static enum halay_status model_open(struct perf_engine *engine, struct model *model)
{
    void *block;
    enum halay_status status = perf_engine_alloc(engine, sizeof(float) * TENSORS * ELEMENTS, &block);

    if (status != HALAY_OK)
        return status;
    model->data = block;
    for (size_t i = 0; i < TENSORS && status == HALAY_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "perf.layer%zu", i);
        const struct halay_tensor_info info = {
            .struct_size = sizeof info,
            .name = name,
            .operation = HALAY_ALLREDUCE,
            .dtype = HALAY_F32,
            .dimensions = 1,
            .shape = { ELEMENTS },
            .out = model->data + i * ELEMENTS,
            .op = HALAY_SUM,
        };
        status = halay_register(engine->context, &info, &model->tensors[i]);
    }
    return status;
}

static void model_close(struct perf_engine *engine, struct model *model)
{
    for (size_t i = 0; i < TENSORS; i++)
        if (model->tensors[i])
            halay_unregister(model->tensors[i]);
    perf_engine_free(engine, model->data);
}

/* Wait for the first `count` requests, whatever becomes of them: their memory is the engine's until then. */
static enum halay_status wait_all(struct model *model, size_t count)
{
    enum halay_status first = HALAY_OK;

    for (size_t i = 0; i < count; i++) {
        enum halay_status status = halay_wait(model->requests[i], TIMEOUT_MS);
        halay_request_free(model->requests[i]);
        if (first == HALAY_OK)
            first = status;
    }
    return first;
}

static enum halay_status one_step(struct perf_engine *engine, struct model *model, double *seconds, double *exposed)
{
    enum halay_status status = HALAY_OK;
    double expected = (double)engine->size * (engine->size + 1) / 2, ready = 0;
    size_t submitted = 0;

    for (size_t i = 0; i < (size_t)TENSORS * ELEMENTS; i++)
        model->data[i] = (float)(engine->rank + 1);
    if ((status = perf_engine_worst(engine, &ready, 1)) != HALAY_OK) /* the barrier */
        return status;
    double start = perf_now();
    while (submitted < TENSORS && status == HALAY_OK) {
        status = halay_submit(model->tensors[submitted], NULL, NULL, &model->requests[submitted]);
        submitted += status == HALAY_OK;
    }
    double last = perf_now();
    enum halay_status waited = wait_all(model, submitted);
    double end = perf_now();
    if (status != HALAY_OK || waited != HALAY_OK)
        return status != HALAY_OK ? status : waited;
    *seconds = end - start;
    *exposed = end - last;
    for (size_t i = 0; i < (size_t)TENSORS * ELEMENTS; i++)
        engine->wrong |= (double)model->data[i] != expected;
    return HALAY_OK;
}

enum halay_status perf_engine_many_small(struct perf_engine *engine, long steps, struct perf_step *step)
{
    struct model *model = calloc(1, sizeof *model);
    double *seconds = malloc((size_t)steps * sizeof *seconds), *exposed = malloc((size_t)steps * sizeof *exposed);
    enum halay_status status = model && seconds && exposed ? HALAY_OK : HALAY_ERR_NO_MEMORY;

    if (status == HALAY_OK)
        status = model_open(engine, model);
    for (long i = -WARMUP; i < steps && status == HALAY_OK; i++) {
        perf_progress_show(engine->progress, "model: step %ld of %ld", i < 0 ? 0 : i, steps);
        status = one_step(engine, model, &seconds[i < 0 ? 0 : i], &exposed[i < 0 ? 0 : i]);
    }
    if (status == HALAY_OK)
        status = perf_engine_worst(engine, seconds, (size_t)steps);
    if (status == HALAY_OK)
        status = perf_engine_worst(engine, exposed, (size_t)steps);
    if (status == HALAY_OK)
        *step = (struct perf_step){ .seconds = perf_median(seconds, (size_t)steps),
                                    .exposed_seconds = perf_median(exposed, (size_t)steps),
                                    .bytes = sizeof(float) * TENSORS * ELEMENTS };
    if (model)
        model_close(engine, model);
    free(model);
    free(exposed);
    free(seconds);
    return status;
}
