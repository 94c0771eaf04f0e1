/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: the loop.
 *
 * One step: the batch's windows follow from (seed, epoch, step), the same on every rank; loss is divided by the number
 * of measured targets in the whole batch, which every rank counts from the windows' numbers; the rank's granules are
 * computed and submitted as they become final; the loss and rank 0's wish to stop are summed in one small tensor; the
 * optimizer waits for each gradient and updates. Whatever decides about going on (loss, validation, time) is the same
 * number on every rank, so that no rank is left waiting.
 *
 * The best parameters are the file's: rank 0 writes it at each validation loss below all before. A training that fails
 * before it wrote one takes its other files away. Cleanup: the trainer is zeroed first, fini accepts it half-built.
 */
#include "tft/train.h"
#include "base/clock.h"
#include "base/memory.h"
#include "tft/adam.h"
#include "tft/checkpoint.h"
#include "tft/evaluate.h"
#include "tft/exchange.h"
#include "tft/progress.h"
#include "tft/sampler.h"
#include "tft/schedule.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOSS, STOP, STEP_NUMBERS };

struct trainer {
    struct halay_log *log; /* borrowed, as the next four */
    struct halay_context *ctx;
    const struct tft_run_config *config;
    const struct tft_data *data;
    const char *folder;
    int rank, ranks;
    uint32_t crc; /* of run.json; rank 0 */

    struct tft_model *model;
    const struct tft_param_table *table; /* the model's */
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_exchange exchange;
    struct tft_adam adam;
    float *blocks, *params; /* blocks is owned: parameters, both moments */

    struct tft_windows train, valid;
    uint64_t *order, *valid_order; /* owned: windows of this epoch; of each validation, in order */
    size_t epoch_samples, valid_samples, batch;
    uint64_t epoch_steps, total_steps;
    double numbers[STEP_NUMBERS]; /* summed over the ranks with each step */
    struct halay_tensor *numbers_tensor;

    struct tft_progress progress;
    uint64_t step, samples;        /* done */
    double lowest, mark;           /* validation losses: the lowest, and the last that counted as an improvement */
    int judged, in_vain, halvings; /* in_vain: evaluations without improvement */
    int begun, saved;              /* rank 0: the folder has this run's description, its parameters */
    double loss_sum;               /* since the last evaluation, of so many steps */
    uint64_t loss_steps, said_samples;
    int64_t said_us;
    long long said_waited_us;
    int stop;
};

/* ---- set up ---- */

static int threads_of_rank(const struct trainer *t)
{
    return t->config->threads ? (int)t->config->threads : tft_exchange_threads(t->log, t->ctx);
}

static enum halay_status set_up_windows(struct trainer *t)
{
    const struct tft_run_config *c = t->config;
    enum halay_status status = tft_windows_init(t->log, t->data, TFT_TRAIN, t->data->schema.stride, &t->train);

    if (!status)
        status = tft_windows_init(t->log, t->data, TFT_VALID, t->data->schema.stride, &t->valid);
    if (status)
        return status;
    if (!t->train.count) {
        halay_error(t->log, "the data hold no training window: a window has %zu + %zu steps before the split's end",
                    t->data->schema.encoder, t->data->schema.horizon);
        return HALAY_ERR_FORMAT;
    }
    t->epoch_samples =
        c->train_samples && (size_t)c->train_samples < t->train.count ? (size_t)c->train_samples : t->train.count;
    t->valid_samples =
        c->valid_samples && (size_t)c->valid_samples < t->valid.count ? (size_t)c->valid_samples : t->valid.count;
    t->batch = (size_t)(c->batch_size * c->accumulate);
    t->epoch_steps = (t->epoch_samples + t->batch - 1) / t->batch;
    t->total_steps = t->epoch_steps * (uint64_t)c->epochs;
    if (c->max_steps && (uint64_t)c->max_steps < t->total_steps)
        t->total_steps = (uint64_t)c->max_steps;
    t->order = calloc(t->train.count, sizeof *t->order);
    t->valid_order = calloc(t->valid.count + 1, sizeof *t->valid_order);
    if (!t->order || !t->valid_order) {
        halay_error(t->log, "no memory for the order of %zu windows", t->train.count);
        return HALAY_ERR_NO_MEMORY;
    }
    tft_sampler_draw((uint32_t)c->seed, TFT_SAMPLER_VALIDATION, t->valid.count, t->valid_samples, t->valid_order);
    return HALAY_OK;
}

/* One block for parameters and moments. */
static enum halay_status set_up_blocks(struct trainer *t)
{
    size_t n = t->table->reals, bytes;

    if (!halay_mul_overflows(n, 3 * sizeof *t->blocks, &bytes))
        t->blocks = halay_aligned_alloc(HALAY_CACHE_LINE, bytes);
    if (!t->blocks) {
        halay_error(t->log, "no memory for %zu parameters", n);
        return HALAY_ERR_NO_MEMORY;
    }
    memset(t->blocks, 0, bytes);
    t->params = t->blocks;
    t->adam.m = t->blocks + n;
    t->adam.v = t->blocks + 2 * n;
    return tft_params_init(t->table, (uint32_t)t->config->seed, t->params);
}

static void set_up_adam(struct trainer *t)
{
    static const enum tft_clip modes[] = { [TFT_CLIP_BY_TENSOR] = TFT_CLIP_TENSOR,
                                           [TFT_CLIP_BY_GLOBAL] = TFT_CLIP_GLOBAL,
                                           [TFT_CLIP_BY_NONE] = TFT_CLIP_NONE };

    tft_adam_defaults(&t->adam);
    t->adam.weight_decay = t->config->weight_decay;
    t->adam.clip = t->config->clip;
    t->adam.clip_mode = modes[t->config->clip_mode];
}

static enum halay_status set_up_model(struct trainer *t)
{
    struct tft_model_config model;
    size_t granules, most;
    enum halay_status status;

    tft_batches_describe(&t->data->schema, &t->data->encoding, t->config, &model);
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
    set_up_adam(t);
    return status ? status : set_up_blocks(t);
}

static enum halay_status set_up_exchange(struct trainer *t)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "step",
                                      .operation = HALAY_ALLREDUCE,
                                      .dtype = HALAY_F64,
                                      .dimensions = 1,
                                      .shape = { STEP_NUMBERS },
                                      .out = t->numbers,
                                      .op = HALAY_SUM };
    enum halay_status status = tft_exchange_init(t->log, t->ctx, t->table, &t->exchange);

    if (!status)
        status = halay_register(t->ctx, &info, &t->numbers_tensor);
    /* All ranks drew the same numbers; the broadcast makes sure that they also computed the same bits with them. */
    if (!status && t->ranks > 1)
        status = halay_broadcast(t->ctx, "parameters", t->params, t->table->reals, HALAY_F32, 0);
    return status;
}

/* Rank 0 owns the folder; the others hear whether it could begin. */
static enum halay_status set_up_folder(struct trainer *t)
{
    enum halay_status status = HALAY_OK, shared;
    int failed;

    if (t->rank == 0) {
        status = tft_checkpoint_begin(t->log, t->folder, t->config, t->data, &t->crc);
        t->begun = !status;
        if (!status)
            status = tft_progress_init(t->log, t->folder, t->total_steps, &t->progress);
    }
    if (t->ranks == 1)
        return status;
    failed = status != HALAY_OK;
    shared = halay_broadcast(t->ctx, "folder", &failed, 1, HALAY_I32, 0);
    if (shared)
        return shared;
    return failed && !status ? HALAY_ERR_PEER : status;
}

/* ---- one step ---- */

static enum halay_status local_step(struct trainer *t, const struct tft_gather *gather, size_t samples)
{
    size_t granule = (size_t)t->config->granule, granules = (samples + granule - 1) / granule;
    size_t targets = tft_gather_targets(gather, 0, samples);
    struct tft_step step = {
        .params = t->params,
        .gradients = t->exchange.gradients,
        .seed = (uint32_t)t->config->seed,
        .step = (uint32_t)t->step,
        .samples = samples,
        .loss_scale = targets ? 1.0 / (double)targets : 0,
        .fill = tft_gather_fill,
        .fill_arg = (void *)gather,
        .final = tft_exchange_submit,
        .final_arg = &t->exchange,
    };
    int exact = t->config->deterministic == 2;
    enum halay_status status = tft_granules_of_rank(granules, t->rank, t->ranks, exact, &step.first, &step.count);

    if (!status)
        status = tft_step_run(t->workers, &step, &t->numbers[LOSS]);
    return status ? status : tft_exchange_status(&t->exchange);
}

static enum halay_status update(struct trainer *t)
{
    double highest =
        tft_schedule_scale((enum tft_lr_scaling)t->config->scale_learning_rate, t->config->learning_rate, t->ranks);

    t->adam.learning_rate =
        tft_schedule_rate((enum tft_schedule)t->config->schedule, highest, t->step, t->total_steps, t->halvings);
    return tft_adam_step(&t->adam, t->pool, t->table, t->params, t->exchange.gradients, tft_exchange_wait, &t->exchange,
                         NULL);
}

/* A step on positions [first, first + samples) of the epoch. */
static enum halay_status train_step(struct trainer *t, uint64_t epoch, size_t first, size_t samples)
{
    const struct tft_gather gather = { .windows = &t->train, .numbers = t->order, .base = first };
    struct halay_request *request;
    enum halay_status status = local_step(t, &gather, samples);

    if (status)
        return status;
    t->numbers[STOP] =
        t->rank == 0 && t->config->max_time > 0 && tft_progress_seconds(&t->progress) >= t->config->max_time;
    status = halay_submit(t->numbers_tensor, NULL, NULL, &request);
    if (status)
        return status;
    status = update(t);
    enum halay_status summed = halay_wait(request, -1);
    halay_request_free(request);
    if (status || summed)
        return status ? status : summed;
    if (!isfinite(t->numbers[LOSS])) {
        halay_error(t->log, "the loss of step %llu is not finite: a lower learning_rate or clip_mode: global may help",
                    (unsigned long long)t->step + 1);
        return HALAY_ERR_FORMAT;
    }
    t->step++;
    t->samples += samples;
    t->loss_sum += t->numbers[LOSS];
    t->loss_steps++;
    t->stop |= t->numbers[STOP] > 0 || t->step >= t->total_steps;
    if (t->rank == 0)
        tft_progress_step(&t->progress,
                          &(struct tft_progress_step){ t->step, epoch + 1, t->samples, t->numbers[LOSS] });
    return HALAY_OK;
}

/* ---- evaluation ---- */

static enum halay_status report(struct trainer *t, uint64_t epoch, const struct tft_evaluation_result *result, int best)
{
    int64_t now = halay_now_us();
    long long waited = atomic_load_explicit(&t->exchange.waited_us, memory_order_relaxed);
    struct tft_progress_evaluation e = {
        .at = { t->step, epoch + 1, t->samples, 0 },
        .train_loss = t->loss_steps ? t->loss_sum / (double)t->loss_steps : 0,
        .valid_loss = result ? result->loss : 0,
        .learning_rate = t->adam.learning_rate,
        .samples_per_second = (double)(t->samples - t->said_samples) / ((double)(now - t->said_us + 1) / 1e6),
        .comm_seconds = (double)(waited - t->said_waited_us) / 1e6 / tft_pool_threads(t->pool),
        .scores = result ? &result->scores : NULL,
        .best = best,
    };

    t->said_waited_us = waited;
    return t->rank == 0 ? tft_progress_evaluation(&t->progress, &e) : HALAY_OK;
}

static enum halay_status keep_best(struct trainer *t)
{
    enum halay_status status;

    if (t->rank != 0)
        return HALAY_OK;
    status = tft_checkpoint_save(t->log, t->folder, t->crc, (long long)t->step, t->table, t->params);
    t->saved |= !status;
    return status;
}

/* Is this validation the best so far? Any lower loss is; only patience asks for min_delta. The same on every rank. */
static int judge(struct trainer *t, double loss)
{
    int first = !t->judged, best = first || loss < t->lowest;

    t->judged = 1;
    if (best)
        t->lowest = loss;
    if (first || loss < t->mark - t->config->min_delta) {
        t->mark = loss;
        t->in_vain = 0;
        return best;
    }
    t->in_vain++;
    t->halvings += t->in_vain % 2 == 0;
    t->stop |= t->in_vain >= t->config->patience;
    return best;
}

static enum halay_status validate(struct trainer *t, struct tft_evaluation_result *result)
{
    struct tft_forecaster f = { .log = t->log,
                                .ctx = t->ctx,
                                .model = t->model,
                                .workers = t->workers,
                                .gather = { .windows = &t->valid, .numbers = t->valid_order },
                                .params = t->params };
    enum halay_status status = tft_forecaster_init(&f);

    if (!status)
        status = tft_evaluate(&f, t->valid_samples, NULL, result);
    tft_forecaster_fini(&f);
    if (!status && !isfinite(result->loss)) {
        halay_error(t->log, "the validation loss after step %llu is not finite", (unsigned long long)t->step);
        tft_evaluation_result_fini(result);
        status = HALAY_ERR_FORMAT;
    }
    return status;
}

/* After an epoch, or every eval_every steps. */
static enum halay_status evaluate(struct trainer *t, uint64_t epoch)
{
    struct tft_evaluation_result result = { 0 };
    int has_valid = t->valid_samples > 0, best = 1;
    enum halay_status status = has_valid ? validate(t, &result) : HALAY_OK;

    if (status)
        return status;
    if (has_valid)
        best = judge(t, result.loss);
    status = report(t, epoch, has_valid ? &result : NULL, best);
    if (!status && best)
        status = keep_best(t);
    tft_evaluation_result_fini(&result);
    t->loss_sum = 0;
    t->loss_steps = 0;
    t->said_samples = t->samples;
    t->said_us = halay_now_us(); /* so that the time of validations is not training's */
    return status;
}

/* ---- the loop ---- */

static enum halay_status run_epoch(struct trainer *t, uint64_t epoch)
{
    uint64_t every = t->config->eval_every ? (uint64_t)t->config->eval_every : 0;
    enum halay_status status = HALAY_OK;

    tft_sampler_draw((uint32_t)t->config->seed, (uint32_t)epoch, t->train.count, t->epoch_samples, t->order);
    for (size_t first = 0; first < t->epoch_samples && !status && !t->stop; first += t->batch) {
        size_t left = t->epoch_samples - first, samples = left < t->batch ? left : t->batch;
        status = train_step(t, epoch, first, samples);
        int due = every ? t->step % every == 0 : first + samples == t->epoch_samples;
        if (!status && (due || t->stop))
            status = evaluate(t, epoch);
    }
    return status;
}

static enum halay_status set_up(struct trainer *t)
{
    enum halay_status status = HALAY_OK;

    if (t->config->deterministic == 2 && (t->ranks & (t->ranks - 1))) {
        halay_error(t->log, "'deterministic: ranks' needs 1, 2, 4, 8 ... ranks, there are %d", t->ranks);
        return HALAY_ERR_CONFIG;
    }
    status = set_up_windows(t);
    if (!status)
        status = set_up_model(t);
    if (!status)
        status = set_up_exchange(t);
    if (!status)
        status = set_up_folder(t);
    return status;
}

static void tear_down(struct trainer *t)
{
    tft_progress_fini(&t->progress);
    if (t->numbers_tensor)
        halay_unregister(t->numbers_tensor);
    tft_exchange_fini(&t->exchange);
    tft_adam_fini(&t->adam);
    tft_workers_destroy(t->workers);
    tft_pool_destroy(t->pool);
    tft_model_destroy(t->model);
    tft_windows_fini(&t->train);
    tft_windows_fini(&t->valid);
    free(t->order);
    free(t->valid_order);
    free(t->blocks);
}

static void say_beginning(struct trainer *t)
{
    tft_progress_say(
        &t->progress,
        "%zu parameters, %zu training windows (%zu an epoch), %zu validation windows, batch %zu, at most %llu steps, "
        "%d rank%s of %d thread%s",
        tft_model_param_count(t->model), t->train.count, t->epoch_samples, t->valid_samples, t->batch,
        (unsigned long long)t->total_steps, t->ranks, t->ranks == 1 ? "" : "s", tft_pool_threads(t->pool),
        tft_pool_threads(t->pool) == 1 ? "" : "s");
}

enum halay_status tft_train(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                            const struct tft_data *data, const char *folder)
{
    struct trainer t = { .log = log, .ctx = ctx, .config = config, .data = data, .folder = folder };
    enum halay_status status;

    t.rank = halay_rank(ctx);
    t.ranks = halay_size(ctx);
    status = set_up(&t);
    if (!status && t.rank == 0)
        say_beginning(&t);
    t.said_us = halay_now_us();
    for (uint64_t epoch = 0; epoch < (uint64_t)config->epochs && !status && !t.stop; epoch++)
        status = run_epoch(&t, epoch);
    if (!status && t.rank == 0)
        tft_progress_say(&t.progress, "done after %llu steps and %.1f s%s; '%s' holds the best parameters",
                         (unsigned long long)t.step, tft_progress_seconds(&t.progress),
                         t.in_vain >= config->patience ? " (no improvement any more)" : "", folder);
    tear_down(&t);
    if (status && t.begun && !t.saved)
        tft_checkpoint_discard(folder);
    return status;
}
