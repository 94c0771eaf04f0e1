/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: the loop.
 *
 * One step: the batch's windows follow from (seed, epoch, step), the same on every rank; loss is divided by the number
 * of measured targets in the whole batch, which every rank counts from the windows' numbers; the rank's granules are
 * computed and submitted as they become final; the loss, rank 0's clock and whether a rank was interrupted are summed
 * in one small tensor; the optimizer waits for each gradient and updates. Every number that decides whether to continue
 * (loss, validation, time, signals) is the same on every rank, so that none is left waiting.
 *
 * Checkpoints are made before an evaluation, every checkpoint_every steps, and at an interruption; one before an
 * evaluation records that it is due, so that a run that resumes from it makes it, with the same bits. An interruption
 * causes no evaluation, and breaks off one that is under way, which stays due: a resumed run is as if it had never been
 * stopped.
 *
 * Rank 0 writes the best weights at each validation loss below all earlier ones. A training that fails before it has
 * written weights or a checkpoint removes its other files. Once all is chosen, a refit (refit.c) may follow, in files
 * of its own.
 */
#include "tft/core/train/train.h"
#include "base/clock.h"
#include "base/number_text.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/score/blend_choice.h"
#include "tft/core/score/calibrate.h"
#include "tft/core/score/evaluation.h"
#include "tft/core/score/forecast_scores.h"
#include "tft/core/train/rate_finder.h"
#include "tft/core/train/trainer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- evaluation ---- */

static enum halay_status report_evaluation(struct tft_trainer *t, const struct tft_forecast_scores *result, int best)
{
    int64_t now = halay_now_us();
    double waited = tft_trainer_waited(t);
    struct tft_progress_evaluation e = {
        .at = { .step = t->state.step, .epoch = t->state.epoch + 1, .samples = t->state.samples },
        .train_loss = t->state.loss_steps ? t->state.loss_sum / (double)t->state.loss_steps : 0,
        .valid_loss = result ? result->loss : 0,
        .learning_rate = t->adam.learning_rate,
        .samples_per_second = (double)(t->state.samples - t->said_samples) / ((double)(now - t->said_us + 1) / 1e6),
        .comm_seconds = waited - t->said_waited,
        .scores = result ? result->scores : NULL,
        .target_count = result ? result->target_count : 0,
        .best = best,
    };

    t->said_waited = waited;
    return t->rank == 0 ? tft_trainer_note_evaluation(t, &e) : HALAY_OK;
}

/* Record a validation's loss; 1 if it is the lowest so far. Only patience asks by how much. The same on every
 * rank. */
static int record_validation(struct tft_trainer *t, double loss)
{
    const double improvement = 1e-4;
    int first = !t->state.judged, best = first || loss < t->state.lowest;

    t->state.judged = 1;
    halay_gauge_set(t->ctx, "valid_loss", loss); /* a valid name */
    if (best)
        t->state.lowest = loss;
    if (first || loss < t->state.mark - improvement) {
        t->state.mark = loss;
        t->state.in_vain = 0;
        return best;
    }
    t->state.in_vain++;
    t->stop |= t->state.in_vain >= t->config->patience;
    return best;
}

/* Have all ranks computed the same parameters? If not, something is wrong with one of them. */
static enum halay_status check_agreement(struct tft_trainer *t)
{
    size_t bytes = t->table->reals * sizeof *t->params;
    uint32_t mine = (uint32_t)crc32_z(crc32(0, NULL, 0), (const unsigned char *)t->params, bytes);
    /* The largest sum of all ranks, and of their complements: of the same number only if all sums are equal. */
    int32_t most[2];
    enum halay_status status = HALAY_OK;

    memcpy(most, (uint32_t[2]){ mine, ~mine }, sizeof most);
    if (t->ranks > 1)
        status = halay_allreduce(t->ctx, "agreement", NULL, most, 2, HALAY_I32, HALAY_MAX);
    if (!status && most[0] != ~most[1]) {
        halay_error(t->log,
                    "after step %llu the ranks do not have the same parameters (CRC-32 of this one's: %08x): other "
                    "processors or libraries than the other ranks', or a memory fault",
                    (unsigned long long)t->state.step, mine);
        status = HALAY_ERR_MISMATCH;
    }
    return status;
}

/* After an epoch, or every eval_every steps. */
static enum halay_status evaluate_now(struct tft_trainer *t)
{
    struct tft_forecast_scores result = { 0 };
    int has_valid = t->valid_samples > 0, best = 1;
    enum halay_status status = tft_trainer_bring(t);

    if (!status)
        status = check_agreement(t);
    if (!status && t->rank == 0)
        status = tft_trainer_note_values(t);
    if (!status && has_valid)
        status = tft_trainer_validate(t, &result);
    if (!status && has_valid && !isfinite(result.loss)) {
        halay_error(t->log, "the validation loss after step %llu is not finite", (unsigned long long)t->state.step);
        tft_forecast_scores_fini(&result);
        return HALAY_ERR_FORMAT;
    }
    if (status == HALAY_ERR_CANCELED) { /* it stays due, as the checkpoint before it says */
        t->interrupted = 1;
        return HALAY_OK;
    }
    if (status)
        return status;
    if (has_valid)
        best = record_validation(t, result.loss);
    if (has_valid && best)
        t->best_q_risk = tft_scores_mean_q_risk(result.scores, result.target_count, result.scores->median);
    status = report_evaluation(t, has_valid ? &result : NULL, best);
    if (!status && best)
        status = tft_trainer_keep(t, tft_trainer_best_params(t), t->state.step, 0);
    if (!status && best && t->rank == 0 && t->config->keep)
        tft_checkpoints_set_best(&t->checkpoints, t->average ? TFT_CHECKPOINT_AVERAGE : TFT_CHECKPOINT_PARAMS);
    tft_forecast_scores_fini(&result);
    t->state.pending = 0;
    t->state.loss_sum = 0;
    t->state.loss_steps = 0;
    t->said_samples = t->state.samples;
    t->said_us = halay_now_us();                    /* so that validation does not count as training time */
    return status ? status : tft_trainer_commit(t); /* printed and written: it must not be repeated */
}

/* ---- the loop ---- */

/* Is an evaluation due after the step? */
static int is_due(const struct tft_trainer *t)
{
    uint64_t every = (uint64_t)t->config->eval_every;

    if (!every && t->config->epochs)
        return t->state.position == t->epoch_samples;
    if (!every)
        every = tft_run_length_part(&t->limits, &t->state.length);
    return every && t->state.step % every == 0;
}

/* A step and what is due after it. */
static enum halay_status advance(struct tft_trainer *t)
{
    uint64_t save_every = (uint64_t)t->config->checkpoint_every;
    enum halay_status status = tft_trainer_step(t, tft_trainer_rate(t));

    if (status)
        return status;
    if (!isfinite(t->numbers[TFT_STEP_LOSS])) {
        halay_error(t->log, "the loss of step %llu is not finite: a lower learning_rate or clip_mode: global may help",
                    (unsigned long long)t->state.step);
        return HALAY_ERR_FORMAT;
    }
    status = t->rank == 0 ? tft_trainer_note_step(t) : HALAY_OK;
    if (status)
        return status;
    int due = is_due(t);
    int saves = due || t->stop || t->interrupted || (save_every && t->state.step % save_every == 0);
    int evaluates = !t->interrupted && (due || t->stop);
    if (saves)
        t->state.pending = due || (t->stop && !t->interrupted);
    status = tft_trainer_commit(t);
    if (!status && saves)
        status = tft_trainer_save(t);
    if (status || !evaluates)
        return status;
    return evaluate_now(t);
}

/* The rest of the epoch, from where the state stands. */
static enum halay_status run_epoch(struct tft_trainer *t)
{
    enum halay_status status = tft_trainer_draw_order(t);

    t->is_changed = 0;
    if (!status && t->state.pending)
        status = evaluate_now(t);
    while (!status && !t->is_changed && !t->stop && !t->interrupted && t->state.position < t->epoch_samples)
        status = advance(t);
    if (!status && t->state.position == t->epoch_samples && !t->state.pending) {
        t->state.epoch++;
        t->state.position = 0;
    }
    return status;
}

/* A step's work comes in granules, each for one thread. */
static void say_idle(struct tft_trainer *t)
{
    size_t granule = tft_model_config(t->model)->granule, pieces = (t->batch + granule - 1) / granule;
    size_t threads = (size_t)tft_pool_threads(t->pool), all = threads * (size_t)t->ranks, idle = 0;
    char smaller[48] = "";

    for (int r = 0; r < t->ranks; r++) {
        size_t first, count = 0;
        int exact = t->config->deterministic == 2 && !(t->ranks & (t->ranks - 1));
        (void)tft_granules_of_rank(pieces, r, t->ranks, exact, &first, &count);
        idle += count < threads ? threads - count : 0;
    }
    if (!idle)
        return;
    if (t->batch >= all)
        snprintf(smaller, sizeof smaller, "'granule: %zu' or ", t->batch / all);
    tft_progress_say(&t->progress,
                     "%zu of %zu threads have nothing to do: a step of %zu samples is %zu pieces of work of %zu; "
                     "%s'batch_size: %zu' occupies all",
                     idle, all, t->batch, pieces, granule, smaller, all * granule);
}

static void say_beginning(struct tft_trainer *t)
{
    int threads = tft_pool_threads(t->pool);
    char on[48], most[48];

    if (t->limits.steps == TFT_STEPS_UNLIMITED && !t->state.length.steps)
        halay_snprintf(most, sizeof most, "as many steps as %g s allow", t->limits.seconds);
    else
        snprintf(most, sizeof most, "at most %llu steps", (unsigned long long)tft_trainer_steps(t));
    if (t->config->device == TFT_DEVICE_CPU)
        snprintf(on, sizeof on, "of %d thread%s", threads, threads == 1 ? "" : "s");
    else
        snprintf(on, sizeof on, "on device '%s'", tft_device_words[t->config->device]);
    tft_progress_say(
        &t->progress,
        "%zu parameters, %zu training windows (%zu an epoch), %zu validation windows, batch %zu, %s, %d rank%s %s",
        tft_model_param_count(t->model), t->train.count, t->epoch_samples, t->valid_samples, t->batch, most, t->ranks,
        t->ranks == 1 ? "" : "s", on);
    say_idle(t);
    if (t->state.step)
        tft_progress_say(&t->progress, "going on after step %llu, from '%s'", (unsigned long long)t->state.step,
                         t->options->checkpoints);
    else if (t->options->resume)
        tft_progress_say(&t->progress, "there is no checkpoint in '%s': beginning anew", t->options->checkpoints);
}

static void say_end(struct tft_trainer *t)
{
    unsigned long long step = t->state.step;
    double seconds = tft_progress_seconds(&t->progress);
    const char *in_vain = t->state.in_vain >= t->config->patience ? " (no improvement any more)" : "";

    if (t->interrupted && !step)
        tft_progress_say(&t->progress, "interrupted before the first step; nothing is kept");
    else if (t->interrupted && t->config->keep)
        tft_progress_say(&t->progress, "interrupted after %llu steps and %.1f s; '--resume' goes on from '%s'", step,
                         seconds, t->options->checkpoints);
    else if (t->options->folder_ends)
        tft_progress_say(&t->progress, "%s after %llu steps and %.1f s%s", t->interrupted ? "stopped" : "done", step,
                         seconds, in_vain);
    else if (t->interrupted)
        tft_progress_say(&t->progress, "interrupted after %llu steps and %.1f s, with no checkpoint (keep 0)", step,
                         seconds);
    else
        tft_progress_say(&t->progress, "done after %llu steps and %.1f s%s; '%s' holds the best parameters", step,
                         seconds, in_vain, t->options->folder);
}

/* Rank 0: what the best forecasts are made of. */
static void say_blend(struct tft_trainer *t)
{
    const struct tft_schema *s = &t->data->schema;
    char text[500];

    for (size_t o = 0; o < s->target_count; o++)
        if (tft_blend_has(&t->blend, s, o)) {
            tft_blend_describe(&t->blend, s, o, text, sizeof text);
            tft_progress_say(&t->progress, "%s", text);
        }
}

/* Rank 0: a line if naive forecasts of the validation windows are as good. */
static enum halay_status say_naive(struct tft_trainer *t)
{
    const struct tft_gather gather = { .windows = &t->valid, .numbers = t->valid_order };
    const struct tft_list *q = &t->config->quantiles;
    const struct tft_schema *s = &t->data->schema;
    char median[32], text[400];
    struct tft_naive_best best;

    if (!(t->best_q_risk > 0))
        return HALAY_OK;
    enum halay_status status = tft_naive_find_best(t->log, &gather, t->valid_samples, q, &best);
    if (status || !tft_naive_wins(t->best_q_risk, &best))
        return status;
    tft_quantile_name(q->values[tft_median_of(q->values, q->count)], median, sizeof median);
    tft_naive_warning(s, s->target_count, median, t->best_q_risk, &best, text, sizeof text);
    tft_progress_say(&t->progress, "%s", text);
    return HALAY_OK;
}

/* Rank 0 reads the best parameters into all ranks' memory; *step: theirs. */
static enum halay_status read_best(struct tft_trainer *t, float *params, int64_t *step)
{
    struct tft_run run = { 0 };
    int32_t failed = 0;
    enum halay_status status = t->rank == 0 ? tft_run_load_first(t->log, t->options->folder, &run) : HALAY_OK,
                      heard = HALAY_OK;

    failed = status != HALAY_OK;
    if (!status && t->rank == 0) {
        memcpy(params, run.params, t->table->reals * sizeof *params);
        *step = run.step;
        tft_run_fini(&run);
    }
    if (t->ranks > 1)
        heard = halay_broadcast(t->ctx, "best read", &failed, 1, HALAY_I32, 0);
    if (!status && !heard && !failed && t->ranks > 1)
        heard = halay_broadcast(t->ctx, "best", params, t->table->reals, HALAY_F32, 0);
    if (status || heard)
        return status ? status : heard;
    return failed ? HALAY_ERR_PEER : HALAY_OK;
}

/* Choose the weights of the blend that the best parameters are part of. */
static enum halay_status choose_blend(struct tft_trainer *t, const float *params)
{
    struct tft_forecast_scores scores = { 0 };
    struct tft_forecaster f = tft_trainer_forecaster(t, params);

    if (!t->blend.errors || !t->valid_samples)
        return HALAY_OK;
    enum halay_status status = tft_forecaster_init(&f);
    if (!status)
        status = tft_blend_choose(&f, t->valid_samples, &t->blend, &scores);
    if (!status)
        t->best_q_risk = tft_scores_mean_q_risk(scores.scores, scores.target_count, scores.scores->median);
    if (status == HALAY_ERR_CANCELED && t->rank == 0)
        halay_error(t->log, "interrupted before the blend's weights were chosen%s",
                    t->config->keep ? "; '--resume' chooses them"
                                    : ", with no checkpoint (keep 0): the model and a baseline have a half each");
    tft_forecast_scores_fini(&scores);
    tft_forecaster_fini(&f);
    return status;
}

/* Calibrate the best parameters' forecasts. Under a limit of time that takes a tenth of it at most. *whole: rank 0's
 * file, a new reference. */
static enum halay_status calibrate(struct tft_trainer *t, const float *params, int64_t step, json_t **whole)
{
    json_t *document = NULL;
    char text[200];
    struct tft_forecaster forecaster = tft_trainer_forecaster(t, params);
    size_t most = tft_trainer_windows_within(t, t->limits.seconds / TFT_CALIBRATION_PART);

    forecaster.blend = &t->blend;
    enum halay_status status = tft_calibrate(&forecaster, t->data, &t->config->quantiles, most, &document);

    if (!status && t->rank == 0) {
        *whole = tft_calibration_json(t->table, params, &t->members, &t->blend, step, document);
        tft_calibrate_describe(document, t->data, "validation windows", text, sizeof text);
        tft_progress_say(&t->progress, "%s", text);
    }
    if (status == HALAY_ERR_CANCELED && t->rank == 0)
        halay_error(t->log, "interrupted before the intervals were calibrated%s",
                    t->config->keep ? "; '--resume' calibrates the run" : ", with no checkpoint (keep 0)");
    json_decref(document);
    return status;
}

/* Whether the configuration asks for a calibration: `auto` does where there are enough validation windows, a horizon
 * apart. */
static enum halay_status ask_calibrates(struct tft_trainer *t, int *calibrates)
{
    struct tft_windows windows = { 0 };
    enum halay_status status = HALAY_OK;

    *calibrates = t->config->calibrate != TFT_CALIBRATE_NONE;
    if (t->config->calibrate == TFT_CALIBRATE_AUTO) {
        status = tft_windows_init(t->log, t->data, TFT_VALID, t->data->schema.horizon, &windows);
        *calibrates = windows.count >= TFT_CONFORMAL_LEAST;
        tft_windows_fini(&windows);
    }
    return status;
}

/* Returns nonzero if the run's folder has a calibration. */
static int has_calibration(const struct tft_trainer *t)
{
    json_t *document = NULL;
    int has = tft_calibration_find(NULL, t->options->folder, &document) || document; /* or it is damaged */

    json_decref(document);
    return has;
}

/* Choose and calibrate. A calibration that is there belongs to the weights that are there, so that both are replaced
 * together; until then an interruption leaves them. */
static enum halay_status choose_and_calibrate(struct tft_trainer *t, const float *params, int64_t step, int calibrates)
{
    json_t *whole = NULL;
    enum halay_status status = choose_blend(t, params);
    int waits = calibrates && t->rank == 0 && has_calibration(t);

    if (!status && t->rank == 0)
        say_blend(t);
    if (!status && t->blend.errors && !waits)
        status = tft_trainer_keep(t, params, (uint64_t)step, 1);
    if (!status && calibrates)
        status = calibrate(t, params, step, &whole);
    if (!status && t->blend.errors && waits)
        status = tft_trainer_keep(t, params, (uint64_t)step, 1);
    if (!status && calibrates && t->rank == 0)
        status = tft_calibration_save(t->log, t->options->folder, whole);
    json_decref(whole);
    return status;
}

/* What the best parameters' forecasts are blended with and how far their intervals are moved, once they are known. All
 * ranks call it. */
static enum halay_status finish_forecasts(struct tft_trainer *t)
{
    const size_t sizes = tft_blend_weights_count(&t->blend) * sizeof *t->blend.weights;
    int64_t step = 0;
    int calibrates;
    enum halay_status status = ask_calibrates(t, &calibrates);

    if (status || t->options->is_member ||
        (!t->blend.errors && !calibrates && !t->config->refit && t->config->members < 2))
        return status;
    float *params = malloc(t->table->reals * sizeof *params);
    double *prior = malloc(sizes + sizeof *prior);
    if (!params || !prior) {
        halay_error(t->log, "no memory for the best parameters");
        free(params);
        free(prior);
        return HALAY_ERR_NO_MEMORY;
    }
    if (t->blend.errors)
        memcpy(prior, t->blend.weights, sizes);
    status = read_best(t, params, &step);
    if (!status)
        status = tft_trainer_take_members(t, params, step);
    if (!status)
        status = choose_and_calibrate(t, params, step, calibrates);
    if (!status && t->config->refit)
        status = tft_trainer_refit(t, params, step);
    if (!status) /* no rank leaves before all is written: without rank 0 the others would have to finish it */
        status = tft_agree(t->ctx, "forecasts finished", HALAY_OK);
    if (status && t->blend.errors) /* ranks that are left, and those that join, choose from the same */
        memcpy(t->blend.weights, prior, sizes);
    free(prior);
    free(params);
    return status;
}

/* A run that was resumed or restored may be over, but for an evaluation that is due. */
int tft_trainer_is_over(const struct tft_trainer *t)
{
    const struct tft_moment now = { t->state.step, t->state.seconds };

    return t->state.in_vain >= t->config->patience || tft_run_length_is_over(&t->limits, &t->state.length, &now);
}

static int goes_on(const struct tft_trainer *t)
{
    if (t->interrupted)
        return 0;
    return t->stop ? t->state.pending : !t->config->epochs || t->state.epoch < (uint64_t)t->config->epochs;
}

/* Close the files. */
static enum halay_status end_notes(struct tft_trainer *t, enum halay_status status)
{
    enum halay_status ended = tft_trainer_end_notes(t, status);
    status = status ? status : ended;
    if (t->progress.end) /* rank 0's */
        ended = tft_progress_end(&t->progress, status ? "failed" : t->interrupted ? "stopped" : "done", t->state.step);
    return status ? status : ended;
}

/* Train, and finish the forecasts. A lost rank ends neither. */
static enum halay_status train_and_finish(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    for (int is_finished = 0; !status && !is_finished;) {
        if (goes_on(t)) {
            status = tft_trainer_fit_validation(t);
            if (!status && !t->interrupted)
                status = t->stop ? evaluate_now(t) : run_epoch(t);
        } else {
            if (t->rank == 0)
                say_end(t);
            status = t->interrupted ? HALAY_OK : tft_trainer_fit_validation(t); /* a resumed run may be over at once */
            if (!status && !t->interrupted)
                status = finish_forecasts(t);
            is_finished = !status;
        }
        status = tft_trainer_recover(t, status);
    }
    return status;
}

enum halay_status tft_train_first(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                                  struct tft_data *data, const struct tft_train_options *options)
{
    struct tft_trainer t = {
        .log = log, .ctx = ctx, .config = config, .data = data, .options = options, .locks = { -1, -1 }
    };
    enum halay_status status;

    t.rank = halay_rank(ctx);
    t.ranks = halay_size(ctx);
    status = tft_trainer_init(&t);
    if (!status && t.rank == 0)
        say_beginning(&t);
    if (options->finds_rate) {
        status = status ? status : tft_find_learning_rate(&t, options->report, options->rate);
        tft_trainer_fini(&t);
        return status;
    }
    t.said_us = halay_now_us();
    t.said_samples = t.state.samples;
    tft_trainer_reserve(&t);
    t.stop = tft_trainer_is_over(&t);
    if (!status)
        status = train_and_finish(&t);
    if (!status && t.rank == 0 && !options->is_member)
        status = say_naive(&t);
    status = end_notes(&t, status);
    int leaves_nothing =
        status && t.begun && !t.saved && !(options->elastic && t.state.step); /* other ranks may continue there */
    tft_trainer_fini(&t);
    if (leaves_nothing)
        tft_run_discard(options->folder);
    return status;
}
