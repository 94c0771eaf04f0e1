/* SPDX-License-Identifier: Apache-2.0
 *
 * The refit: the rows that validation, blend and calibration took for their choices are the latest, and the nearest to
 * what is to be forecast. Once all is chosen, the best weights are trained on with the windows of all rows, those of
 * the training among them, for a part of the steps that made them and at a rate that falls to 0. Nothing is chosen by
 * it, so the number of steps is fixed before; under a limit of time it ends by rank 0's clock, too.
 *
 * The first weights stay the run's: they are what is scored, since they have not seen the rows that they are scored by.
 */
#include "tft/core/train/trainer.h"
#include <math.h>
#include <string.h>

/* Its epochs are numbered apart from the training's. */
enum { FIRST_EPOCH = 0x40000000 };
/* Parts of the steps that made the best weights and of the time; of the highest learning rate. */
static const double part = .2, rate_part = .3;

/* The last split whose rows a refit takes. */
static enum tft_split last_split(const struct tft_trainer *t)
{
    const int end = t->options->holds_out ? t->options->holds_out : TFT_SPLIT_COUNT;
    int last = TFT_TRAIN;

    for (int split = TFT_TRAIN; split < end; split++)
        if (t->data->schema.has_split[split])
            last = split;
    return (enum tft_split)last;
}

double tft_trainer_refit_part(const struct tft_trainer *t)
{
    return t->config->refit && last_split(t) != TFT_TRAIN ? part : 0;
}

/* Lists windows as if the training span reached to the end of the last split. */
static enum halay_status list_all_windows(struct tft_trainer *t)
{
    struct tft_schema *s = &t->data->schema;
    const enum tft_split last = last_split(t);
    const int64_t end = s->split_end[TFT_TRAIN];
    const size_t left = s->split_left[TFT_TRAIN];

    s->split_end[TFT_TRAIN] = s->split_end[last];
    s->split_left[TFT_TRAIN] = s->split_left[last];
    enum halay_status status = tft_trainer_list_windows(t);
    s->split_end[TFT_TRAIN] = end;
    s->split_left[TFT_TRAIN] = left;
    return status;
}

/* Runs the steps; *has_diverged: the loss is not finite. The limits of the training do not end them. */
static enum halay_status refit_steps(struct tft_trainer *t, uint64_t steps, double highest, int *has_diverged)
{
    const double seconds = part * t->config->max_time;
    double done = 0, began = 0; /* by rank 0's clock, after the first step: what was before is not the refit's */
    enum halay_status status;

    *has_diverged = 0;
    t->state.epoch = FIRST_EPOCH;
    t->state.position = t->epoch.samples;
    for (uint64_t i = 0; i < steps && done < 1 && !t->interrupted; i++) {
        if (t->state.position == t->epoch.samples) {
            t->state.position = 0;
            tft_trainer_draw_order(t);
            t->state.epoch++;
        }
        if ((status = tft_trainer_step(t, highest * (1 - done))))
            return status;
        if (!isfinite(t->sums.numbers[TFT_STEP_LOSS])) {
            *has_diverged = 1;
            return HALAY_OK;
        }
        began = i ? began : t->state.seconds;
        done = (double)(i + 1) / (double)steps;
        if (seconds > 0)
            done = fmax(done, (t->state.seconds - began) / seconds);
    }
    return HALAY_OK;
}

/* Rank 0: writes them, or prints why not. */
static enum halay_status keep_refit(struct tft_trainer *t, const float *first, long long step, int has_diverged)
{
    if (t->interrupted || has_diverged) {
        tft_say(&t->report.listener, "%s: it leaves no weights",
                has_diverged ? "the loss of the refit is not finite" : "the refit was interrupted");
        return HALAY_OK;
    }
    return tft_run_save_refit(t->log, t->options->folder, t->files.run, step, t->table, first,
                              tft_blocks_best(&t->blocks));
}

/* Trains on from the parameters, which all ranks have, by the state and limits of its own. */
static enum halay_status refit_from(struct tft_trainer *t, const float *params, long long step, uint64_t steps)
{
    const size_t bytes = t->table->reals * sizeof *params, trained = t->epoch.train.count;
    int has_diverged = 0;
    enum halay_status status;

    memcpy(t->blocks.host.params, params, bytes);
    if (t->blocks.host.average)
        memcpy(t->blocks.host.average, params, bytes);
    t->limits = (struct tft_limits){ .steps = UINT64_MAX };
    if ((status = tft_blocks_upload(&t->blocks)) || (status = list_all_windows(t)))
        return status;
    if (t->rank == 0)
        tft_say(&t->report.listener, "refit: %llu steps with %zu windows of all rows (%zu of training)",
                (unsigned long long)steps, t->epoch.train.count, trained);
    if ((status = refit_steps(t, steps, rate_part * t->config->learning_rate, &has_diverged)) ||
        (status = tft_blocks_download(&t->blocks)))
        return status;
    return t->rank == 0 ? keep_refit(t, params, step, has_diverged) : HALAY_OK;
}

enum halay_status tft_trainer_refit(struct tft_trainer *t, const float *params, long long step)
{
    const struct tft_training_state before = t->state;
    const struct tft_limits limits = t->limits;
    uint64_t steps = (uint64_t)ceil(part * (double)step);
    enum halay_status status;

    if (!(tft_trainer_refit_part(t) > 0)) {
        if (t->rank == 0)
            tft_say(&t->report.listener, "no refit: no rows follow those of training");
        return HALAY_OK;
    }
    /* Rank 0 has read which step the weights are of. */
    if ((status = tft_blocks_download(&t->blocks)) ||
        (t->ranks > 1 && (status = halay_broadcast(t->ctx, "refit steps", &steps, 1, HALAY_I64, 0))) || !steps)
        return status;
    status = refit_from(t, params, step, steps);
    t->state = before;
    t->limits = limits;
    enum halay_status listed = tft_trainer_list_windows(t);
    return status ? status : listed;
}
