/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice that a schema leaves to training by `per: auto` and `relative_to: auto`: each possibility is trained for a
 * while from the same parameters and validated a few times, since some learn faster and then overfit. Training goes on
 * with the one that had the lowest validation loss, which is in the same units for all. The first one, `entity` and
 * `none`, learns last and best where levels stay (on PJM's load its loss was .329 after 125 steps and .227 after 1,000;
 * relative to the season .296 and .237), so another one must be better by a margin.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "tft/run/run_folder.h"
#include "tft/train/trainer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tenth of the steps, or of the time, but no more than this; steps from one validation to the next. */
enum { PART = 10, STEPS_LEAST = 20, STEPS_MOST = 250, VALIDATE_EVERY = 50 };
static const double margin = .05;

/* Where training stands. */
struct snapshot {
    struct tft_training_state state;
    size_t reals, own; /* of the parameters; of the moments and the average */
    float *params;     /* owned: (reals + own) */
};

/* What trials begin with, and the best of them. */
struct trials {
    struct snapshot begin, best;
    enum tft_scale_by per[TFT_INPUTS_MAX];
    enum tft_relation relative[TFT_INPUTS_MAX];
};

enum halay_status tft_trainer_set_levels(struct tft_trainer *t, int levels)
{
    enum halay_status status = levels ? tft_schema_choose(&t->data->schema, levels) : HALAY_OK;

    if (status)
        halay_error(t->log, "no memory for the schema");
    return status;
}

/* Make the data's targets as one possibility has them, without its being chosen for good. */
static void set_trial(struct tft_trainer *t, const struct trials *b, int levels)
{
    struct tft_schema *s = &t->data->schema;

    for (size_t i = 0; i < s->input_count; i++) {
        if (b->per[i] == TFT_PER_AUTO)
            s->inputs[i].per = levels & TFT_LEVELS_WINDOW ? TFT_PER_WINDOW : TFT_PER_ENTITY;
        if (b->relative[i] == TFT_RELATIVE_AUTO)
            s->inputs[i].relative = levels & TFT_LEVELS_SEASON ? TFT_RELATIVE_SEASON : TFT_RELATIVE_NONE;
    }
}

static void keep(const struct tft_trainer *t, struct snapshot *b)
{
    b->state = t->state;
    memcpy(b->params, t->params, b->reals * sizeof *b->params);
    memcpy(b->params + b->reals, t->adam.m, b->own * sizeof *b->params);
}

static enum halay_status snapshot_init(struct tft_trainer *t, struct snapshot *b)
{
    size_t count = t->average ? 3 : 2, bytes;

    *b = (struct snapshot){ .reals = t->table->reals };
    b->own = count * tft_shards_reals(&t->shards, t->table);
    if (!halay_mul_overflows(b->reals + b->own, sizeof *b->params, &bytes))
        b->params = malloc(bytes + 1);
    if (!b->params) {
        halay_error(t->log, "no memory for a copy of the parameters");
        return HALAY_ERR_NO_MEMORY;
    }
    keep(t, b);
    return HALAY_OK;
}

static void restore(struct tft_trainer *t, const struct trials *trials, const struct snapshot *b)
{
    t->state = b->state;
    memcpy(t->params, b->params, b->reals * sizeof *b->params);
    memcpy(t->adam.m, b->params + b->reals, b->own * sizeof *b->params);
    for (size_t i = 0; i < t->data->schema.input_count; i++) {
        t->data->schema.inputs[i].per = trials->per[i];
        t->data->schema.inputs[i].relative = trials->relative[i];
    }
    tft_trainer_set_adam(t);
    t->stop = 0;
}

/* Lower *lowest to the validation loss if that is below. */
static enum halay_status judge(struct tft_trainer *t, double *lowest)
{
    struct tft_forecast_scores result = { 0 };
    enum halay_status status = tft_trainer_gather_average(t);

    if (!status)
        status = tft_trainer_validate(t, 0, &result);
    if (result.scores)
        *lowest = fmin(*lowest, result.loss);
    tft_forecast_scores_fini(&result);
    return status;
}

/* The lowest validation loss in a short training with one possibility. */
static enum halay_status try_levels(struct tft_trainer *t, const struct trials *b, int levels, double *loss)
{
    uint64_t steps = t->limits.steps / PART;
    double begin = 0, seconds = t->limits.seconds / PART;
    int is_over = 0;

    steps = steps < STEPS_LEAST ? STEPS_LEAST : steps;
    steps = steps > STEPS_MOST ? STEPS_MOST : steps;
    *loss = INFINITY;
    restore(t, b, &b->begin);
    set_trial(t, b, levels);
    enum halay_status status = tft_trainer_draw_order(t);
    while (!status && !is_over && !t->interrupted) {
        status = tft_trainer_step(t, tft_trainer_rate(t));
        if (!isfinite(t->numbers[TFT_STEP_LOSS]))
            return status; /* the parameters are lost, and all ranks see it */
        begin = t->state.step == 1 ? t->state.seconds : begin;
        is_over = t->state.step >= steps || t->state.step >= t->limits.steps || t->state.position >= t->epoch_samples ||
                  (seconds > 0 && t->state.seconds - begin > seconds);
        if (!status && !t->interrupted && (is_over || t->state.step % VALIDATE_EVERY == 0))
            status = judge(t, loss);
    }
    if (status == HALAY_ERR_CANCELED) {
        t->interrupted = 1;
        status = HALAY_OK;
    }
    return status;
}

static void say(struct tft_trainer *t, const char *what, int open, int levels, double loss)
{
    if (t->rank == 0)
        tft_progress_say(&t->progress, "%s%s%s: validation loss %.6f", what,
                         !(open & TFT_LEVELS_WINDOW)  ? ""
                         : levels & TFT_LEVELS_WINDOW ? " 'per: window'"
                                                      : " 'per: entity'",
                         !(open & TFT_LEVELS_SEASON)  ? ""
                         : levels & TFT_LEVELS_SEASON ? " 'relative_to: season'"
                                                      : " 'relative_to: none'",
                         loss);
}

/* Try all; b->best is where the choice stands then, and *choice is what it is. */
static enum halay_status try_all(struct tft_trainer *t, struct trials *b, int open, int *choice)
{
    const struct tft_schema *s = &t->data->schema;
    double lowest = INFINITY, loss;

    for (int levels = 0; levels <= (TFT_LEVELS_WINDOW | TFT_LEVELS_SEASON); levels++) {
        if (levels & ~open || (levels & TFT_LEVELS_SEASON && s->seasons[0] > s->encoder))
            continue;
        enum halay_status status = try_levels(t, b, levels, &loss);
        if (status || t->interrupted)
            return status;
        say(t, "tried", open, levels, loss);
        if (loss < (*choice == TFT_LEVELS_CHOSEN ? 1 - margin : 1) * lowest) {
            lowest = loss;
            *choice = TFT_LEVELS_CHOSEN | levels;
            keep(t, &b->best);
        }
    }
    say(t, "chosen:", open, *choice, lowest);
    return HALAY_OK;
}

/* Training goes on from the best, with the choice made for good. */
static enum halay_status take_choice(struct tft_trainer *t, const struct trials *b, int choice)
{
    restore(t, b, &b->best);
    t->said_us = halay_now_us(); /* the pace is that of what follows */
    t->said_samples = t->state.samples;
    t->state.levels = choice;
    t->stop = tft_trainer_is_over(t);
    t->state.pending = t->stop || (t->state.position == t->epoch_samples && !t->config->eval_every);
    enum halay_status status = tft_trainer_set_levels(t, choice);
    if (!status && t->rank == 0)
        status = tft_trainer_describe(t);
    if (!status && t->rank == 0)
        status = tft_run_begin(t->log, t->options->folder, t->run, 1);
    return status ? status : tft_trainer_commit(t);
}

enum halay_status tft_trainer_choose_levels(struct tft_trainer *t)
{
    int open = tft_schema_open_levels(&t->data->schema), choice = TFT_LEVELS_CHOSEN;
    struct trials *b = open ? calloc(1, sizeof *b) : NULL;

    if (!open)
        return HALAY_OK;
    if (!b) {
        halay_error(t->log, "no memory for a choice");
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < t->data->schema.input_count; i++) {
        b->per[i] = t->data->schema.inputs[i].per;
        b->relative[i] = t->data->schema.inputs[i].relative;
    }
    enum halay_status status = snapshot_init(t, &b->begin);
    if (!status)
        status = snapshot_init(t, &b->best);
    if (!status && t->valid_samples)
        status = try_all(t, b, open, &choice);
    if (!status && t->interrupted)
        restore(t, b, &b->begin);
    else if (!status)
        status = take_choice(t, b, choice);
    free(b->begin.params);
    free(b->best.params);
    free(b);
    return status;
}
