/* SPDX-License-Identifier: Apache-2.0
 *
 * Granules on threads, and their gradients added along the tree.
 *
 * A granule's gradient is made in a block: the step's own for the first granule, one of the spare ones for the
 * others. When a granule's gradient of a parameter is complete it *arrives* at its parent in the tree; the second to
 * arrive adds the right block to the left one, for that parameter alone, and arrives at the next parent for both. So
 * the order of sums is the tree's at any pace of the threads, no thread waits, and the thread that makes a sum has its
 * last part in its cache. The parameter is final at the root, in the first granule's block: the step's.
 *
 *   block 0   block 1   block 2   block 3
 *      +<--------|         +<--------|        right added to left; block 1 and 3 are then spare again
 *      +<------------------|
 *   final(param)
 *
 * A sum of granules [left, right) and [right, ...) is known by `right`, the first granule of its second part: the tree
 * is cut at the largest power of two below its size, so `left` is `right` without its lowest bit, and granule g begins
 * the first part of the sums g + 1, g + 2, g + 4 ..., up to its own lowest bit and the end.
 *
 * Invariant: a block is taken by one granule at a time, and given back when all its parameters have been added
 * elsewhere. At any time the granules that are done and not yet added form subtrees whose siblings are not done: at
 * most (threads + 1) * depth of them, which bounds the spare blocks.
 */
#include "tft/core/model/gradients.h"
#include "base/memory.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/queue.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tft_workers {
    struct halay_log *log; /* borrowed, as the next two */
    const struct tft_model *model;
    struct tft_pool *pool;
    size_t granules, spares_made; /* room for that many */
    size_t living;                /* parameters that get a gradient */
    real *memory;                 /* owned: the spare blocks */
    real *params;                 /* owned: the host's parameters on a device that cannot read them; else NULL */
    const real *uploaded;         /* where the host has them; NULL: none yet. Compared, never read */
    pthread_mutex_t lock;
    uint64_t version; /* of the parameters: another for each call */

    struct halay_region lists;         /* owned: the arrays that follow */
    struct tft_workspace **workspaces; /* (threads), each owned */
    /* (granules, parameters): parts of the sum known by a granule that have arrived. Arriving releases the part's block
     * to the second to arrive, who acquires and adds it. */
    atomic_uchar *arrived;
    atomic_size_t *added; /* (granules): parameters of a granule's block that were added elsewhere */
    real **blocks;        /* (granules): where a granule's gradient is; set by the thread that takes it */
    double *losses;       /* (granules): each written by the thread that took it */
    real **spare;         /* a stack, guarded by lock: spare[0 .. spares) */
    size_t spares;

    /* The current call's. */
    const struct tft_step *step; /* one of the two is NULL */
    const struct tft_forward *forward;
    size_t samples, first, count; /* granules [first, first + count) of the samples */
    tft_fill fill;
    void *fill_arg;
    atomic_size_t next; /* granule to take */
    atomic_int failure; /* status of the first error, already logged */
};

/* The largest power of two below n (n >= 2). */
static size_t left_size(size_t n)
{
    size_t power = 1;

    while (2 * power < n)
        power *= 2;
    return power;
}

enum halay_status tft_granules_of_rank(size_t n, int rank, int ranks, int exact, size_t *first, size_t *count)
{
    size_t begin = 0, length = n, size = (size_t)ranks, r = (size_t)rank;

    if (ranks < 1 || rank < 0 || rank >= ranks || (exact && (ranks & (ranks - 1))))
        return HALAY_ERR_ARGUMENT;
    if (!exact) {
        *first = n / size * r + (r < n % size ? r : n % size);
        *count = n / size + (r < n % size);
        return HALAY_OK;
    }
    for (size = size / 2; size; size /= 2) {
        size_t left = length >= 2 ? left_size(length) : length;

        if (r & size) {
            begin += left;
            length -= left;
        } else {
            length = left;
        }
    }
    *first = begin;
    *count = length;
    return HALAY_OK;
}

static double add_losses(const struct tft_workers *workers, size_t begin, size_t n)
{
    if (n == 1)
        return workers->losses[begin];
    return add_losses(workers, begin, left_size(n)) + add_losses(workers, begin + left_size(n), n - left_size(n));
}

static real *take_spare_block(struct tft_workers *workers)
{
    real *block;

    pthread_mutex_lock(&workers->lock);
    assert(workers->spares);
    block = workers->spare[--workers->spares];
    pthread_mutex_unlock(&workers->lock);
    return block;
}

static void give_block(struct tft_workers *workers, real *block)
{
    pthread_mutex_lock(&workers->lock);
    workers->spare[workers->spares++] = block;
    pthread_mutex_unlock(&workers->lock);
}

struct arrival {
    struct tft_workers *workers;
    struct queue *queue; /* of the thread that computes the granule */
    size_t granule;
};

static void add_gradient(struct queue *queue, const struct tft_param *p, const real *right, real *left)
{
    if (p->sparse.most)
        kernel_sparse_add(queue, right, p->sparse, left);
    else
        kernel_add(queue, right, p->count, left);
}

/* Takes a granule's complete gradient of a parameter, and adds what can be added. */
static void gradient_arrive(void *arg, size_t param)
{
    const struct arrival *arrival = arg;
    struct tft_workers *w = arrival->workers;
    const struct tft_param_table *table = tft_model_params(w->model);
    const struct tft_param *p = &table->params[param];

    for (size_t left = arrival->granule, size = 1;; size *= 2) {
        size_t right = left + size;

        if (left && (right >= w->count || size == (left & -left))) { /* complete, and a second part itself */
            right = left;
            left &= left - 1;
            size = right - left;
        } else if (right >= w->count) {
            break;
        }
        if (atomic_fetch_add(&w->arrived[right * table->count + param], 1) == 0)
            return;
        add_gradient(arrival->queue, p, w->blocks[right] + p->offset, w->blocks[left] + p->offset);
        if (atomic_fetch_add(&w->added[right], 1) + 1 == w->living)
            give_block(w, w->blocks[right]);
    }
    if (w->step->final)
        w->step->final(w->step->final_arg, param);
}

static void note_failure(struct tft_workers *workers, enum halay_status status)
{
    int none = HALAY_OK;

    if (status)
        atomic_compare_exchange_strong(&workers->failure, &none, (int)status);
}

/* Samples of a granule of the call. */
static size_t granule_samples(const struct tft_workers *workers, size_t granule)
{
    const size_t size = tft_model_config(workers->model)->granule, begin = granule * size;

    if (begin >= workers->samples)
        return 0;
    return workers->samples - begin < size ? workers->samples - begin : size;
}

/* Makes the model's device that of this thread. */
static void use_device(const struct tft_workers *workers)
{
    tft_model_kernels(workers->model)->use(tft_model_config(workers->model)->device.number);
}

static enum halay_status step_granule(struct tft_workers *workers, int thread, size_t g)
{
    const struct tft_step *step = workers->step;
    struct tft_workspace *workspace = workers->workspaces[thread];
    struct arrival arrival = { workers, tft_workspace_queue(workspace), g };
    const struct tft_pass pass = { .params = step->params,
                                   .version = workers->version,
                                   .seed = step->seed,
                                   .step = step->step,
                                   .loss_scale = step->loss_scale,
                                   .repeats = step->count == 1,
                                   .final = step->count > 1 || step->final ? gradient_arrive : NULL,
                                   .arg = &arrival };

    workers->blocks[g] = g ? take_spare_block(workers) : step->gradients;
    tft_model_gradient(workspace, &pass, workers->blocks[g], &workers->losses[g]);
    return tft_queue_check(workers->log, arrival.queue);
}

static enum halay_status forward_granule(struct tft_workers *workers, int thread, const struct tft_batch *batch)
{
    const struct tft_forward *forward = workers->forward;
    struct tft_workspace *workspace = workers->workspaces[thread];
    const struct tft_pass pass = { .params = workers->params ? workers->params : forward->params,
                                   .version = workers->version,
                                   .loss_scale = 1 };
    const real *predictions;
    double loss = 0;

    tft_model_predict(workspace, &pass, &predictions, forward->with_loss ? &loss : NULL);
    enum halay_status status = tft_queue_check(workers->log, tft_workspace_queue(workspace));
    return status ? status : forward->take(forward->take_arg, thread, batch, predictions, loss);
}

static enum halay_status compute_granule(struct tft_workers *workers, int thread, size_t g)
{
    struct tft_workspace *workspace = workers->workspaces[thread];
    const size_t granule = workers->first + g, size = tft_model_config(workers->model)->granule;
    struct tft_batch *batch = tft_workspace_batch(workspace, granule_samples(workers, granule), granule * size);
    enum halay_status status = workers->fill(workers->fill_arg, thread, batch);

    if (!status)
        status = tft_workspace_check(workspace);
    if (status)
        return status;
    return workers->step ? step_granule(workers, thread, g) : forward_granule(workers, thread, batch);
}

static void run_granules(void *arg, int thread)
{
    struct tft_workers *workers = arg;
    size_t g;

    use_device(workers);
    while (!atomic_load(&workers->failure) && (g = atomic_fetch_add(&workers->next, 1)) < workers->count)
        note_failure(workers, compute_granule(workers, thread, g));
}

/* Computes the granules of the call on all threads. */
static enum halay_status run_call(struct tft_workers *workers)
{
    workers->version++;
    atomic_store(&workers->next, 0);
    atomic_store(&workers->failure, HALAY_OK);
    tft_pool_run(workers->pool, run_granules, workers);
    return (enum halay_status)atomic_load(&workers->failure);
}

/* No granule: no rows, or negative zeros, which change no sum, not even the sign of a zero. */
static void step_of_none(const struct tft_workers *workers, const struct tft_step *step)
{
    const struct tft_param_table *table = tft_model_params(workers->model);
    struct queue *queue = tft_workspace_queue(workers->workspaces[0]);

    for (size_t i = table->count; i-- > 0;) {
        const struct tft_param *param = &table->params[i];

        if (param->dead)
            continue;
        if (param->sparse.most)
            kernel_sparse_put(queue, NULL, NULL, 0, param->sparse, step->gradients + param->offset, NULL);
        else
            kernel_fill(queue, -0.0, param->count, step->gradients + param->offset);
        if (step->final)
            step->final(step->final_arg, i);
    }
}

/* All spare blocks back on the stack, the first on top: after an error they may be anywhere. */
static void gather_blocks(struct tft_workers *workers)
{
    size_t reals = tft_model_params(workers->model)->reals;

    for (size_t i = 0; i < workers->spares_made; i++)
        workers->spare[i] = workers->memory + (workers->spares_made - 1 - i) * reals;
    workers->spares = workers->spares_made;
}

/* Parameters that get a gradient. */
static size_t living_of(const struct tft_param_table *table)
{
    size_t living = 0;

    for (size_t i = 0; i < table->count; i++)
        living += !table->params[i].dead;
    return living;
}

enum halay_status tft_step_run(struct tft_workers *workers, const struct tft_step *step, double *loss)
{
    const struct tft_param_table *table = tft_model_params(workers->model);

    workers->step = step;
    workers->samples = step->samples;
    workers->first = step->first;
    workers->count = step->count;
    workers->fill = step->fill;
    workers->fill_arg = step->fill_arg;
    if (step->count > workers->granules || (step->count && !granule_samples(workers, step->first + step->count - 1)))
        return halay_fail(workers->log, HALAY_ERR_ARGUMENT,
                          "granules %zu to %zu of %zu samples: at most %zu granules, each with a sample", step->first,
                          step->first + step->count, step->samples, workers->granules);
    if (step->count == 0) {
        step_of_none(workers, step);
        if (loss)
            *loss = 0;
        return HALAY_OK;
    }
    memset(workers->arrived, 0, step->count * table->count * sizeof *workers->arrived);
    for (size_t g = 0; g < step->count; g++)
        atomic_store(&workers->added[g], 0);
    gather_blocks(workers);
    enum halay_status status = run_call(workers);
    for (int i = 0; loss && i < tft_pool_threads(workers->pool); i++)
        kernel_to_host(tft_workspace_queue(workers->workspaces[i]), NULL, 0, NULL); /* waits */
    if (!status && loss)
        *loss = tft_step_loss(workers);
    return status;
}

double tft_step_loss(const struct tft_workers *workers)
{
    return workers->count ? add_losses(workers, 0, workers->count) : 0;
}

/* Brings the parameters to the device, before any thread reads them there. */
static void upload_params(struct tft_workers *workers, const real *params)
{
    struct queue *queue = tft_workers_queue(workers);

    use_device(workers);
    kernel_to_device(queue, params, tft_model_params(workers->model)->reals * sizeof *params, workers->params);
    kernel_to_host(queue, workers->params, 0, NULL); /* waits */
    workers->uploaded = params;
}

enum halay_status tft_forward_run(struct tft_workers *workers, const struct tft_forward *forward)
{
    const size_t granule = tft_model_config(workers->model)->granule;

    if (workers->params && !(forward->is_unchanged && workers->uploaded == forward->params))
        upload_params(workers, forward->params);
    workers->step = NULL;
    workers->forward = forward;
    workers->samples = forward->samples;
    workers->first = 0;
    workers->count = (forward->samples + granule - 1) / granule;
    workers->fill = forward->fill;
    workers->fill_arg = forward->fill_arg;
    return run_call(workers);
}

struct queue *tft_workers_queue(const struct tft_workers *workers)
{
    return tft_workspace_queue(workers->workspaces[0]);
}

const struct tft_workspace *tft_workers_workspace(const struct tft_workers *workers, int thread)
{
    return workers->workspaces[thread];
}

/* Spare blocks for n granules: see the top. */
static size_t spares_for(size_t n, size_t threads)
{
    size_t depth = 0, most;

    for (size_t power = 1; power < n; power *= 2)
        depth++;
    most = (threads + 1) * depth + threads;
    return most < n - 1 ? most : n - 1;
}

static enum halay_status alloc_workers(struct tft_workers *w, size_t threads)
{
    const struct kernels *kernels = tft_model_kernels(w->model);
    const size_t n = w->granules, reals = tft_model_params(w->model)->reals;
    size_t bytes;

    w->workspaces = halay_region_alloc(&w->lists, threads, sizeof *w->workspaces);
    w->arrived = halay_region_alloc(&w->lists, n, tft_model_params(w->model)->count * sizeof *w->arrived);
    w->added = halay_region_alloc(&w->lists, n, sizeof *w->added);
    w->blocks = halay_region_alloc(&w->lists, n, sizeof *w->blocks);
    w->losses = halay_region_alloc(&w->lists, n, sizeof *w->losses);
    w->spare = halay_region_alloc(&w->lists, w->spares_made, sizeof *w->spare);
    if (w->lists.failed || halay_mul_overflows(w->spares_made, reals * sizeof(real), &bytes))
        return halay_no_memory(w->log, "for the gradients of %zu granules", n);
    use_device(w);
    w->memory = kernels->alloc(bytes ? bytes : 1);
    w->params = kernels->host_memory ? NULL : kernels->alloc(reals * sizeof(real));
    if (w->memory && (kernels->host_memory || w->params))
        return HALAY_OK;
    return halay_no_memory(w->log, "for the gradients of %zu granules", n);
}

enum halay_status tft_workers_create(struct halay_log *log, const struct tft_model *model, struct tft_pool *pool,
                                     size_t granules, struct tft_workers **out)
{
    const size_t threads = (size_t)tft_pool_threads(pool), n = granules ? granules : 1;
    struct tft_workers *workers = calloc(1, sizeof *workers);
    enum halay_status status;

    if (!workers)
        return halay_no_memory(log, "for the gradients of %zu granules", n);
    *workers = (struct tft_workers){
        .log = log, .model = model, .pool = pool, .granules = n, .spares_made = spares_for(n, threads)
    };
    pthread_mutex_init(&workers->lock, NULL); /* default attributes: cannot fail here */
    workers->living = living_of(tft_model_params(model));
    status = alloc_workers(workers, threads);
    for (size_t i = 0; i < threads && !status; i++)
        status = tft_workspace_create(log, model, &workers->workspaces[i]);
    if (status)
        tft_workers_destroy(workers);
    else
        *out = workers;
    return status;
}

void tft_workers_destroy(struct tft_workers *workers)
{
    if (!workers)
        return;
    for (int i = 0; workers->workspaces && i < tft_pool_threads(workers->pool); i++)
        tft_workspace_destroy(workers->workspaces[i]);
    halay_region_fini(&workers->lists);
    tft_model_kernels(workers->model)->release(workers->memory);
    tft_model_kernels(workers->model)->release(workers->params);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

void tft_workers_seconds(const struct tft_workers *workers, double *seconds)
{
    memset(seconds, 0, TFT_PART_COUNT * sizeof *seconds);
    for (int i = 0; i < tft_pool_threads(workers->pool); i++)
        for (size_t part = 0; part < TFT_PART_COUNT; part++)
            seconds[part] += tft_workspace_seconds(workers->workspaces[i])[part];
}
