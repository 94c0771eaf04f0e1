/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: registered gradients. A submission that fails is remembered and its parameter then waits for nothing: the
 * step's owner asks for the status before the optimizer runs. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/exchange.h"
#include "base/clock.h"
#include "base/topology.h"
#include <stdlib.h>
#include <string.h>

int tft_exchange_threads(struct halay_log *log, const struct halay_context *ctx)
{
    struct halay_topology topology;

    if (halay_topology_load(log, &topology))
        return 1;
    int share = halay_topology_usable(&topology) / halay_local_size(ctx);
    return share > 1 ? share : 1;
}

static enum halay_status register_param(struct tft_exchange *x, const struct tft_param *p, struct halay_tensor **tensor)
{
    struct halay_tensor_info info = {
        .struct_size = sizeof info,
        .name = p->name,
        .operation = HALAY_ALLREDUCE,
        .dtype = HALAY_F32,
        .dimensions = p->dimensions,
        .out = x->gradients + p->offset,
        .op = HALAY_SUM,
    };

    for (int k = 0; k < p->dimensions; k++)
        info.shape[k] = p->shape[k];
    return halay_register(x->ctx, &info, tensor);
}

enum halay_status tft_exchange_init(struct halay_log *log, struct halay_context *ctx,
                                    const struct tft_param_table *table, struct tft_exchange *exchange)
{
    struct tft_exchange *x = exchange;
    void *memory;
    enum halay_status status = halay_alloc(ctx, table->reals * sizeof *x->gradients, &memory);

    if (status)
        return status;
    memset(x, 0, sizeof *x);
    x->log = log;
    x->ctx = ctx;
    x->table = table;
    x->gradients = memory;
    memset(x->gradients, 0, table->reals * sizeof *x->gradients);
    x->tensors = calloc(table->count, sizeof *x->tensors);
    x->requests = calloc(table->count, sizeof *x->requests);
    if (!x->tensors || !x->requests) {
        halay_error(log, "no memory for the gradients' handles");
        status = HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = table->count; i-- > 0 && !status;)
        if (!table->params[i].dead)
            status = register_param(x, &table->params[i], &x->tensors[i]);
    if (status)
        tft_exchange_fini(x);
    return status;
}

/* End a request that nobody waited for, because a step failed. Zero: it is still in flight. */
static int end_request(struct halay_request *request)
{
    enum { PATIENCE_MS = 1000 };
    int ended = !request || halay_wait(request, PATIENCE_MS) != HALAY_ERR_TIMEOUT;

    halay_request_free(request);
    return ended;
}

void tft_exchange_fini(struct tft_exchange *x)
{
    int quiet = 1;

    for (size_t i = 0; x->table && i < x->table->count; i++) {
        int ended = !x->requests || end_request(x->requests[i]);
        if (x->tensors && x->tensors[i] && ended)
            halay_unregister(x->tensors[i]);
        quiet &= ended;
    }
    free(x->tensors);
    free(x->requests);
    if (x->ctx && quiet) /* otherwise the context ends what is in flight, and frees it, in halay_fini */
        halay_free(x->ctx, x->gradients);
    memset(x, 0, sizeof *x);
}

void tft_exchange_submit(void *arg, size_t param)
{
    struct tft_exchange *x = arg;
    enum halay_status status = halay_submit(x->tensors[param], NULL, NULL, &x->requests[param]);

    if (status) {
        int none = HALAY_OK;
        atomic_compare_exchange_strong_explicit(&x->failed, &none, (int)status, memory_order_relaxed,
                                                memory_order_relaxed);
    }
}

enum halay_status tft_exchange_wait(void *arg, size_t param)
{
    struct tft_exchange *x = arg;
    struct halay_request *request = x->requests[param];

    if (!request)
        return tft_exchange_status(x);
    int64_t began = halay_now_us();
    enum halay_status status = halay_wait(request, -1);
    atomic_fetch_add_explicit(&x->waited_us, halay_now_us() - began, memory_order_relaxed);
    if (status)
        halay_error(x->log, "the sum of gradient '%s' over the ranks failed: %s", x->table->params[param].name,
                    halay_request_text(request));
    x->requests[param] = NULL;
    halay_request_free(request);
    return status;
}

enum halay_status tft_exchange_status(const struct tft_exchange *exchange)
{
    return (enum halay_status)atomic_load_explicit(&exchange->failed, memory_order_relaxed);
}
