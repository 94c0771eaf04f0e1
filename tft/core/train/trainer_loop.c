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
 * written weights or a checkpoint removes its other files. trainer_finish.c follows the loop.
 */
#include "base/clock.h"
#include "base/number_text.h"
#include "halay_tools.h"
#include "tft/core/train/train.h"
#include "tft/core/train/trainer.h"
#include <math.h>
#include <string.h>
#include <zlib.h>

/* ---- evaluation ---- */

/* Records a validation's loss; returns 1 if it is the lowest so far. Only patience asks by how much. The same on every
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

/* Returns HALAY_OK if all ranks have computed the same parameters: otherwise something is wrong with one of them. */
static enum halay_status check_agreement(struct tft_trainer *t)
{
    size_t bytes = t->table->reals * sizeof *t->blocks.host.params;
    uint32_t mine = (uint32_t)crc32_z(crc32(0, NULL, 0), (const unsigned char *)t->blocks.host.params, bytes);
    /* The largest sum of all ranks, and of their complements: of the same number only if all sums are equal. */
    int32_t most[2];
    enum halay_status status = HALAY_OK;

    memcpy(most, (uint32_t[2]){ mine, ~mine }, sizeof most);
    if (t->ranks > 1)
        status = halay_allreduce(t->ctx, "agreement", NULL, most, 2, HALAY_I32, HALAY_MAX);
    if (!status && most[0] != ~most[1])
        status =
            halay_fail(t->log, HALAY_ERR_MISMATCH,
                       "after step %llu the ranks do not have the same parameters (CRC-32 of this one's: %08x): other "
                       "processors or libraries than the other ranks', or a memory fault",
                       (unsigned long long)t->state.step, mine);
    return status;
}

/* Begins to count for the next evaluation; a validation does not count as training time. */
static void begin_interval(struct tft_trainer *t)
{
    t->since_samples = t->state.samples;
    t->since_us = halay_now_us();
    t->since_waited = tft_trainer_waited(t);
}

/* Reports an evaluation, and keeps the parameters if they are the best. result: NULL without validation. */
static enum halay_status keep_best(struct tft_trainer *t, const struct tft_forecast_scores *result)
{
    const int best = result ? record_validation(t, result->loss) : 1;
    enum halay_status status;

    if (result && best)
        t->made_of.best_q_risk = tft_scores_mean_q_risk(result->scores, result->target_count, result->scores->median);
    if ((t->rank == 0 && (status = tft_report_evaluation(t, result, best))) ||
        (best && (status = tft_files_keep(t, tft_blocks_best(&t->blocks), t->state.step, 0))))
        return status;
    if (best && t->rank == 0 && t->config->keep)
        tft_checkpoints_set_best(&t->files.checkpoints,
                                 t->blocks.host.average ? TFT_CHECKPOINT_AVERAGE : TFT_CHECKPOINT_PARAMS);
    return HALAY_OK;
}

/* After an epoch, or every eval_every steps. */
static enum halay_status evaluate_now(struct tft_trainer *t)
{
    struct tft_forecast_scores result = { 0 };
    const int has_valid = t->epoch.valid_samples > 0;
    enum halay_status status;

    if ((status = tft_blocks_download(&t->blocks)) || (status = check_agreement(t)) ||
        (t->rank == 0 && (status = tft_report_values(t))))
        return status;
    status = has_valid ? tft_trainer_validate(t, &result) : HALAY_OK;
    if (status == HALAY_ERR_CANCELED) { /* it stays due, as in the checkpoint before it */
        t->interrupted = 1;
        return HALAY_OK;
    }
    if (!status && has_valid && !isfinite(result.loss))
        status = halay_fail(t->log, HALAY_ERR_FORMAT, "the validation loss after step %llu is not finite",
                            (unsigned long long)t->state.step);
    if (!status)
        status = keep_best(t, has_valid ? &result : NULL);
    tft_forecast_scores_fini(&result);
    if (status)
        return status;
    t->state.pending = 0;
    t->state.loss_sum = 0;
    t->state.loss_steps = 0;
    begin_interval(t);
    return tft_trainer_commit(t); /* printed and written: it must not be repeated */
}

/* ---- the loop ---- */

/* Returns nonzero if an evaluation is due after the step. */
static int is_due(const struct tft_trainer *t)
{
    uint64_t every = (uint64_t)t->config->eval_every;

    if (!every && t->config->epochs)
        return t->state.position == t->epoch.samples;
    if (!every)
        every = tft_run_length_part(&t->limits, &t->state.length);
    return every && t->state.step % every == 0;
}

/* A step and what is due after it. */
static enum halay_status advance_step(struct tft_trainer *t)
{
    uint64_t save_every = (uint64_t)t->config->checkpoint_every;
    enum halay_status status = tft_trainer_step(t, tft_trainer_rate(t));

    if (status)
        return status;
    if (!isfinite(t->sums.numbers[TFT_STEP_LOSS]))
        return halay_fail(t->log, HALAY_ERR_FORMAT,
                          "the loss of step %llu is not finite: a lower learning_rate or clip_mode: global may help",
                          (unsigned long long)t->state.step);
    if (t->rank == 0 && (status = tft_report_step(t)))
        return status;
    int due = is_due(t);
    int saves = due || t->stop || t->interrupted || (save_every && t->state.step % save_every == 0);
    int evaluates = !t->interrupted && (due || t->stop);
    if (saves)
        t->state.pending = due || (t->stop && !t->interrupted);
    if ((status = tft_trainer_commit(t)) || (saves && (status = tft_files_save(t))))
        return status;
    return evaluates ? evaluate_now(t) : HALAY_OK;
}

/* Runs the rest of the epoch, from the state's position. */
static enum halay_status run_epoch(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    tft_trainer_draw_order(t);
    t->elastic.is_changed = 0;
    if (t->state.pending)
        status = evaluate_now(t);
    while (!status && !t->elastic.is_changed && !t->stop && !t->interrupted && t->state.position < t->epoch.samples)
        status = advance_step(t);
    if (!status && t->state.position == t->epoch.samples && !t->state.pending) {
        t->state.epoch++;
        t->state.position = 0;
    }
    return status;
}

/* Prints how many threads are idle: a step's work is in granules, each for one thread. */
static void print_idle(struct tft_trainer *t)
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
    tft_say(&t->report.listener,
            "%zu of %zu threads have nothing to do: a step of %zu samples is %zu pieces of work of %zu; "
            "%s'batch_size: %zu' occupies all",
            idle, all, t->batch, pieces, granule, smaller, all * granule);
}

static void print_beginning(struct tft_trainer *t)
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
    tft_say(&t->report.listener,
            "%zu parameters, %zu training windows (%zu an epoch), %zu validation windows, batch %zu, %s, %d rank%s %s",
            tft_model_param_count(t->model), t->epoch.train.count, t->epoch.samples, t->epoch.valid_samples, t->batch,
            most, t->ranks, t->ranks == 1 ? "" : "s", on);
    print_idle(t);
    if (t->state.step)
        tft_say(&t->report.listener, "continuing after step %llu, from '%s'", (unsigned long long)t->state.step,
                t->options->checkpoints);
    else if (t->options->resume)
        tft_say(&t->report.listener, "no checkpoint in '%s': beginning anew", t->options->checkpoints);
}

static void print_end(struct tft_trainer *t)
{
    unsigned long long step = t->state.step;
    double seconds = tft_report_seconds(&t->report);
    const char *in_vain = t->state.in_vain >= t->config->patience ? " (no improvement any more)" : "";

    if (t->interrupted && !step)
        tft_say(&t->report.listener, "interrupted before the first step; nothing is kept");
    else if (t->interrupted && t->config->keep)
        tft_say(&t->report.listener, "interrupted after %llu steps and %.1f s; use --resume to continue from '%s'",
                step, seconds, t->options->checkpoints);
    else if (t->options->folder_ends)
        tft_say(&t->report.listener, "%s after %llu steps and %.1f s%s", t->interrupted ? "stopped" : "done", step,
                seconds, in_vain);
    else if (t->interrupted)
        tft_say(&t->report.listener, "interrupted after %llu steps and %.1f s, with no checkpoint (keep 0)", step,
                seconds);
    else
        tft_say(&t->report.listener, "done after %llu steps and %.1f s%s; '%s' holds the best parameters", step,
                seconds, in_vain, t->options->folder);
}

static int is_training(const struct tft_trainer *t)
{
    if (t->interrupted)
        return 0;
    return t->stop ? t->state.pending : !t->config->epochs || t->state.epoch < (uint64_t)t->config->epochs;
}

/* Trains to the end of an epoch or until the ranks change; once training is over, finishes the forecasts, and sets
 * *is_finished. */
static enum halay_status train_on(struct tft_trainer *t, int *is_finished)
{
    const int trains = is_training(t);
    enum halay_status status = HALAY_OK;

    if (!trains && t->rank == 0)
        print_end(t);
    if (!t->interrupted) /* after the training too: a resumed run may be over at once */
        status = tft_trainer_fit_validation(t);
    if (!status && !t->interrupted)
        status = !trains ? tft_trainer_finish(t) : t->stop ? evaluate_now(t) : run_epoch(t);
    *is_finished = !trains && !status;
    return status;
}

/* Trains, and finishes the forecasts. A lost rank ends neither. */
static enum halay_status train_and_finish(struct tft_trainer *t)
{
    enum halay_status status = HALAY_OK;

    for (int is_finished = 0; !status && !is_finished;)
        status = tft_trainer_recover(t, train_on(t, &is_finished));
    return status;
}

/* ---- the learning-rate finder ---- */

static const double first_rate = 1e-6, last_rate = 1,
                    too_much = 16; /* stop at this multiple of the lowest loss of a step */

static void print_rates(FILE *report, const double *rates, const double *losses, size_t steps, double rate)
{
    enum { EVERY = 4 };

    fprintf(report, "learning rate   loss\n");
    for (size_t i = 0; i < steps; i += EVERY)
        halay_fprintf(report, "%13.2e   %.6g\n", rates[i], losses[i]);
    if (rate > 0)
        halay_fprintf(report, "learning_rate: %.1e\n", rate);
    else
        fprintf(report,
                "the loss did not fall at any rate: more samples a batch (batch_size), or other data, may help\n");
}

/* Trains at a rate that grows exponentially (Smith 2017, arXiv 1506.01186); rank 0 writes a table and the rate that
 * their losses suggest. The trainer serves for nothing else afterwards. */
static enum halay_status find_learning_rate(struct tft_trainer *t)
{
    double rates[TFT_RATE_FINDER_STEPS], losses[TFT_RATE_FINDER_STEPS], lowest = INFINITY;
    size_t steps = 0;
    enum halay_status status;

    tft_trainer_draw_order(t);
    while (steps < TFT_RATE_FINDER_STEPS && !t->interrupted) {
        if (t->state.position == t->epoch.samples) {
            t->state.epoch++;
            t->state.position = 0;
            tft_trainer_draw_order(t);
        }
        rates[steps] = first_rate * pow(last_rate / first_rate, (double)steps / (TFT_RATE_FINDER_STEPS - 1));
        if ((status = tft_trainer_step(t, rates[steps])))
            return status;
        losses[steps++] = t->sums.numbers[TFT_STEP_LOSS];
        if (!isfinite(losses[steps - 1]) || losses[steps - 1] > tft_loss_times(t->data->loss, lowest, too_much))
            break;
        lowest = fmin(lowest, losses[steps - 1]);
    }
    if (t->interrupted)
        return HALAY_ERR_CANCELED;
    *t->options->rate = tft_learning_rate_suggest(t->data->loss, rates, losses, steps);
    if (t->rank == 0)
        print_rates(t->options->report, rates, losses, steps, *t->options->rate);
    return HALAY_OK;
}

/* ---- a training ---- */

enum halay_status tft_train_first(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                                  struct tft_data *data, const struct tft_train_options *options)
{
    struct tft_trainer t = { .log = log,
                             .ctx = ctx,
                             .config = config,
                             .data = data,
                             .options = options,
                             .rank = halay_rank(ctx),
                             .ranks = halay_size(ctx),
                             .files.locks = { -1, -1 } };
    enum halay_status status = tft_trainer_init(&t);

    if (!status && t.rank == 0)
        print_beginning(&t);
    if (options->finds_rate) {
        status = status ? status : find_learning_rate(&t);
        tft_trainer_fini(&t);
        return status;
    }
    if (!status) {
        begin_interval(&t);
        tft_trainer_reserve(&t);
        t.stop = tft_trainer_is_over(&t);
        status = train_and_finish(&t);
    }
    if (!status && t.rank == 0 && !options->is_member)
        status = tft_trainer_compare_naive(&t);
    status = tft_report_end(&t, status);
    int leaves_nothing = status && t.files.begun && !t.files.saved &&
                         !(options->elastic && t.state.step); /* other ranks may continue there */
    tft_trainer_fini(&t);
    if (leaves_nothing)
        tft_run_discard(options->folder);
    return status;
}
