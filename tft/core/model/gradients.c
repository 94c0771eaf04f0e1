/* SPDX-License-Identifier: Apache-2.0
 *
 * Granules on threads, and their gradients added along the tree.
 *
 * Each granule's gradient is made in a block: the step's own for the first granule, one of the spare ones for the
 * others. When a granule's gradient of a parameter is complete it *arrives* at its parent in the tree; the second to
 * arrive adds the right block to the left one, for that parameter alone, and arrives at the next parent for both. So
 * the order of sums is the tree's at any pace of the threads, nobody waits, and the thread that makes a sum has its
 * last part in its cache. The parameter is final at the root, in the first granule's block: the step's.
 *
 *   block 0   block 1   block 2   block 3
 *      +<--------|         +<--------|        right added to left; block 1 and 3 are then spare again
 *      +<------------------|
 *   final(param)
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

/* A node of the tree over the rank's granules; the first `count` nodes are the leaves. */
struct node {
    size_t parent; /* SIZE_MAX at the root */
    size_t left, right;
    size_t leaf; /* its first granule, whose block holds its sum */
};

struct tft_workers {
    struct halay_log *log;             /* borrowed */
    const struct tft_model *model;     /* borrowed */
    struct tft_pool *pool;             /* borrowed */
    struct tft_workspace **workspaces; /* (threads), owned */
    size_t granules;                   /* room for so many */
    size_t living;                     /* parameters that get a gradient in the current step */
    struct node *nodes;                /* (2 granules - 1), owned */
    size_t node_count;
    /* (granules - 1, parameters), owned: children that have arrived. Arriving releases the child's block to the second
     * to arrive, who acquires and adds it. */
    atomic_uchar *arrived;
    atomic_size_t *added; /* (granules), owned: parameters of a granule's block that were added elsewhere */
    real **blocks;        /* (granules), owned: where a granule's gradient is; set by the thread that takes it */
    double *losses;       /* (granules), owned: each written by the thread that took it */
    real *memory;         /* owned: the spare blocks */
    real *params;         /* owned: where the host's parameters go to; NULL: the device uses them where they are */
    real **spare;         /* owned; a stack, guarded by lock: spare[0 .. spares) */
    size_t spares, spares_made;
    pthread_mutex_t lock;

    uint64_t version; /* of the parameters: another for each call */

    /* Of the current call. */
    const struct tft_step *step;
    const struct tft_forward *forward;
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

/* The subtree over granules [begin, begin + n); its number. */
static size_t plant(struct tft_workers *workers, size_t begin, size_t n)
{
    size_t left, right, self;

    if (n == 1)
        return begin;
    left = plant(workers, begin, left_size(n));
    right = plant(workers, begin + left_size(n), n - left_size(n));
    self = workers->node_count++;
    workers->nodes[self] = (struct node){ .left = left, .right = right, .leaf = begin };
    workers->nodes[left].parent = workers->nodes[right].parent = self;
    return self;
}

static void plant_tree(struct tft_workers *workers, size_t n)
{
    workers->node_count = n;
    for (size_t i = 0; i < n; i++)
        workers->nodes[i] = (struct node){ .leaf = i };
    workers->nodes[plant(workers, 0, n)].parent = SIZE_MAX;
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

/* A granule's gradient of a parameter is complete. */
static void arrive(void *arg, size_t param)
{
    const struct arrival *arrival = arg;
    struct tft_workers *workers = arrival->workers;
    const struct tft_param_table *table = tft_model_params(workers->model);
    const struct tft_param *p = &table->params[param];
    size_t self = arrival->granule;

    while (workers->nodes[self].parent != SIZE_MAX) {
        size_t parent = workers->nodes[self].parent, count = workers->step->count;
        const struct node *node = &workers->nodes[parent];
        size_t left = node->leaf, right = workers->nodes[node->right].leaf;

        if (atomic_fetch_add(&workers->arrived[(parent - count) * table->count + param], 1) == 0)
            return;
        add_gradient(arrival->queue, p, workers->blocks[right] + p->offset, workers->blocks[left] + p->offset);
        if (atomic_fetch_add(&workers->added[right], 1) + 1 == workers->living)
            give_block(workers, workers->blocks[right]);
        self = parent;
    }
    if (workers->step->final)
        workers->step->final(workers->step->final_arg, param);
}

static void note_failure(struct tft_workers *workers, enum halay_status status)
{
    int none = HALAY_OK;

    if (status)
        atomic_compare_exchange_strong(&workers->failure, &none, (int)status);
}

/* Samples of granule g of a batch. */
static size_t granule_samples(const struct tft_workers *workers, size_t g, size_t samples)
{
    size_t size = tft_model_config(workers->model)->granule, begin = g * size;

    if (begin >= samples)
        return 0;
    return samples - begin < size ? samples - begin : size;
}

static enum halay_status fill_granule(struct tft_workers *workers, int thread, size_t g, size_t samples, tft_fill fill,
                                      void *arg, const struct tft_batch **filled)
{
    struct tft_workspace *workspace = workers->workspaces[thread];
    size_t size = tft_model_config(workers->model)->granule;
    struct tft_batch *batch = tft_workspace_batch(workspace, granule_samples(workers, g, samples), g * size);
    enum halay_status status = fill(arg, thread, batch);

    *filled = batch;
    return status ? status : tft_workspace_check(workspace);
}

/* The device of this thread from now on. */
static void use_device(const struct tft_workers *workers)
{
    tft_model_kernels(workers->model)->use(tft_model_config(workers->model)->device.number);
}

static void step_granules(void *arg, int thread)
{
    struct tft_workers *workers = arg;
    const struct tft_step *step = workers->step;
    size_t g;

    use_device(workers);
    while (!atomic_load(&workers->failure) && (g = atomic_fetch_add(&workers->next, 1)) < step->count) {
        struct arrival arrival = { workers, tft_workspace_queue(workers->workspaces[thread]), g };
        const struct tft_pass pass = { .params = step->params,
                                       .version = workers->version,
                                       .seed = step->seed,
                                       .step = step->step,
                                       .loss_scale = step->loss_scale,
                                       .final = step->count > 1 || step->final ? arrive : NULL,
                                       .arg = &arrival };
        const struct tft_batch *batch;
        enum halay_status status =
            fill_granule(workers, thread, step->first + g, step->samples, step->fill, step->fill_arg, &batch);

        if (status) {
            note_failure(workers, status);
            return;
        }
        workers->blocks[g] = g ? take_spare_block(workers) : step->gradients;
        tft_model_gradient(workers->workspaces[thread], &pass, workers->blocks[g], &workers->losses[g]);
        note_failure(workers, tft_queue_check(workers->log, arrival.queue));
    }
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
            kernel_sparse_put(queue, NULL, NULL, 0, param->sparse, step->gradients + param->offset);
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

    if (step->count > workers->granules ||
        (step->count && !granule_samples(workers, step->first + step->count - 1, step->samples))) {
        halay_error(workers->log, "granules %zu to %zu of %zu samples: at most %zu granules, each with a sample",
                    step->first, step->first + step->count, step->samples, workers->granules);
        return HALAY_ERR_ARGUMENT;
    }
    if (step->count == 0) {
        step_of_none(workers, step);
        *loss = 0;
        return HALAY_OK;
    }
    plant_tree(workers, step->count);
    memset(workers->arrived, 0, (step->count - 1) * table->count * sizeof *workers->arrived);
    for (size_t g = 0; g < step->count; g++)
        atomic_store(&workers->added[g], 0);
    gather_blocks(workers);
    workers->step = step;
    workers->living = living_of(table);
    workers->version++;
    atomic_store(&workers->next, 0);
    atomic_store(&workers->failure, HALAY_OK);
    tft_pool_run(workers->pool, step_granules, workers);
    workers->step = NULL;
    if (atomic_load(&workers->failure))
        return (enum halay_status)atomic_load(&workers->failure);
    *loss = add_losses(workers, 0, step->count);
    return HALAY_OK;
}

static void evaluate_granules(void *arg, int thread)
{
    struct tft_workers *workers = arg;
    const struct tft_forward *forward = workers->forward;
    const real *params = workers->params ? workers->params : forward->params;
    const struct tft_pass pass = { .params = params, .version = workers->version, .loss_scale = 1 };
    struct tft_workspace *workspace = workers->workspaces[thread];
    size_t g;

    use_device(workers);
    while (!atomic_load(&workers->failure) &&
           granule_samples(workers, g = atomic_fetch_add(&workers->next, 1), forward->samples)) {
        const real *predictions;
        const struct tft_batch *batch;
        double loss = 0;
        enum halay_status status =
            fill_granule(workers, thread, g, forward->samples, forward->fill, forward->fill_arg, &batch);

        if (!status) {
            tft_model_predict(workspace, &pass, &predictions, forward->with_loss ? &loss : NULL);
            status = tft_queue_check(workers->log, tft_workspace_queue(workspace));
        }
        if (!status)
            status = forward->take(forward->take_arg, thread, batch, predictions, loss);
        if (status) {
            note_failure(workers, status);
            return;
        }
    }
}

/* Bring the parameters to the device, before any thread reads them there. */
static void upload_params(struct tft_workers *workers, const real *params)
{
    struct queue *queue = tft_workers_queue(workers);

    use_device(workers);
    kernel_to_device(queue, params, tft_model_params(workers->model)->reals * sizeof *params, workers->params);
    kernel_to_host(queue, workers->params, 0, NULL); /* waits */
}

enum halay_status tft_forward_run(struct tft_workers *workers, const struct tft_forward *forward)
{
    if (workers->params && !forward->is_known)
        upload_params(workers, forward->params);
    workers->forward = forward;
    workers->version++;
    atomic_store(&workers->next, 0);
    atomic_store(&workers->failure, HALAY_OK);
    tft_pool_run(workers->pool, evaluate_granules, workers);
    workers->forward = NULL;
    return (enum halay_status)atomic_load(&workers->failure);
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

enum halay_status tft_workers_create(struct halay_log *log, const struct tft_model *model, struct tft_pool *pool,
                                     size_t granules, struct tft_workers **out)
{
    const struct tft_param_table *table = tft_model_params(model);
    const struct kernels *kernels = tft_model_kernels(model);
    size_t threads = (size_t)tft_pool_threads(pool), n = granules ? granules : 1, bytes,
           spares = spares_for(n, threads);
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    struct tft_workers *workers = calloc(1, sizeof *workers);

    if (!workers)
        goto no_memory;
    workers->log = log;
    workers->model = model;
    workers->pool = pool;
    workers->granules = n;
    pthread_mutex_init(&workers->lock, NULL); /* default attributes: cannot fail here */
    if (halay_mul_overflows(spares, table->reals * sizeof(real), &bytes))
        goto no_memory;
    workers->workspaces = calloc(threads, sizeof *workers->workspaces);
    workers->nodes = calloc(2 * n, sizeof *workers->nodes);
    workers->arrived = calloc(n * table->count, sizeof *workers->arrived);
    workers->added = calloc(n, sizeof *workers->added);
    workers->blocks = calloc(n, sizeof *workers->blocks);
    workers->losses = calloc(n, sizeof *workers->losses);
    workers->spare = calloc(spares + 1, sizeof *workers->spare);
    use_device(workers);
    workers->memory = kernels->alloc(bytes ? bytes : 1);
    workers->params = kernels->host_memory ? NULL : kernels->alloc(table->reals * sizeof(real));
    workers->spares_made = spares;
    if (!workers->workspaces || !workers->nodes || !workers->arrived || !workers->added || !workers->blocks ||
        !workers->losses || !workers->spare || !workers->memory || (!kernels->host_memory && !workers->params))
        goto no_memory;
    for (size_t i = 0; i < threads; i++) {
        status = tft_workspace_create(log, model, &workers->workspaces[i]);
        if (status)
            goto err_destroy;
    }
    *out = workers;
    return HALAY_OK;

no_memory:
    halay_error(log, "no memory for the gradients of %zu granules", n);
err_destroy:
    tft_workers_destroy(workers);
    return status;
}

void tft_workers_destroy(struct tft_workers *workers)
{
    if (!workers)
        return;
    for (int i = 0; workers->workspaces && i < tft_pool_threads(workers->pool); i++)
        tft_workspace_destroy(workers->workspaces[i]);
    free(workers->workspaces);
    free(workers->nodes);
    free(workers->arrived);
    free(workers->added);
    free(workers->blocks);
    free(workers->losses);
    free(workers->spare);
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
