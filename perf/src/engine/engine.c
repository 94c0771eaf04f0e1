/* SPDX-License-Identifier: Apache-2.0
 *
 * What all measurements of the engine share: the context, memory of the kind asked for, and a maximum over the ranks.
 */
#include "perf/src/engine/engine.h"
#include "base/memory.h"
#include <stdlib.h>

enum halay_status perf_engine_open(struct perf_engine *engine, const char *transport, int is_shared)
{
    const struct halay_options options = { .struct_size = sizeof options, .transport = transport };
    struct halay_context *context;
    enum halay_status status = halay_init(&options, &context);

    if (status != HALAY_OK)
        return status;
    *engine = (struct perf_engine){
        .context = context, .rank = halay_rank(context), .size = halay_size(context), .is_shared = is_shared
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

enum halay_status perf_engine_alloc(struct perf_engine *engine, size_t bytes, void **out)
{
    if (engine->is_shared)
        return halay_alloc(engine->context, bytes, out);
    void *block = halay_aligned_alloc(HALAY_PAGE, bytes);
    if (!block)
        return HALAY_ERR_NO_MEMORY;
    *out = block;
    return HALAY_OK;
}

void perf_engine_free(struct perf_engine *engine, void *ptr)
{
    if (engine->is_shared)
        halay_free(engine->context, ptr);
    else
        free(ptr);
}
