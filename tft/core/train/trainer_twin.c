/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's blocks on a device with memory of its own: what steps work on is there, and everything else (files,
 * other ranks, evaluations, reports) looks at the host's blocks, which are brought up to date when somebody is about to
 * look. On the processor both are the same memory, and nothing is copied.
 */
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/queue.h"
#include "tft/core/run/resident.h"
#include "tft/core/train/trainer.h"

/* Parameters, moments and average are in one block (trainer.c:set_up_blocks). */
static size_t block_reals(const struct tft_trainer *t)
{
    return (t->average ? 4 : 3) * t->table->reals;
}

static void point_optimizer(struct tft_trainer *t, float *moment1, float *moment2)
{
    t->adam.m = moment1;
    t->adam.v = moment2;
}

enum halay_status tft_trainer_twin_init(struct tft_trainer *t)
{
    const struct kernels *kernels = tft_model_kernels(t->model);
    size_t bytes = block_reals(t) * sizeof(float);
    struct tft_twin *twin = &t->twin;

    if (kernels->host_memory) {
        twin->params = t->params;
        twin->average = t->average;
        twin->gradients = t->exchange.gradients;
        point_optimizer(t, t->moments[0], t->moments[1]);
        return HALAY_OK;
    }
    twin->queue = tft_workers_queue(t->workers);
    twin->blocks = kernels->alloc(bytes + 1);
    if (!twin->blocks)
        return tft_queue_no_memory(t->log, kernels, "parameters and moments", bytes);
    twin->params = twin->blocks;
    twin->average = t->average ? twin->blocks + (t->average - t->blocks) : NULL;
    twin->gradients = t->exchange.there;
    point_optimizer(t, twin->blocks + (t->moments[0] - t->blocks), twin->blocks + (t->moments[1] - t->blocks));
    return tft_resident_create(t->log, t->data, twin->queue, tft_model_config(t->model)->granule,
                               tft_pool_threads(t->pool), &t->resident);
}

void tft_trainer_twin_fini(struct tft_trainer *t)
{
    if (t->twin.blocks)
        tft_model_kernels(t->model)->release(t->twin.blocks);
    t->twin = (struct tft_twin){ 0 };
}

static enum halay_status bring(struct tft_trainer *t, const float *from, size_t n, float *to)
{
    kernel_to_host(t->twin.queue, from, n * sizeof *to, to);
    return tft_queue_check(t->log, t->twin.queue);
}

enum halay_status tft_trainer_bring(struct tft_trainer *t)
{
    if (!t->twin.is_ahead)
        return HALAY_OK;
    t->twin.is_ahead = 0;
    return bring(t, t->twin.blocks, block_reals(t), t->blocks);
}

enum halay_status tft_trainer_bring_gradients(struct tft_trainer *t)
{
    return t->twin.blocks ? bring(t, t->twin.gradients, t->table->reals, t->exchange.gradients) : HALAY_OK;
}

enum halay_status tft_trainer_send(struct tft_trainer *t)
{
    if (!t->twin.blocks)
        return HALAY_OK;
    t->twin.is_ahead = 0;
    kernel_to_device(t->twin.queue, t->blocks, block_reals(t) * sizeof *t->blocks, t->twin.blocks);
    kernel_to_host(t->twin.queue, t->twin.blocks, 0, NULL); /* waits: the optimizer works on other queues */
    return tft_queue_check(t->log, t->twin.queue);
}
