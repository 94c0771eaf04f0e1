/* SPDX-License-Identifier: Apache-2.0
 *
 * A failed submission is recorded, and nothing waits for its parameter: the step's owner checks the status before the
 * optimizer runs.
 *
 * On the processor each tensor's gradient is an all-reduce of its own, submitted when it is final. On a device several
 * are one: a pass is then repeated as a few graphs, with a submission after each. Sparse gradients are gathered from
 * all ranks, and the optimizer adds them up. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/core/train/exchange.h"
#include "base/clock.h"
#include "base/memory.h"
#include "halay_elastic.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/queue.h"
#include <stdlib.h>
#include <string.h>

/* ---- registration ---- */

/* Returns nonzero if gradients are made in memory that is the device's alone. */
static int is_apart(const struct tft_exchange *x)
{
    return x->d_gradients != x->gradients;
}

/* A submission on a device follows what makes its data. */
static void place_info(const struct tft_exchange *x, struct halay_tensor_info *info)
{
    if (!is_apart(x))
        return;
    info->memory = HALAY_MEMORY_DEVICES;
    info->after_stream = kernels_of(x->queue)->stream(x->queue);
}

static enum halay_status register_bucket(struct tft_exchange *x, struct tft_exchange_bucket *bucket)
{
    const struct tft_param *p = &x->table->params[bucket->first], *end = p + bucket->count - 1;
    struct halay_tensor_info info = {
        .struct_size = sizeof info,
        .name = p->name,
        .collective = HALAY_ALLREDUCE,
        .dtype = HALAY_F32,
        .dimensions = bucket->count > 1 ? 1 : p->dimensions,
        .out = x->d_gradients + p->offset,
        .reduction = HALAY_SUM,
    };
    place_info(x, &info);

    for (int k = 0; k < p->dimensions; k++)
        info.shape[k] = p->shape[k];
    if (bucket->count > 1)
        info.shape[0] = end->offset + end->count - p->offset;
    return halay_register(x->ctx, &info, &bucket->tensor);
}

/* Divides the living parameters into buckets, last layers first. On a device some neighbours are reduced as one, with
 * the gaps and dead parameters between them, which are zero. */
static void make_buckets(struct tft_exchange *x)
{
    enum { ON_DEVICE = 4 };
    const size_t room = is_apart(x) ? x->table->reals / ON_DEVICE : 0;
    struct tft_exchange_bucket *bucket = NULL;

    for (size_t i = x->table->count; i-- > 0;) {
        const struct tft_param *p = &x->table->params[i];
        const size_t end = bucket ? x->table->params[bucket->first + bucket->count - 1].offset : 0;

        if (p->dead)
            continue;
        if (!bucket || p->sparse.most || x->table->params[bucket->first].sparse.most || end - p->offset >= room) {
            bucket = &x->buckets[x->bucket_count++];
            *bucket = (struct tft_exchange_bucket){ .first = i, .count = 1 };
        }
        bucket->count += bucket->first - i;
        bucket->first = i;
        bucket->living++;
        x->bucket_of[i] = bucket;
    }
}

/* All zero on a device: no step writes dead parameters' gradients. */
static enum halay_status alloc_block(struct tft_exchange *x)
{
    const struct kernels *kernels = x->queue ? kernels_of(x->queue) : NULL;
    const size_t bytes = x->table->reals * sizeof *x->gradients;
    void *memory;
    enum halay_status status = halay_alloc(x->ctx, bytes, &memory);

    if (status)
        return status;
    x->gradients = x->d_gradients = memory;
    for (size_t i = 0; i < x->table->count; i++) {
        const struct tft_param *p = &x->table->params[i];
        if (!p->sparse.most) /* most of a sparse one's place is never touched, and costs nothing */
            memset(x->gradients + p->offset, 0, tft_params_room(x->table, i) * sizeof *x->gradients);
    }
    if (!kernels || kernels->host_memory)
        return HALAY_OK;
    memory = kernels->alloc(bytes);
    if (!memory)
        return tft_queue_no_memory(x->log, kernels, "the gradients", bytes);
    x->d_gradients = memory;
    kernel_zero(x->queue, x->table->reals, x->d_gradients);
    return HALAY_OK;
}

static void free_slots(struct tft_exchange *x, float *slots)
{
    if (is_apart(x))
        kernels_of(x->queue)->release(slots);
    else
        free(slots);
}

static size_t slot_bytes(const struct tft_param *p)
{
    return sparse_reals(p->sparse.most, p->sparse.W) * sizeof(float);
}

/* For the rows of all ranks, of which a single one has all. */
static enum halay_status alloc_slots(struct tft_exchange *x, size_t param)
{
    const struct tft_param *p = &x->table->params[param];
    const struct kernels *kernels = is_apart(x) ? kernels_of(x->queue) : NULL;
    struct tft_exchange_rows *rows = &x->rows[param];
    const int ranks = halay_size(x->ctx);
    const size_t bytes = (size_t)ranks * slot_bytes(p);

    free_slots(x, rows->slots);
    *rows = (struct tft_exchange_rows){ .ranks = ranks };
    if (ranks == 1)
        return HALAY_OK;
    rows->slots = kernels ? kernels->alloc(bytes) : calloc(1, bytes);
    if (rows->slots)
        return HALAY_OK;
    rows->ranks = 0;
    if (kernels)
        return tft_queue_no_memory(x->log, kernels, "the rows of all ranks' sparse gradients", bytes);
    return halay_no_memory(x->log, "for the rows of '%s' from %d ranks", p->name, ranks);
}

/* A rank that stays alone on a device sends nothing. */
static int registers_params(const struct tft_exchange *x)
{
    return !is_apart(x) || halay_size(x->ctx) > 1 || halay_elastic_is_on(x->ctx);
}

enum halay_status tft_exchange_init(struct halay_log *log, struct halay_context *ctx,
                                    const struct tft_param_table *table, struct queue *queue,
                                    struct tft_exchange *exchange)
{
    struct tft_exchange *x = exchange;

    *x = (struct tft_exchange){ .log = log, .ctx = ctx, .table = table, .queue = queue };
    x->buckets = halay_region_alloc(&x->lists, table->count, sizeof *x->buckets);
    x->bucket_of = halay_region_alloc(&x->lists, table->count, sizeof *x->bucket_of);
    x->rows = halay_region_alloc(&x->lists, table->count, sizeof *x->rows);
    enum halay_status status = x->lists.failed ? halay_no_memory(x->log, "for the gradients' handles") : alloc_block(x);
    if (!status)
        make_buckets(x);
    for (size_t i = 0; i < x->bucket_count && !status && registers_params(x); i++)
        status = table->params[x->buckets[i].first].sparse.most ? alloc_slots(x, x->buckets[i].first)
                                                                : register_bucket(x, &x->buckets[i]);
    if (status)
        tft_exchange_fini(x);
    return status;
}

enum halay_status tft_exchange_download(struct tft_exchange *x)
{
    if (!is_apart(x))
        return HALAY_OK;
    kernel_to_host(x->queue, x->d_gradients, x->table->reals * sizeof *x->gradients, x->gradients);
    return tft_queue_check(x->log, x->queue);
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

    for (size_t i = 0; i < x->bucket_count; i++)
        quiet &= end_tensor(x->buckets[i].tensor, x->buckets[i].request);
    for (size_t i = 0; x->rows && quiet && i < x->table->count; i++)
        free_slots(x, x->rows[i].slots);
    halay_region_fini(&x->lists);
    if (is_apart(x) && quiet)
        kernels_of(x->queue)->release(x->d_gradients);
    if (x->ctx && quiet) /* otherwise the context ends what is in flight, and frees it, in halay_fini */
        halay_free(x->ctx, x->gradients);
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

/* Nothing of the parameter is in flight, and only its own thread is here. A single rank has all rows. */
static enum halay_status submit_rows(struct tft_exchange *x, struct tft_exchange_bucket *bucket)
{
    const struct tft_param *p = &x->table->params[bucket->first];
    struct tft_exchange_rows *rows = &x->rows[bucket->first];
    const size_t bytes = slot_bytes(p);
    const int ranks = halay_size(x->ctx);
    enum halay_status status = rows->ranks == ranks ? HALAY_OK : alloc_slots(x, bucket->first);

    if (status || ranks == 1)
        return status;
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = p->name,
                                      .collective = HALAY_ALLGATHER,
                                      .dtype = HALAY_U8,
                                      .dimensions = 1,
                                      .shape = { bytes },
                                      .in = x->d_gradients + p->offset,
                                      .out = rows->slots,
                                      .out_bytes = (size_t)ranks * bytes };
    place_info(x, &info);
    return halay_submit_named(x->ctx, &info, NULL, NULL, &bucket->request);
}

int tft_exchange_is_alone(const struct tft_exchange *x)
{
    return is_apart(x) && halay_size(x->ctx) == 1;
}

static void submit_bucket(void *arg, size_t i)
{
    struct tft_exchange *x = arg;
    struct tft_exchange_bucket *bucket = &x->buckets[i];

    note_failure(x,
                 bucket->tensor ? halay_submit(bucket->tensor, NULL, NULL, &bucket->request) : submit_rows(x, bucket));
}

void tft_exchange_submit(void *arg, size_t param)
{
    struct tft_exchange *x = arg;
    struct tft_exchange_bucket *bucket = x->bucket_of[param];

    if (tft_exchange_is_alone(x))
        return;
    if (atomic_fetch_add(&bucket->final, 1) + 1 < bucket->living)
        return;
    atomic_store(&bucket->final, 0);
    kernel_pass_call(x->queue, submit_bucket, x, (size_t)(bucket - x->buckets));
}

void tft_exchange_forget(struct tft_exchange *x)
{
    for (size_t i = 0; i < x->bucket_count; i++) {
        struct tft_exchange_bucket *bucket = &x->buckets[i];

        if (bucket->request)
            halay_wait(bucket->request, -1); /* it ends with the context's failure */
        halay_request_free(bucket->request);
        bucket->request = NULL;
        atomic_store(&bucket->final, 0);
    }
    atomic_store_explicit(&x->failed, HALAY_OK, memory_order_relaxed);
}

enum halay_status tft_exchange_status(const struct tft_exchange *exchange)
{
    return (enum halay_status)atomic_load_explicit(&exchange->failed, memory_order_relaxed);
}

static const char sum_of_gradient[] = "the sum over the ranks of gradient";

/* Wait if nothing has, and free. queue: of a device, where the request need not have ended: the queue gets the sum
 * before anything else; NULL: the processor. threads: how many are idle meanwhile. */
static enum halay_status end_request(struct tft_exchange *x, struct queue *queue, struct tft_exchange_bucket *bucket,
                                     int threads)
{
    struct halay_request **request = &bucket->request;
    int64_t began = halay_now_us();

    if (!*request)
        return HALAY_OK;
    enum halay_status status =
        queue ? halay_wait_stream(*request, -1, kernels_of(queue)->stream(queue)) : halay_wait(*request, -1);
    atomic_fetch_add_explicit(&x->waited_us, threads * (halay_now_us() - began), memory_order_relaxed);
    if (status)
        halay_error(x->log, "%s '%s' failed: %s", sum_of_gradient, x->table->params[bucket->first].name,
                    halay_request_text(*request));
    halay_request_free(*request);
    *request = NULL;
    return status;
}

static enum halay_status wait_for_gradient(void *arg, struct queue *queue, size_t param)
{
    struct tft_exchange *x = arg;

    if (x->bucket_of[param]->request)
        return end_request(x, is_apart(x) ? queue : NULL, x->bucket_of[param], 1);
    return tft_exchange_status(x);
}

static size_t take_slots(void *arg, size_t param, float **slots)
{
    const struct tft_exchange *x = arg;

    if (tft_exchange_is_alone(x)) /* nothing was gathered: the slots may be those of more ranks */
        return 1;
    *slots = x->rows[param].slots;
    return (size_t)x->rows[param].ranks;
}

struct tft_adam_peers tft_exchange_peers(struct tft_exchange *x)
{
    return (struct tft_adam_peers){ .wait = wait_for_gradient, .slots = take_slots, .arg = x };
}

enum halay_status tft_exchange_finish(struct tft_exchange *x, int threads)
{
    enum halay_status status = tft_exchange_status(x);

    for (size_t i = 0; i < x->bucket_count && !status; i++)
        status = end_request(x, NULL, &x->buckets[i], threads);
    return status;
}
