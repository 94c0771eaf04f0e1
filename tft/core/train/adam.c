/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors are dealt to the threads one by one, the last of the table first, since their gradients come first. Clipping
 * per tensor waits for that tensor alone; clipping by the global norm is two rounds: all norms, then all updates.
 */
#include "tft/core/train/adam.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/queue.h"
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct work {
    struct tft_adam *adam;
    const struct tft_param_table *table;
    real *params;
    const real *gradients;
    const struct tft_adam_peers *peers;
    int update;  /* this round updates */
    int measure; /* this round waits and takes norms */
    double rate; /* learning rate of this step */
    atomic_size_t next;
    atomic_int failure; /* first error's status */
};

void tft_adam_defaults(struct tft_adam *adam)
{
    *adam = (struct tft_adam){
        .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7, .clip = 0.01, .clip_mode = TFT_CLIP_TENSOR
    };
}

void tft_adam_fini(struct tft_adam *adam)
{
    for (int i = 0; i < adam->queue_count && !adam->queue; i++)
        adam->kernels->close(adam->queues[i]);
    if (adam->kernels) {
        adam->kernels->release(adam->d_squares);
        adam->kernels->release((void *)(uintptr_t)adam->chunks.all);
        adam->kernels->release(adam->chunks.partial);
    }
    halay_region_fini(&adam->lists);
    adam->chunks = (struct chunks){ 0 };
    adam->queues = NULL;
    adam->squares = adam->d_squares = NULL;
    adam->queue_count = 0;
}

/* Cuts the living tensors into chunks; returns how many there are. all may be NULL. */
static size_t cut_chunks(const struct tft_param_table *table, struct chunk *all)
{
    enum { CHUNK = 16384 };
    size_t count = 0;

    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *p = &table->params[i];
        size_t chunks = p->dead || p->sparse.most ? 0 : (p->count + CHUNK - 1) / CHUNK;

        for (size_t k = 0; k < chunks; k++, count++)
            if (all)
                all[count] = (struct chunk){ .tensor = i,
                                             .at = p->offset + k * CHUNK,
                                             .n = k + 1 < chunks ? CHUNK : p->count - k * CHUNK,
                                             .chunks = k ? 0 : chunks,
                                             .decays = p->decays };
    }
    return count;
}

/* Makes the chunks for a device that updates all tensors at once. */
static enum halay_status make_chunks(struct tft_adam *adam, const struct tft_param_table *table)
{
    size_t count = cut_chunks(table, NULL);
    struct chunk *all = calloc(count + 1, sizeof *all), *d_all;

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    cut_chunks(table, all);
    adam->chunks.all = d_all = adam->kernels->alloc((count + 1) * sizeof *all);
    adam->chunks.partial = adam->kernels->alloc((count + 1) * sizeof *adam->chunks.partial);
    adam->chunks.count = count;
    for (size_t i = 0; i < count; i++)
        adam->chunks.reals += all[i].n;
    if (d_all)
        kernel_to_device(adam->queues[0], all, count * sizeof *all, d_all);
    free(all);
    return d_all && adam->chunks.partial ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* Makes at the first step what all steps use. */
static enum halay_status prepare_steps(struct tft_adam *adam, int threads, const struct tft_param_table *table)
{
    const struct queue_needs needs = { 0 };
    enum halay_status status;

    if (adam->squares)
        return HALAY_OK;
    if (adam->queue)
        adam->kernels = kernels_of(adam->queue);
    else if (!adam->kernels)
        adam->kernels = tft_kernels_cpu();
    adam->squares = halay_region_alloc(&adam->lists, table->count, sizeof *adam->squares);
    adam->queues = halay_region_alloc(&adam->lists, (size_t)threads, sizeof *adam->queues);
    adam->d_squares = adam->kernels->alloc(table->count * sizeof *adam->squares);
    if (adam->lists.failed || !adam->d_squares) {
        status = halay_no_memory(adam->log, "for the norms of %zu gradients", table->count);
        goto err_fini;
    }
    if (adam->queue)
        adam->queues[adam->queue_count++] = adam->queue;
    for (; adam->queue_count < threads; adam->queue_count++)
        if ((status = tft_queue_open(adam->log, adam->kernels, &needs, &adam->queues[adam->queue_count])))
            goto err_fini;
    if (!adam->kernels->adam_all)
        return HALAY_OK;
    assert(threads == 1);
    status = make_chunks(adam, table);
    if (!status)
        return HALAY_OK;

err_fini:
    tft_adam_fini(adam);
    return status;
}

/* Adds up `count` slots, in the first: along the tree that adds granules (tft/core/model/gradients.h). */
static void add_slots(struct queue *queue, struct sparse shape, real *slots, size_t count)
{
    size_t reals = sparse_reals(shape.most, shape.W), left = 1;

    if (count < 2)
        return;
    while (2 * left < count)
        left *= 2;
    add_slots(queue, shape, slots, left);
    add_slots(queue, shape, slots + left * reals, count - left);
    kernel_sparse_add(queue, slots + left * reals, shape, slots);
}

/* Returns the sum over the ranks of a sparse gradient; it is made when it is measured. */
static const real *sparse_gradient(const struct work *work, struct queue *queue, size_t i, int adds)
{
    const struct tft_param *param = &work->table->params[i];
    real *slots;
    size_t count = work->peers->slots ? work->peers->slots(work->peers->arg, i, &slots) : 1;

    if (count < 2)
        return work->gradients + param->offset;
    if (adds)
        add_slots(queue, param->sparse, slots, count);
    return slots;
}

/* Describes the update of tensor i. With clipping by the global norm, the squares are those of all tensors: others and
 * dead ones have 0. */
static struct adam_run run_of(const struct work *work, size_t i)
{
    const struct tft_adam *adam = work->adam;
    int global = adam->clip_mode == TFT_CLIP_GLOBAL;
    const double *squares = global ? adam->d_squares : adam->d_squares + i;

    return (struct adam_run){ .beta1 = adam->beta1,
                              .beta2 = adam->beta2,
                              .epsilon = adam->epsilon,
                              .rate = work->rate,
                              .decay = adam->learning_rate * adam->weight_decay,
                              .clip = adam->clip,
                              .squares = squares,
                              .count = global ? work->table->count : 1 };
}

static void update_param(const struct work *work, struct queue *queue, size_t i)
{
    const struct tft_adam *adam = work->adam;
    const struct tft_param *param = &work->table->params[i];
    size_t at = param->offset;
    struct adam_run run = run_of(work, i);

    run.decay *= param->decays;
    if (param->sparse.most)
        kernel_sparse_adam(queue, &run, sparse_gradient(work, queue, i, 0), param->sparse, adam->m + at, adam->v + at,
                           work->params + at);
    else
        kernel_adam(queue, &run, work->gradients + at, param->count, adam->m + at, adam->v + at, work->params + at);
}

static void measure_param(const struct work *work, struct queue *queue, size_t i)
{
    const struct tft_param *param = &work->table->params[i];
    double *squares = work->adam->d_squares + i;

    if (param->sparse.most)
        kernel_sparse_squares(queue, sparse_gradient(work, queue, i, 1), param->sparse, squares);
    else
        kernel_squares(queue, work->gradients + param->offset, param->count, squares);
}

/* Waits until the queue gets the gradient, and measures it. */
static enum halay_status take_gradient(const struct work *work, struct queue *queue, size_t i, int measures)
{
    enum halay_status status = work->peers->wait ? work->peers->wait(work->peers->arg, queue, i) : HALAY_OK;

    if (!status && measures)
        measure_param(work, queue, i);
    return status;
}

/* Everything on a device that takes all tensors at once, but sparse ones: the host waits for nothing. */
static enum halay_status run_on_device(const struct work *work)
{
    const struct tft_adam *adam = work->adam;
    const struct tft_param *params = work->table->params;
    const struct adam_run run = run_of(work, 0);
    struct queue *queue = adam->queues[0];
    enum halay_status status = HALAY_OK;

    for (size_t i = work->table->count; i-- > 0 && !status;)
        if (!params[i].dead)
            status = take_gradient(work, queue, i, params[i].sparse.most != 0);
    if (status)
        return status;
    kernel_squares_all(queue, &adam->chunks, work->gradients, adam->d_squares);
    for (size_t i = work->table->count; i-- > 0;)
        if (!params[i].dead && params[i].sparse.most)
            update_param(work, queue, i);
    kernel_adam_all(queue, &run, &adam->chunks, work->gradients, adam->m, adam->v, work->params);
    return HALAY_OK;
}

static void run_round(void *arg, int thread)
{
    struct work *work = arg;
    struct queue *queue = work->adam->queues[thread];
    size_t k;

    while (!atomic_load(&work->failure) && (k = atomic_fetch_add(&work->next, 1)) < work->table->count) {
        size_t i = work->table->count - 1 - k;

        if (work->table->params[i].dead)
            continue;
        if (work->measure) {
            enum halay_status status = take_gradient(work, queue, i, 1);
            int none = HALAY_OK;

            if (status) {
                atomic_compare_exchange_strong(&work->failure, &none, (int)status);
                return;
            }
        }
        if (work->update)
            update_param(work, queue, i);
    }
}

static double all_squares(const struct work *work)
{
    double sum = 0;

    for (size_t i = 0; i < work->table->count; i++)
        if (!work->table->params[i].dead)
            sum += work->adam->squares[i];
    return sum;
}

/* Runs a round on all threads, or all of it on a device, and brings the squares to the host. */
static enum halay_status run_on_all(struct work *work, struct tft_pool *pool)
{
    struct tft_adam *adam = work->adam;
    const size_t bytes = work->table->count * sizeof *adam->squares;
    enum halay_status status;

    atomic_store(&work->next, 0);
    kernel_to_device(adam->queues[0], adam->squares, bytes, adam->d_squares);
    if (adam->chunks.count)
        atomic_store(&work->failure, (int)run_on_device(work));
    else
        tft_pool_run(pool, run_round, work);
    kernel_to_host(adam->queues[0], adam->d_squares, bytes, adam->squares); /* waits */
    status = (enum halay_status)atomic_load(&work->failure);
    for (int i = 0; i < adam->queue_count && !status; i++)
        status = tft_queue_check(adam->log, adam->queues[i]);
    return status;
}

enum halay_status tft_adam_step(struct tft_adam *adam, struct tft_pool *pool, const struct tft_param_table *table,
                                real *params, const real *gradients, const struct tft_adam_peers *peers, double *norm)
{
    static const struct tft_adam_peers none = { 0 };
    int global = adam->clip_mode == TFT_CLIP_GLOBAL;
    enum halay_status status;
    double t = (double)(adam->step + 1);
    struct work work = { .adam = adam,
                         .table = table,
                         .params = params,
                         .gradients = gradients,
                         .peers = peers ? peers : &none,
                         .measure = 1,
                         .update = !global };

    status = prepare_steps(adam, tft_pool_threads(pool), table);
    if (status)
        return status;
    memset(adam->squares, 0, table->count * sizeof *adam->squares); /* of dead tensors */
    work.rate = adam->learning_rate * sqrt(1 - pow(adam->beta2, t)) / (1 - pow(adam->beta1, t));
    status = run_on_all(&work, pool);
    if (!status && global && !adam->chunks.count) {
        work.measure = 0;
        work.update = 1;
        status = run_on_all(&work, pool);
    }
    if (status)
        return status;
    adam->step++;
    if (norm)
        *norm = sqrt(all_squares(&work));
    return HALAY_OK;
}
