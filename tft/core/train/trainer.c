/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's beginning: windows, model, the exchange of gradients, the folders, and the state: fresh, from another
 * run's parameters, or from a checkpoint. Rank 0 reads and writes files and gives the others the state.
 *
 * Cleanup: zeroed first, fini accepts it half-built.
 */
#include "tft/core/train/trainer.h"
#include "base/memory.h"
#include "tft/core/data/paths.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/resident.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/score/forecast.h"
#include "tft/core/train/sampler.h"
#include "tft/core/train/transfer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_cpu(const struct tft_trainer *t)
{
    return t->config->device == TFT_DEVICE_CPU;
}

static int threads_of_rank(const struct tft_trainer *t)
{
    if (!is_cpu(t)) /* a thread that drives the device; each further one would take as much of its memory */
        return 1;
    return t->config->threads ? (int)t->config->threads : tft_exchange_threads(t->log, t->ctx);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void tft_trainer_drop_windows(struct tft_trainer *t)
{
    tft_windows_fini(&t->train);
    tft_windows_fini(&t->valid);
    free(t->order);
    free(t->valid_order);
    t->order = t->valid_order = NULL;
}

enum halay_status tft_trainer_list_windows(struct tft_trainer *t)
{
    const struct tft_run_config *c = t->config;

    tft_trainer_drop_windows(t);
    enum halay_status status = tft_windows_init(t->log, t->data, TFT_TRAIN, t->data->schema.stride, &t->train);

    if (!status)
        status = tft_windows_init(t->log, t->data, TFT_VALID, t->data->schema.stride, &t->valid);
    if (status)
        return status;
    t->epoch_samples =
        c->train_samples && (size_t)c->train_samples < t->train.count ? (size_t)c->train_samples : t->train.count;
    t->valid_samples =
        c->valid_samples && (size_t)c->valid_samples < t->valid.count ? (size_t)c->valid_samples : t->valid.count;
    if (t->valid_max && t->valid_max < t->valid_samples)
        t->valid_samples = t->valid_max;
    t->order = calloc(t->train.count + 1, sizeof *t->order);
    t->valid_order = calloc(t->valid.count + 1, sizeof *t->valid_order);
    if (!t->order || !t->valid_order) {
        halay_error(t->log, "no memory for the order of %zu windows", t->train.count);
        return HALAY_ERR_NO_MEMORY;
    }
    tft_sampler_draw((uint32_t)c->seed, TFT_SAMPLER_VALIDATION, t->valid.count, t->valid_samples, t->valid_order);
    qsort(t->valid_order, t->valid_samples, sizeof *t->valid_order, by_number); /* neighbouring windows share rows */
    return HALAY_OK;
}

static enum halay_status set_up_windows(struct tft_trainer *t)
{
    const struct tft_run_config *c = t->config;
    enum halay_status status = tft_trainer_list_windows(t);

    if (status)
        return status;
    if (!t->train.count) {
        halay_error(t->log, "the data hold no training window: a window has %zu + %zu steps before the split's end",
                    t->data->schema.min_encoder, t->data->schema.horizon);
        return HALAY_ERR_FORMAT;
    }
    t->batch = (size_t)c->batch_size;
    t->state.windows = t->train.count;
    t->epoch_steps = (t->epoch_samples + t->batch - 1) / t->batch;
    t->limits = (struct tft_limits){ .schedule = (enum tft_lr_schedule)c->schedule,
                                     .steps = c->epochs ? t->epoch_steps * (uint64_t)c->epochs : TFT_STEPS_UNLIMITED,
                                     .seconds = c->max_time / (double)c->members * (1 - tft_trainer_refit_part(t)) };
    if (c->max_steps && (uint64_t)c->max_steps < t->limits.steps)
        t->limits.steps = (uint64_t)c->max_steps;
    if (!c->epochs && !c->max_steps && !(c->max_time > 0))
        t->limits.steps = tft_run_length_suited(t->epoch_samples, t->batch);
    return HALAY_OK;
}

/* One block for parameters, moments and the moving average. */
static enum halay_status set_up_blocks(struct tft_trainer *t)
{
    size_t n = t->table->reals, count = t->config->ema > 0 ? 4 : 3, bytes;

    if (!halay_mul_overflows(n, count, &bytes) && !halay_mul_overflows(bytes, sizeof *t->blocks, &bytes))
        t->blocks = tft_kernels_cpu()->alloc(bytes + 1);
    if (!t->blocks) {
        halay_error(t->log, "no memory for %zu parameters", t->table->reals);
        return HALAY_ERR_NO_MEMORY;
    }
    memset(t->blocks, 0, bytes);
    t->params = t->blocks;
    t->moments[0] = t->params + n;
    t->moments[1] = t->moments[0] + n;
    t->average = t->config->ema > 0 ? t->moments[1] + n : NULL;
    enum halay_status status = tft_params_init(t->table, (uint32_t)t->config->seed, t->params);
    return status ? status : tft_trainer_twin_init(t);
}

static void set_up_adam(struct tft_trainer *t)
{
    static const enum tft_clip modes[] = {
        [TFT_CLIP_BY_TENSOR] = TFT_CLIP_TENSOR, [TFT_CLIP_BY_GLOBAL] = TFT_CLIP_GLOBAL
    };

    tft_adam_defaults(&t->adam);
    t->adam.log = t->log;
    t->adam.kernels = tft_model_kernels(t->model);
    t->adam.weight_decay = t->config->weight_decay;
    t->adam.clip = t->config->clip;
    t->adam.clip_mode = modes[t->config->clip_mode];
}

/* A rank's share of a batch, within what a device takes at a time. */
static size_t granule_of_device(const struct tft_trainer *t)
{
    size_t share = (t->batch + (size_t)t->ranks - 1) / (size_t)t->ranks;

    return share < TFT_DEVICE_GRANULE ? share : TFT_DEVICE_GRANULE;
}

static enum halay_status set_up_model(struct tft_trainer *t)
{
    struct tft_model_config model;
    size_t granules, most;
    enum halay_status status;

    tft_batches_describe(&t->data->schema, &t->data->encoding, t->config, &model);
    model.sparse_rows = (size_t)t->config->sparse_rows;
    model.step_samples = t->batch;
    if (!is_cpu(t) && t->config->deterministic != 2) /* all of its samples at once */
        model.granule = granule_of_device(t);
    status = tft_device_open(t->log, (enum tft_device_kind)t->config->device, halay_local_rank(t->ctx), &model.device);
    if (!status)
        status = tft_model_create(t->log, &model, &t->model);
    if (status)
        return status;
    t->table = tft_model_params(t->model);
    status = tft_pool_create(t->log, threads_of_rank(t), &t->pool);
    if (status)
        return status;
    granules = (t->batch + model.granule - 1) / model.granule;
    most = tft_forecast_granules(t->model);
    status = tft_workers_create(t->log, t->model, t->pool, granules > most ? granules : most, &t->workers);
    return status;
}

static enum halay_status set_up_exchange(struct tft_trainer *t)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "step",
                                      .collective = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F64,
                                      .dimensions = 1,
                                      .shape = { TFT_STEP_NUMBERS },
                                      .out = t->numbers,
                                      .reduction = HALAY_SUM };
    enum halay_status status = tft_exchange_init(t->log, t->ctx, t->table, tft_workers_queue(t->workers), &t->exchange);

    if (!status)
        status = halay_register(t->ctx, &info, &t->numbers_tensor);
    set_up_adam(t);
    return status ? status : set_up_blocks(t);
}

/* ---- the state to begin with; rank 0 ---- */

enum halay_status tft_trainer_describe(struct tft_trainer *t)
{
    json_decref(t->run);
    t->run = tft_run_describe(t->log, t->config, &t->data->schema, &t->data->encoding);
    if (t->run && t->blend.errors && json_object_set_new(t->run, "blend", tft_blend_json(&t->blend))) {
        json_decref(t->run);
        t->run = NULL;
    }
    return t->run ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

static enum halay_status init_from(struct tft_trainer *t)
{
    const struct tft_transfer_to to = { &t->data->schema, &t->data->encoding, tft_model_config(t->model), t->table };
    struct tft_run from;
    enum halay_status status = tft_run_load_first(t->log, t->config->init_from, &from);

    if (status)
        return status;
    status = tft_transfer(t->log, t->config->init_from, &from, &to, t->params);
    tft_run_fini(&from);
    return status;
}

/* The order of an epoch's windows is drawn again, so there must be as many as before. */
static enum halay_status check_windows(struct tft_trainer *t, const char *where)
{
    if ((t->state.windows == t->train.count || !t->state.windows) && t->state.position <= t->epoch_samples) {
        t->state.windows = t->train.count;
        return HALAY_OK;
    }
    halay_error(t->log, "%s: the run began with other data: they had %llu training windows, these have %zu", where,
                (unsigned long long)(t->state.windows ? t->state.windows : t->state.position), t->train.count);
    return HALAY_ERR_FORMAT;
}

static enum halay_status take_checkpoint(struct tft_trainer *t, const json_t *manifest)
{
    const json_t *run;
    char where[300];
    long long best = -1;
    enum halay_status status = tft_checkpoints_state(&t->checkpoints, manifest, &run, &t->state);

    snprintf(where, sizeof where, "checkpoint in '%.200s'", t->checkpoints.folder);
    if (!status)
        status = tft_run_check_resume(t->log, where, run, t->config, t->data);
    if (!status)
        status = tft_trainer_describe(t);
    if (!status)
        status = check_windows(t, where);
    if (!status)
        tft_run_length_resume(&t->limits, &t->state.length);
    if (!status)
        status = tft_run_begin(t->log, t->options->folder, t->run, 1);
    if (!status)
        status = tft_checkpoints_resume(&t->checkpoints, manifest, t->table, t->params, &best);
    /* The folder may have what an evaluation after the checkpoint was best by, and what was chosen at the end. */
    if (!status && best >= 0 && !tft_run_has_best(t->options->folder, t->run, t->table, best, (long long)t->state.step))
        status = tft_trainer_keep(t, t->params, (uint64_t)best, 0);
    if (!status)
        status = tft_checkpoints_read(&t->checkpoints, manifest, TFT_CHECKPOINT_PARAMS, t->table, t->params);
    t->saved = 1; /* whatever happens now, the checkpoints stay */
    return status;
}

static enum halay_status begin_fresh(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    if (!t->options->resume && tft_checkpoints_has_any(&t->checkpoints)) {
        halay_error(t->log, "'%s' holds checkpoints already; '--resume' goes on from them", t->checkpoints.folder);
        return HALAY_ERR_ARGUMENT;
    }
    if (t->config->init_from[0])
        status = init_from(t);
    if (!status)
        status = tft_run_begin(t->log, t->options->folder, t->run, 0);
    t->begun = !status;
    return status;
}

/* Two processes that write the same files would spoil both runs. */
enum halay_status tft_trainer_lock_folders(struct tft_trainer *t)
{
    const char *const folders[2] = { t->options->folder, t->options->checkpoints };
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < 2 && !status; i++) {
        if (i == 0 || t->config->keep || tft_checkpoints_has_any(&t->checkpoints)) {
            status = tft_make_folder(t->log, folders[i]);
            if (!status)
                status = tft_lock_folder(t->log, folders[i], "training into", &t->locks[i]);
        }
    }
    return status;
}

static enum halay_status begin_state(struct tft_trainer *t)
{
    enum halay_status status;

    if (t->options->finds_rate)
        return t->config->init_from[0] ? init_from(t) : HALAY_OK;

    status = tft_trainer_describe(t);
    if (!status)
        status = tft_trainer_lock_folders(t);
    if (!status && t->options->resume)
        status = tft_checkpoints_find(&t->checkpoints, &t->manifest);
    if (!status)
        status = t->manifest ? take_checkpoint(t, t->manifest) : begin_fresh(t);
    if (!status)
        status = tft_progress_init(t->log, t->options->metrics ? t->options->metrics : t->options->folder,
                                   &t->options->listener, tft_trainer_steps(t),
                                   &(struct tft_progress_start){ .step = t->state.step,
                                                                 .samples = t->state.samples,
                                                                 .seconds = t->state.seconds,
                                                                 .pending = t->state.pending },
                                   &t->progress);
    return status ? status : tft_trainer_begin_notes(t);
}

/* ---- the same on every rank ---- */

static enum halay_status broadcast(struct tft_trainer *t, const char *name, void *data, size_t bytes)
{
    return halay_broadcast(t->ctx, name, data, bytes, HALAY_U8, 0);
}

/* Rank 0's status; HALAY_ERR_PEER on the others if that is an error. */
static enum halay_status hear_status(struct tft_trainer *t, enum halay_status status)
{
    int failed = status != HALAY_OK;
    enum halay_status heard = halay_broadcast(t->ctx, "folder", &failed, 1, HALAY_I32, 0);

    if (status || heard)
        return status ? status : heard;
    return failed ? HALAY_ERR_PEER : HALAY_OK;
}

/* Share a block of the checkpoint. */
static enum halay_status share_block(struct tft_trainer *t, enum tft_checkpoint_block block, float *values)
{
    enum halay_status status =
        t->rank == 0 ? tft_checkpoints_read(&t->checkpoints, t->manifest, block, t->table, values) : HALAY_OK;

    status = hear_status(t, status);
    return status ? status : broadcast(t, "block", values, t->table->reals * sizeof *values);
}

static enum halay_status share_state(struct tft_trainer *t)
{
    enum halay_status status = broadcast(t, "state", &t->state, sizeof t->state);

    if (!status)
        status = broadcast(t, "parameters", t->params, t->table->reals * sizeof *t->params);
    if (status)
        return status;
    if (!t->state.step) {
        if (t->average)
            memcpy(t->average, t->params, t->table->reals * sizeof *t->average);
        return HALAY_OK;
    }
    status = share_block(t, TFT_CHECKPOINT_MOMENT1, t->moments[0]);
    if (!status)
        status = share_block(t, TFT_CHECKPOINT_MOMENT2, t->moments[1]);
    if (!status && t->average)
        status = share_block(t, TFT_CHECKPOINT_AVERAGE, t->average);
    return status;
}

/* In an elastic job rank 0 has the whole state before the others ask for it. */
static enum halay_status join_ranks(struct tft_trainer *t, enum halay_status status)
{
    float *const blocks[] = { [TFT_CHECKPOINT_MOMENT1] = t->moments[0],
                              [TFT_CHECKPOINT_MOMENT2] = t->moments[1],
                              [TFT_CHECKPOINT_AVERAGE] = t->average };

    for (int block = TFT_CHECKPOINT_MOMENT1; t->manifest && block <= TFT_CHECKPOINT_AVERAGE && !status; block++)
        if (blocks[block])
            status = tft_checkpoints_read(&t->checkpoints, t->manifest, (enum tft_checkpoint_block)block, t->table,
                                          blocks[block]);
    if (t->average && !t->state.step)
        memcpy(t->average, t->params, t->table->reals * sizeof *t->average);
    status = tft_trainer_join(t, status);
    tft_trainer_set_adam(t);
    json_decref(t->manifest);
    t->manifest = NULL;
    return status ? status : tft_trainer_send(t);
}

/* Rank 0 begins; the others learn whether it could. */
static enum halay_status set_up_state(struct tft_trainer *t)
{
    enum halay_status status = t->options->finds_rate ? HALAY_OK
                                                      : tft_checkpoints_init(t->log, t->options->checkpoints,
                                                                             (size_t)t->config->keep, &t->checkpoints);

    if (!status && t->rank == 0)
        status = begin_state(t);
    if (t->options->elastic)
        return join_ranks(t, status);
    status = hear_status(t, status);
    if (!status)
        status = share_state(t);
    tft_trainer_set_adam(t);
    json_decref(t->manifest);
    t->manifest = NULL;
    return status ? status : tft_trainer_send(t);
}

enum halay_status tft_trainer_init(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    status = tft_trainer_check_elastic(t);
    if (status)
        return status;
    if (t->config->deterministic == 2 && !t->options->elastic && (t->ranks & (t->ranks - 1))) {
        halay_error(t->log, "'deterministic: ranks' needs 1, 2, 4, 8 ... ranks, there are %d", t->ranks);
        return HALAY_ERR_CONFIG;
    }
    t->data->loss = (enum tft_loss)t->config->loss;
    status = tft_targets_check(t->log, t->data);
    if (!status && t->rank == 0 && tft_loss_is_unscaled(t->data->loss)) /* of others prepare has warned */
        (void)tft_targets_warn(t->log, t->data, SIZE_MAX);
    if (!status)
        status = set_up_windows(t);
    if (!status)
        status = tft_blend_fit(t->log, &t->train, &t->config->quantiles, &t->blend);
    if (!status)
        status = set_up_model(t);
    if (!status)
        status = set_up_exchange(t);
    if (!status)
        status = set_up_state(t);
    return status;
}

enum halay_status tft_trainer_keep(struct tft_trainer *t, const float *params, uint64_t step, int is_chosen)
{
    enum halay_status status;

    if (t->rank != 0)
        return HALAY_OK;
    status =
        tft_run_save_best(t->log, t->options->folder, t->run, (long long)step, &t->blend, t->table, params, !is_chosen);
    t->saved |= !status;
    return status;
}

void tft_trainer_fini(struct tft_trainer *t)
{
    (void)tft_trainer_end_notes(t, HALAY_ERR_CLOSED); /* only where the training failed, for a reason that was said */
    tft_progress_fini(&t->progress);
    tft_checkpoints_fini(&t->checkpoints);
    for (size_t i = 0; i < 2; i++)
        if (t->locks[i] >= 0)
            close(t->locks[i]);
    json_decref(t->manifest);
    json_decref(t->run);
    if (t->numbers_tensor)
        halay_unregister(t->numbers_tensor);
    tft_exchange_fini(&t->exchange);
    tft_trainer_twin_fini(t);
    tft_adam_fini(&t->adam);
    tft_workers_destroy(t->workers);
    tft_resident_destroy(t->resident);
    tft_pool_destroy(t->pool);
    tft_model_destroy(t->model);
    tft_trainer_drop_windows(t);
    tft_blend_fini(&t->blend);
    tft_members_fini(&t->members);
    free(t->blocks);
}
