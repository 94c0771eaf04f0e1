/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions common to all measurements of the engine: the context, memory of the kind requested, and a maximum over the
 * ranks.
 */
#include "perf/src/engine/engine.h"
#include "base/memory.h"
#include "perf/src/stats.h"
#include <stdlib.h>
#include <string.h>

enum halay_status perf_engine_open(struct perf_engine *engine, const char *transport, enum perf_memory memory)
{
    const struct halay_options options = { .struct_size = sizeof options, .transport = transport };
    struct halay_context *context;
    enum halay_status status = halay_init(&options, &context);

    if (status != HALAY_OK)
        return status;
    *engine = (struct perf_engine){
        .context = context, .rank = halay_rank(context), .size = halay_size(context), .memory = memory
    };
    return HALAY_OK;
}

void perf_engine_close(struct perf_engine *engine)
{
    halay_fini(engine->context);
    engine->context = NULL;
}

enum halay_status perf_engine_worst(struct perf_engine *engine, double *values, size_t count)
{
    return halay_allreduce(engine->context, "perf.worst", values, values, count, HALAY_F64, HALAY_MAX);
}

static enum halay_status register_block(struct perf_engine *engine, unsigned char *block, size_t bytes, void **out)
{
    unsigned char *ptr = block + HALAY_CACHE_LINE;

    memset(ptr, 0, bytes); /* memory that the program has written to */
    double start = perf_now();
    enum halay_status status = halay_memory_register(engine->context, ptr, bytes);
    engine->register_seconds += perf_now() - start;
    if (status == HALAY_OK)
        *out = ptr;
    else
        free(block);
    return status;
}

enum halay_status perf_engine_alloc(struct perf_engine *engine, size_t bytes, void **out)
{
    if (engine->memory == PERF_SHARED)
        return halay_alloc(engine->context, bytes, out);
    if (engine->memory == PERF_DEVICE)
        return halay_alloc_device(engine->context, HALAY_DEVICE_CURRENT, bytes, out);
    size_t room = engine->memory == PERF_REGISTERED ? bytes + 3 * HALAY_PAGE : bytes; /* with at least one whole page */
    void *block = halay_aligned_alloc(HALAY_PAGE, room);
    if (!block)
        return HALAY_ERR_NO_MEMORY;
    if (engine->memory == PERF_REGISTERED)
        return register_block(engine, block, bytes + 2 * HALAY_PAGE, out);
    *out = block;
    return HALAY_OK;
}

void perf_engine_free(struct perf_engine *engine, void *ptr)
{
    if (engine->memory == PERF_REGISTERED && ptr) {
        halay_memory_unregister(engine->context, ptr);
        free((unsigned char *)ptr - HALAY_CACHE_LINE);
    } else if (engine->memory == PERF_PRIVATE) {
        free(ptr);
    } else {
        halay_free(engine->context, ptr);
    }
}

enum halay_status perf_engine_near(struct perf_engine *engine, float *data, size_t count, float **near)
{
    *near = engine->memory == PERF_DEVICE ? calloc(count, sizeof **near) : data;
    return *near ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

void perf_engine_free_near(struct perf_engine *engine, float *near)
{
    if (engine->memory == PERF_DEVICE)
        free(near);
}

/* Each rank sends all rows of an all-to-all to itself: the engine copies between memories of any kind. */
static enum halay_status copy(struct perf_engine *engine, const float *from, size_t count, float *to)
{
    size_t *splits = calloc((size_t)engine->size, sizeof *splits);
    const struct halay_tensor_info info = { .struct_size = sizeof info,
                                            .name = "perf.copy",
                                            .collective = HALAY_ALLTOALL,
                                            .dtype = HALAY_F32,
                                            .dimensions = 1,
                                            .shape = { count },
                                            .in = from,
                                            .out = to,
                                            .out_bytes = count * sizeof *to,
                                            .splits = splits,
                                            .memory = HALAY_MEMORY_DEVICE };
    struct halay_request *request;

    if (!splits)
        return HALAY_ERR_NO_MEMORY;
    splits[engine->rank] = count;
    enum halay_status status = halay_submit_named(engine->context, &info, NULL, NULL, &request);
    free(splits);
    if (status != HALAY_OK)
        return status;
    status = halay_wait(request, -1);
    halay_request_free(request);
    return status;
}

enum halay_status perf_engine_put(struct perf_engine *engine, const float *near, size_t count, float *data)
{
    return near == data ? HALAY_OK : copy(engine, near, count, data);
}

enum halay_status perf_engine_get(struct perf_engine *engine, const float *data, size_t count, float *near)
{
    return near == data ? HALAY_OK : copy(engine, data, count, near);
}
