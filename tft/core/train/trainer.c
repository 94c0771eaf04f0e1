/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's beginning and end: windows, model, the exchange of gradients, and the state, which rank 0 has from
 * files (trainer_files.c) and gives to the others.
 *
 * Cleanup: zeroed first, fini accepts it half-built.
 */
#include "tft/core/train/trainer.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/resident.h"
#include "tft/core/score/forecast.h"
#include <string.h>

static int is_cpu(const struct tft_trainer *t)
{
    return t->config->device == TFT_DEVICE_CPU;
}

int tft_trainer_threads(struct halay_log *log, const struct halay_context *ctx, const struct tft_run_config *config)
{
    if (config->device != TFT_DEVICE_CPU) /* one drives the device; each further one would take as much of its memory */
        return 1;
    return config->threads ? (int)config->threads : tft_rank_threads(log, ctx);
}

enum halay_status tft_trainer_list_windows(struct tft_trainer *t)
{
    return tft_epoch_list(t->log, t->data, t->config, &t->epoch);
}

static enum halay_status set_up_windows(struct tft_trainer *t)
{
    const struct tft_run_config *c = t->config;
    enum halay_status status = tft_trainer_list_windows(t);

    if (status)
        return status;
    if (!t->epoch.train.count)
        return halay_fail(t->log, HALAY_ERR_FORMAT,
                          "the data hold no training window: a window has %zu + %zu steps before the split's end",
                          t->data->schema.min_encoder, t->data->schema.horizon);
    t->batch = (size_t)c->batch_size;
    t->state.windows = t->epoch.train.count;
    const uint64_t epoch_steps = (t->epoch.samples + t->batch - 1) / t->batch;
    t->limits = (struct tft_limits){ .schedule = (enum tft_lr_schedule)c->schedule,
                                     .steps = c->epochs ? epoch_steps * (uint64_t)c->epochs : TFT_STEPS_UNLIMITED,
                                     .seconds = c->max_time / (double)c->members * (1 - tft_trainer_refit_part(t)) };
    if (c->max_steps && (uint64_t)c->max_steps < t->limits.steps)
        t->limits.steps = (uint64_t)c->max_steps;
    if (!c->epochs && !c->max_steps && !(c->max_time > 0))
        t->limits.steps = tft_run_length_suited(t->epoch.samples, t->batch);
    return HALAY_OK;
}

/* A rank's share of a batch, within what a device takes at a time. */
static size_t granule_of_device(const struct tft_trainer *t)
{
    size_t share = (t->batch + (size_t)t->ranks - 1) / (size_t)t->ranks;

    return share < TFT_DEVICE_GRANULE ? share : TFT_DEVICE_GRANULE;
}

/* Ranks of different devices would sum up gradients of different batches, in other buckets. */
static enum halay_status check_devices(struct tft_trainer *t)
{
    int32_t ranks[] = { [TFT_DEVICE_CPU] = 0, [TFT_DEVICE_CUDA] = 0 }; /* the size less the first rank that has it */
    const size_t mine = (size_t)t->config->device, kinds = sizeof ranks / sizeof *ranks;
    enum halay_status status;

    if (t->options->elastic || t->ranks == 1) /* other ranks may be at work already */
        return HALAY_OK;
    ranks[mine] = t->ranks - t->rank;
    if ((status = halay_allreduce(t->ctx, "devices", NULL, ranks, kinds, HALAY_I32, HALAY_MAX)))
        return status;
    for (size_t i = 0; i < kinds; i++)
        if (ranks[i] && i != mine)
            return halay_fail(t->log, HALAY_ERR_CONFIG,
                              "'device' is '%s' on rank %d and '%s' on rank %d: give all ranks the same",
                              tft_device_words[mine], t->ranks - ranks[mine], tft_device_words[i], t->ranks - ranks[i]);
    return HALAY_OK;
}

static enum halay_status set_up_model(struct tft_trainer *t)
{
    struct tft_model_config model;
    enum halay_status status;

    tft_batches_describe(&t->data->schema, &t->data->encoding, t->config, &model);
    model.sparse_rows = (size_t)t->config->sparse_rows;
    model.step_samples = t->batch;
    if (!is_cpu(t) && t->config->deterministic != 2) /* all of its samples at once */
        model.granule = granule_of_device(t);
    if ((status = tft_device_open(t->log, (enum tft_device_kind)t->config->device, halay_local_rank(t->ctx),
                                  &model.device)) ||
        (status = tft_model_create(t->log, &model, &t->model)) ||
        (status = tft_pool_create(t->log, tft_trainer_threads(t->log, t->ctx, t->config), &t->pool)))
        return status;
    t->table = tft_model_params(t->model);
    const size_t granules = (t->batch + model.granule - 1) / model.granule, max = tft_forecast_granules(t->model);
    return tft_workers_create(t->log, t->model, t->pool, granules > max ? granules : max, &t->workers);
}

static void set_up_adam(struct tft_trainer *t)
{
    static const enum tft_clip modes[] = {
        [TFT_CLIP_BY_TENSOR] = TFT_CLIP_TENSOR, [TFT_CLIP_BY_GLOBAL] = TFT_CLIP_GLOBAL
    };

    tft_adam_defaults(&t->adam);
    t->adam.log = t->log;
    t->adam.kernels = tft_model_kernels(t->model);
    if (tft_blocks_are_apart(&t->blocks))
        t->adam.queue = tft_workers_queue(t->workers);
    t->adam.weight_decay = t->config->weight_decay;
    t->adam.clip = t->config->clip;
    t->adam.clip_mode = modes[t->config->clip_mode];
    t->adam.m = t->blocks.device.moments[0];
    t->adam.v = t->blocks.device.moments[1];
}

static enum halay_status set_up_exchange(struct tft_trainer *t)
{
    struct queue *queue = tft_workers_queue(t->workers);
    enum halay_status status;

    if ((status = tft_exchange_init(t->log, t->ctx, t->table, queue, &t->exchange)) ||
        (status = tft_step_sums_init(t)) ||
        (status = tft_blocks_init(t->log, queue, t->table->reals, t->config->ema > 0, &t->blocks)) ||
        (status = tft_params_init(t->table, (uint32_t)t->config->seed, t->blocks.host.params)))
        return status;
    set_up_adam(t);
    if (!tft_blocks_are_apart(&t->blocks))
        return HALAY_OK;
    return tft_resident_create(t->log, t->data, queue, tft_model_config(t->model)->granule, tft_pool_threads(t->pool),
                               &t->resident);
}

/* Gives rank 0's state to all; begun: whether it could begin. */
static enum halay_status share_state(struct tft_trainer *t, enum halay_status begun)
{
    enum halay_status status = tft_agree(t->ctx, "state begins", begun);

    if (status || t->ranks == 1)
        return status;
    status = halay_broadcast(t->ctx, "state", &t->state, sizeof t->state, HALAY_U8, 0);
    return status ? status : halay_broadcast(t->ctx, "blocks", t->blocks.host.memory, t->blocks.reals, HALAY_F32, 0);
}

static enum halay_status set_up_state(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    if (!t->options->finds_rate)
        status = tft_checkpoints_init(t->log, t->options->checkpoints, (size_t)t->config->keep, &t->files.checkpoints);
    if (!status && t->rank == 0)
        status = tft_files_begin(t);
    if (t->blocks.host.average && !t->state.step)
        memcpy(t->blocks.host.average, t->blocks.host.params, t->table->reals * sizeof *t->blocks.host.params);
    status = t->options->elastic ? tft_trainer_join(t, status) : share_state(t, status);
    tft_trainer_set_adam(t);
    return status ? status : tft_blocks_upload(&t->blocks);
}

enum halay_status tft_trainer_init(struct tft_trainer *t)
{
    enum halay_status status = tft_trainer_check_elastic(t);

    if (status)
        return status;
    if (t->config->deterministic == 2 && !t->options->elastic && (t->ranks & (t->ranks - 1)))
        return halay_fail(t->log, HALAY_ERR_CONFIG, "'deterministic: ranks' needs 1, 2, 4, 8 ... ranks, there are %d",
                          t->ranks);
    t->data->loss = (enum tft_loss)t->config->loss;
    status = tft_targets_check(t->log, t->data);
    if (!status && t->rank == 0 && tft_loss_is_unscaled(t->data->loss)) /* of others prepare has warned */
        (void)tft_targets_warn(t->log, t->data, SIZE_MAX);
    if (status || (status = check_devices(t)) || (status = set_up_windows(t)) ||
        (status = tft_blend_fit(t->log, &t->epoch.train, &t->config->quantiles, &t->made_of.blend)) ||
        (status = set_up_model(t)) || (status = set_up_exchange(t)))
        return status;
    return set_up_state(t);
}

void tft_trainer_fini(struct tft_trainer *t)
{
    tft_report_fini(t);
    tft_files_fini(&t->files);
    if (t->sums.tensor)
        halay_unregister(t->sums.tensor);
    tft_exchange_fini(&t->exchange);
    tft_blocks_fini(&t->blocks);
    tft_adam_fini(&t->adam);
    tft_workers_destroy(t->workers);
    tft_resident_destroy(t->resident);
    tft_pool_destroy(t->pool);
    tft_model_destroy(t->model);
    tft_epoch_fini(&t->epoch);
    tft_made_of_fini(&t->made_of);
}
