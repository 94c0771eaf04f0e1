/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchange: registered gradients, and weights where tensors are dealt out. A failed submission is recorded, and nothing
 * waits for its parameter: the step's owner checks the status before the optimizer runs.
 *
 * Which collective does what:
 *
 *                        gradients                            weights
 *     allreduce          each tensor: all-reduce              -
 *     zero1              each tensor: all-reduce              each bucket: all-gather of the ranks' parts, in place
 *     zero2              each bucket: reduce-scatter by the   the same
 *                        ranks' parts, in place
 *     parameter-server   each bucket: the same, all of it     each bucket: broadcast from rank 0
 *                        being rank 0's part
 *     pipeline           - (a rank has its stage's, of all    each bucket: all-gather, as zero1
 *                        granules)
 *
 * Sparse gradients, which only allreduce has, are gathered from all ranks, and the optimizer adds them up.
 *
 * A bucket's gradients go when the last of its tensors is final, its weights when the last of this rank's tensors in it
 * is updated: counters find the last, so nothing waits for it. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/train/exchange.h"
#include "base/clock.h"
#include "base/machine/topology.h"
#include "halay_elastic.h"
#include "tft/kernels/call.h"
#include "tft/kernels/queue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tft_exchange_bucket {
    struct halay_tensor *sum, *weights; /* owned; sum: NULL where tensors are summed one by one */
    /* Under way: each is written by the thread that submits and read after the pool's call; any thread may wait for the
     * sum's, which is freed at the end. */
    struct halay_request *summed, *spread;
    /* Tensors that are not yet final; of this rank's, not yet updated. Counting down releases the tensor's data to the
     * thread that reaches zero and submits; set between the pool's calls. */
    atomic_size_t not_final, not_done;
};

int tft_exchange_threads(struct halay_log *log, const struct halay_context *ctx)
{
    struct halay_topology topology;

    if (halay_topology_load(log, &topology))
        return 1;
    int share = halay_topology_usable(&topology) / halay_local_size(ctx);
    return share > 1 ? share : 1;
}

/* ---- registration ---- */

static int sums_buckets(const struct tft_exchange *x)
{
    return x->shards->strategy == TFT_ZERO2 || x->shards->strategy == TFT_PARAMETER_SERVER;
}

/* Where steps make gradients. */
static float *made_in(const struct tft_exchange *x)
{
    return x->there ? x->there : x->gradients;
}

/* A submission on a device follows what makes its data. */
static void place(const struct tft_exchange *x, struct halay_tensor_info *info)
{
    if (!x->there)
        return;
    info->memory = HALAY_MEMORY_DEVICES;
    info->after_stream = kernels_of(x->queue)->stream(x->queue);
}

static enum halay_status register_param(struct tft_exchange *x, const struct tft_param *p, struct halay_tensor **tensor)
{
    struct halay_tensor_info info = {
        .struct_size = sizeof info,
        .name = p->name,
        .collective = HALAY_ALLREDUCE,
        .dtype = HALAY_F32,
        .dimensions = p->dimensions,
        .out = made_in(x) + p->offset,
        .reduction = HALAY_SUM,
    };
    place(x, &info);

    for (int k = 0; k < p->dimensions; k++)
        info.shape[k] = p->shape[k];
    return halay_register(x->ctx, &info, tensor);
}

static struct halay_tensor_info describe_sum(const struct tft_exchange *x, const struct tft_bucket *b, const char *name)
{
    return (struct halay_tensor_info){ .struct_size = sizeof(struct halay_tensor_info),
                                       .name = name,
                                       .collective = HALAY_REDUCE_SCATTER,
                                       .dtype = HALAY_F32,
                                       .dimensions = 1,
                                       .shape = { b->reals },
                                       .in = made_in(x) + b->offset,
                                       .out = made_in(x) + b->own_offset,
                                       .reduction = HALAY_SUM,
                                       .splits = b->splits };
}

/* Each rank's part of a bucket in a block, to all. */
static struct halay_tensor_info describe_spread(const struct tft_exchange *x, const struct tft_bucket *b, float *block,
                                                const char *name)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = name,
                                      .collective = HALAY_ALLGATHER,
                                      .dtype = HALAY_F32,
                                      .dimensions = 1,
                                      .shape = { b->splits[halay_rank(x->ctx)] },
                                      .in = block + b->own_offset,
                                      .out = block + b->offset,
                                      .out_bytes = b->reals * sizeof *block };

    if (x->shards->strategy == TFT_PARAMETER_SERVER) {
        info.collective = HALAY_BROADCAST;
        info.shape[0] = b->reals;
    }
    return info;
}

static enum halay_status register_buckets(struct tft_exchange *x)
{
    enum halay_status status = HALAY_OK;
    char name[64];

    for (size_t k = 0; k < x->shards->bucket_count && !status; k++) {
        const struct tft_bucket *b = &x->shards->buckets[k];
        atomic_init(&x->buckets[k].not_final, b->end - b->first);
        if (sums_buckets(x)) {
            snprintf(name, sizeof name, "gradients %zu", k);
            struct halay_tensor_info info = describe_sum(x, b, name);
            place(x, &info);
            status = halay_register(x->ctx, &info, &x->buckets[k].sum);
        }
        if (!status) {
            snprintf(name, sizeof name, "weights %zu", k);
            struct halay_tensor_info info = describe_spread(x, b, x->there ? x->params_there : x->params, name);
            place(x, &info);
            status = halay_register(x->ctx, &info, &x->buckets[k].weights);
        }
    }
    return status;
}

static enum halay_status register_squares(struct tft_exchange *x)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "squares",
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F64,
                                      .dimensions = 1,
                                      .shape = { x->table->count },
                                      .out = x->squares,
                                      .reduction = HALAY_SUM,
                                      .priority = 1 };

    return halay_register(x->ctx, &info, &x->squares_tensor);
}

static enum halay_status alloc_block(struct tft_exchange *x, float **block)
{
    void *memory;
    enum halay_status status = halay_alloc(x->ctx, x->table->reals * sizeof **block, &memory);

    if (status)
        return status;
    *block = memory;
    for (size_t i = 0; i < x->table->count; i++) {
        const struct tft_param *p = &x->table->params[i];
        if (!p->sparse.most) /* most of a sparse one's place is never touched, and costs nothing */
            memset(*block + p->offset, 0, tft_params_room(x->table, i) * sizeof **block);
    }
    return HALAY_OK;
}

static enum halay_status alloc_lists(struct tft_exchange *x)
{
    size_t n = x->table->count;

    x->tensors = calloc(n, sizeof *x->tensors);
    x->requests = calloc(n, sizeof *x->requests);
    x->rows = calloc(n, sizeof *x->rows);
    x->squares = calloc(n, sizeof *x->squares);
    x->buckets = calloc(x->shards->bucket_count + 1, sizeof *x->buckets);
    if (x->tensors && x->requests && x->rows && x->squares && x->buckets)
        return HALAY_OK;
    halay_error(x->log, "no memory for the gradients' handles");
    return HALAY_ERR_NO_MEMORY;
}

/* A block on a device with memory of its own. All zero: no step writes dead parameters' gradients. */
static enum halay_status alloc_there(struct tft_exchange *x, const char *what, float **block)
{
    size_t reals = x->table->reals;

    if (!x->queue || kernels_of(x->queue)->host_memory)
        return HALAY_OK;
    *block = kernels_of(x->queue)->alloc(reals * sizeof **block);
    if (!*block)
        return tft_queue_no_memory(x->log, kernels_of(x->queue), what, reals * sizeof **block);
    kernel_zero(x->queue, reals, *block);
    return HALAY_OK;
}

/* A rank that stays alone on a device sends nothing. */
static int registers_params(const struct tft_exchange *x)
{
    return !sums_buckets(x) && x->shards->strategy != TFT_PIPELINE &&
           (!x->there || halay_size(x->ctx) > 1 || halay_elastic_is_on(x->ctx));
}

enum halay_status tft_exchange_init(struct halay_log *log, struct halay_context *ctx,
                                    const struct tft_param_table *table, const struct tft_shards *shards,
                                    struct queue *queue, struct tft_exchange *exchange)
{
    struct tft_exchange *x = exchange;

    memset(x, 0, sizeof *x);
    x->log = log;
    x->ctx = ctx;
    x->table = table;
    x->shards = shards;
    x->queue = queue;
    enum halay_status status = alloc_lists(x);
    if (!status)
        status = alloc_block(x, &x->gradients);
    if (!status)
        status = alloc_there(x, "the gradients", &x->there);
    if (!status && shards->bucket_count)
        status = alloc_block(x, &x->params);
    if (!status && shards->bucket_count)
        status = alloc_there(x, "the parameters", &x->params_there);
    for (size_t i = table->count; i-- > 0 && !status && registers_params(x);)
        if (!table->params[i].dead && !table->params[i].sparse.most)
            status = register_param(x, &table->params[i], &x->tensors[i]);
    if (!status && shards->bucket_count)
        status = register_squares(x);
    if (!status)
        status = register_buckets(x);
    if (status)
        tft_exchange_fini(x);
    return status;
}

static void free_slots(struct tft_exchange *x, float *slots)
{
    if (x->there)
        kernels_of(x->queue)->release(slots);
    else
        free(slots);
}

/* End a request that a failed step did not wait for, and forget its tensor. Returns 0 if it is still in flight. */
static int end_tensor(struct halay_tensor *tensor, struct halay_request *request)
{
    enum { PATIENCE_MS = 1000 };
    int ended = !request || halay_wait(request, PATIENCE_MS) != HALAY_ERR_TIMEOUT;

    halay_request_free(request);
    if (tensor && ended)
        halay_unregister(tensor);
    return ended;
}

void tft_exchange_fini(struct tft_exchange *x)
{
    int quiet = 1;

    for (size_t i = 0; x->tensors && x->requests && i < x->table->count; i++)
        quiet &= end_tensor(x->tensors[i], x->requests[i]);
    for (size_t k = 0; x->buckets && k < x->shards->bucket_count; k++) {
        quiet &= end_tensor(x->buckets[k].sum, x->buckets[k].summed);
        quiet &= end_tensor(x->buckets[k].weights, x->buckets[k].spread);
    }
    if (x->squares_tensor)
        halay_unregister(x->squares_tensor);
    for (size_t i = 0; x->rows && quiet && i < x->table->count; i++)
        free_slots(x, x->rows[i].slots);
    free(x->rows);
    free(x->tensors);
    free(x->requests);
    free(x->squares);
    free(x->buckets);
    if (x->there && quiet) {
        kernels_of(x->queue)->release(x->there);
        kernels_of(x->queue)->release(x->params_there);
    }
    if (x->ctx && quiet) { /* otherwise the context ends what is in flight, and frees it, in halay_fini */
        halay_free(x->ctx, x->gradients);
        halay_free(x->ctx, x->params);
    }
    memset(x, 0, sizeof *x);
}

/* ---- a step ---- */

static void note_failure(struct tft_exchange *x, enum halay_status status)
{
    int none = HALAY_OK;

    if (status)
        atomic_compare_exchange_strong_explicit(&x->failed, &none, (int)status, memory_order_relaxed,
                                                memory_order_relaxed);
}

static void submit(struct tft_exchange *x, struct halay_tensor *tensor, struct halay_request **request)
{
    note_failure(x, halay_submit(tensor, NULL, NULL, request));
}

/* Nothing of the parameter is in flight, and only its own thread is here. A single rank has all rows. */
static enum halay_status submit_rows(struct tft_exchange *x, size_t param)
{
    const struct tft_param *p = &x->table->params[param];
    struct tft_exchange_rows *rows = &x->rows[param];
    size_t bytes = sparse_reals(p->sparse.most, p->sparse.W) * sizeof *rows->slots;
    int ranks = halay_size(x->ctx);

    if (rows->ranks != ranks) {
        free_slots(x, rows->slots);
        rows->slots = ranks == 1 ? NULL
                      : x->there ? kernels_of(x->queue)->alloc((size_t)ranks * bytes)
                                 : calloc((size_t)ranks, bytes);
        rows->ranks = ranks;
    }
    if (ranks == 1)
        return HALAY_OK;
    if (!rows->slots) {
        rows->ranks = 0;
        halay_error(x->log, "no memory for the rows of '%s' from %d ranks", p->name, ranks);
        return HALAY_ERR_NO_MEMORY;
    }
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = p->name,
                                      .collective = HALAY_ALLGATHER,
                                      .dtype = HALAY_U8,
                                      .dimensions = 1,
                                      .shape = { bytes },
                                      .in = made_in(x) + p->offset,
                                      .out = rows->slots,
                                      .out_bytes = (size_t)ranks * bytes };
    place(x, &info);
    return halay_submit_named(x->ctx, &info, NULL, NULL, &x->requests[param]);
}

int tft_exchange_is_alone(const struct tft_exchange *x)
{
    return x->there && halay_size(x->ctx) == 1;
}

void tft_exchange_submit(void *arg, size_t param)
{
    struct tft_exchange *x = arg;

    if (tft_exchange_is_alone(x) || x->shards->strategy == TFT_PIPELINE)
        return;
    if (x->table->params[param].sparse.most) {
        note_failure(x, submit_rows(x, param));
        return;
    }
    if (!sums_buckets(x)) {
        submit(x, x->tensors[param], &x->requests[param]);
        return;
    }
    struct tft_exchange_bucket *b = &x->buckets[x->shards->bucket_of[param]];
    if (atomic_fetch_sub(&b->not_final, 1) == 1)
        submit(x, b->sum, &b->summed);
}

void tft_exchange_forget(struct tft_exchange *x)
{
    for (size_t i = 0; i < x->table->count; i++) {
        if (x->requests[i])
            halay_wait(x->requests[i], -1); /* it ends with the context's failure */
        halay_request_free(x->requests[i]);
        x->requests[i] = NULL;
    }
    atomic_store_explicit(&x->failed, HALAY_OK, memory_order_relaxed);
}

enum halay_status tft_exchange_status(const struct tft_exchange *exchange)
{
    return (enum halay_status)atomic_load_explicit(&exchange->failed, memory_order_relaxed);
}

/* what: the wait's subject, for messages. The request stays the caller's. threads: how many are idle meanwhile. */
static enum halay_status wait_for(struct tft_exchange *x, struct halay_request *request, int threads, const char *what,
                                  const char *name)
{
    int64_t began = halay_now_us();
    enum halay_status status = halay_wait(request, -1);

    atomic_fetch_add_explicit(&x->waited_us, threads * (halay_now_us() - began), memory_order_relaxed);
    if (status)
        halay_error(x->log, "%s '%s' failed: %s", what, name, halay_request_text(request));
    return status;
}

/* Wait if nobody has, and free. */
static enum halay_status end_request(struct tft_exchange *x, struct halay_request **request, int threads,
                                     const char *what, const char *name)
{
    if (!*request)
        return HALAY_OK;
    enum halay_status status = wait_for(x, *request, threads, what, name);
    halay_request_free(*request);
    *request = NULL;
    return status;
}

static const char sum_of_gradient[] = "the sum over the ranks of gradient";

/* The request need not have ended: the queue gets the sum before anything else. */
static enum halay_status follow(struct tft_exchange *x, struct queue *queue, struct halay_request *request,
                                size_t param)
{
    int64_t began = halay_now_us();
    enum halay_status status = halay_wait_stream(request, -1, kernels_of(queue)->stream(queue));

    atomic_fetch_add_explicit(&x->waited_us, halay_now_us() - began, memory_order_relaxed);
    if (status)
        halay_error(x->log, "%s '%s' failed: %s", sum_of_gradient, x->table->params[param].name,
                    halay_request_text(request));
    return status;
}

static enum halay_status wait_for_gradient(void *arg, struct queue *queue, size_t param)
{
    struct tft_exchange *x = arg;
    const char *name = x->table->params[param].name;
    struct halay_request *request = sums_buckets(x) ? x->buckets[x->shards->bucket_of[param]].summed : NULL;

    if (x->there && request)
        return follow(x, queue, request, param);
    if (x->there && x->requests[param]) {
        enum halay_status status = follow(x, queue, x->requests[param], param);
        halay_request_free(x->requests[param]);
        x->requests[param] = NULL;
        return status;
    }
    if (!sums_buckets(x) && x->requests[param])
        return end_request(x, &x->requests[param], 1, sum_of_gradient, name);
    return request ? wait_for(x, request, 1, sum_of_gradient, name) : tft_exchange_status(x);
}

static size_t take_slots(void *arg, size_t param, float **slots)
{
    const struct tft_exchange *x = arg;

    *slots = x->rows[param].slots;
    return (size_t)x->rows[param].ranks;
}

static void submit_done(void *arg, size_t param)
{
    struct tft_exchange *x = arg;
    struct tft_exchange_bucket *b = &x->buckets[x->shards->bucket_of[param]];

    if (atomic_fetch_sub(&b->not_done, 1) == 1)
        submit(x, b->weights, &b->spread);
}

static enum halay_status sum_squares(void *arg, double *squares, size_t count)
{
    struct tft_exchange *x = arg;
    struct halay_request *request;

    memcpy(x->squares, squares, count * sizeof *squares);
    enum halay_status status = halay_submit(x->squares_tensor, NULL, NULL, &request);
    if (status)
        return status;
    status = halay_wait(request, -1);
    halay_request_free(request);
    if (!status)
        memcpy(squares, x->squares, count * sizeof *squares);
    return status;
}

struct tft_adam_peers tft_exchange_peers(struct tft_exchange *x)
{
    struct tft_adam_peers peers = { .wait = wait_for_gradient, .slots = take_slots, .arg = x };

    if (x->shards->bucket_count) {
        peers.done = submit_done;
        peers.sum = sum_squares;
    }
    return peers;
}

enum halay_status tft_exchange_begin(struct tft_exchange *x)
{
    for (size_t k = 0; k < x->shards->bucket_count; k++) {
        struct tft_exchange_bucket *b = &x->buckets[k];
        atomic_store(&b->not_done, x->shards->buckets[k].own);
        if (!x->shards->buckets[k].own)
            submit(x, b->weights, &b->spread);
    }
    return tft_exchange_status(x);
}

enum halay_status tft_exchange_finish(struct tft_exchange *x, int threads)
{
    enum halay_status status = tft_exchange_status(x);

    for (size_t i = x->table->count; i-- > 0 && !status;)
        status = end_request(x, &x->requests[i], threads, sum_of_gradient, x->table->params[i].name);
    for (size_t k = 0; k < x->shards->bucket_count && !status; k++) {
        const struct tft_bucket *bucket = &x->shards->buckets[k];
        struct tft_exchange_bucket *b = &x->buckets[k];
        const char *name = x->table->params[bucket->first].name;
        status = end_request(x, &b->summed, threads, sum_of_gradient, name);
        if (!status)
            status = end_request(x, &b->spread, threads, "sending new weights from", name);
        atomic_store(&b->not_final, bucket->end - bucket->first);
    }
    return status;
}

enum halay_status tft_exchange_spread(struct tft_exchange *x, const float *own)
{
    enum halay_status status = HALAY_OK;
    size_t submitted = 0;
    char name[64];

    tft_shards_give(x->shards, x->table, own, x->gradients);
    for (; submitted < x->shards->bucket_count && !status; submitted += !status) {
        snprintf(name, sizeof name, "averages %zu", submitted);
        struct halay_tensor_info info = describe_spread(x, &x->shards->buckets[submitted], x->gradients, name);
        status = halay_submit_named(x->ctx, &info, NULL, NULL, &x->buckets[submitted].spread);
    }
    for (size_t k = 0; k < submitted; k++) {
        const struct tft_bucket *bucket = &x->shards->buckets[k];
        enum halay_status ended =
            end_request(x, &x->buckets[k].spread, 0, "sending averages from", x->table->params[bucket->first].name);
        status = status ? status : ended;
    }
    return status;
}
