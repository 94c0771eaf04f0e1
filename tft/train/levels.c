/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice that a schema leaves to training by `per: auto` and `relative_to: auto`: each possibility is trained for a
 * while from the same parameters and validated a few times, since some learn faster and then overfit; at the end of the
 * training span, and half as long at earlier origins (tft/run/origins.h). The lowest mean of the losses' logarithms
 * (that of a distribution is one) wins, so that an origin where everything is hard to forecast counts no more than
 * another. Losses are in the same units for all. Training goes on with what the winner has learned at the last origin.
 * The first one, `entity` and `none`, learns last and best where levels stay (on PJM's load its loss was .329 after 125
 * steps and .227 after 1,000; relative to the season .296 and .237), so another one must be better by a margin.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "tft/run/origins.h"
#include "tft/run/run_folder.h"
#include "tft/score/evaluation.h"
#include "tft/train/trainer.h"
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tenth of the steps, but no more than this; steps from one validation to the next; most windows of a validation. */
enum { PART = 10, STEPS_LEAST = 20, STEPS_MOST = 250, VALIDATE_EVERY = 50, WINDOWS_MAX = 1000 };
/* Of the time: all trials' at most, and a validation's of its trial's. */
static const double trials_part = .4, validation_part = .25;
static const double margin = .05;

/* Where training stands. */
struct snapshot {
    struct tft_training_state state;
    size_t reals, own; /* of the parameters; of the moments and the average */
    float *params;     /* owned: (reals + own) */
};

/* What a trial came to at an origin: its lowest loss, and the median's q-risk then. */
struct judgement {
    double loss, q_risk;
};

/* What trials begin with, and the best of them. */
struct trials {
    struct snapshot begin, best;
    struct tft_origins origins;
    int open;                         /* what of the schema is */
    int is_late;                      /* the trials' part of the time is over */
    int is_usable[TFT_ORIGINS];       /* origins */
    struct judgement of[TFT_ORIGINS]; /* of the present possibility */
};

enum halay_status tft_trainer_set_levels(struct tft_trainer *t, int levels)
{
    enum halay_status status = levels ? tft_schema_choose(&t->data->schema, levels) : HALAY_OK;

    if (status)
        halay_error(t->log, "no memory for the schema");
    return status;
}

static enum halay_status keep(struct tft_trainer *t, struct snapshot *b)
{
    enum halay_status status = tft_trainer_bring(t);

    b->state = t->state;
    memcpy(b->params, t->params, b->reals * sizeof *b->params);
    memcpy(b->params + b->reals, t->moments[0], b->own * sizeof *b->params);
    return status;
}

static enum halay_status snapshot_init(struct tft_trainer *t, struct snapshot *b)
{
    size_t count = t->average ? 3 : 2, bytes;

    *b = (struct snapshot){ .reals = t->table->reals };
    b->own = count * t->table->reals;
    if (!halay_mul_overflows(b->reals + b->own, sizeof *b->params, &bytes))
        b->params = malloc(bytes + 1);
    if (!b->params) {
        halay_error(t->log, "no memory for a copy of the parameters");
        return HALAY_ERR_NO_MEMORY;
    }
    return keep(t, b);
}

static enum halay_status restore(struct tft_trainer *t, const struct snapshot *b)
{
    t->state = b->state;
    memcpy(t->params, b->params, b->reals * sizeof *b->params);
    memcpy(t->moments[0], b->params + b->reals, b->own * sizeof *b->params);
    tft_schema_try(&t->data->schema, 0);
    tft_trainer_set_adam(t);
    t->stop = 0;
    return tft_trainer_send(t);
}

static const struct judgement lost = { INFINITY, INFINITY };

/* Take the validation's if its loss is lower. *is_over: it is not finite, and the parameters are lost. */
static enum halay_status judge(struct tft_trainer *t, struct judgement *lowest, int *is_over)
{
    struct tft_forecast_scores result = { 0 };
    enum halay_status status = tft_trainer_bring(t);

    if (!status)
        status = tft_trainer_validate(t, &result);
    *is_over |= !status && !isfinite(result.loss);
    if (!status && !isfinite(result.loss))
        *lowest = lost;
    else if (result.scores && result.loss < lowest->loss)
        *lowest = (struct judgement){ result.loss, tft_scores_mean_q_risk(result.scores, result.target_count,
                                                                          result.scores->median) };
    tft_forecast_scores_fini(&result);
    return status;
}

/* Is it one that the schema leaves open? */
static int is_possible(const struct tft_trainer *t, const struct trials *b, int levels)
{
    const struct tft_schema *s = &t->data->schema;

    return !(levels & ~b->open) && !(levels & TFT_LEVELS_SEASON && s->seasons[0] > s->encoder);
}

/* A trial's part of the time; 0: no limit. One at the last origin has twice that of another. */
static double trial_seconds(const struct tft_trainer *t, const struct trials *b, int origin)
{
    int possibilities = 0;

    for (int levels = 0; levels <= (TFT_LEVELS_WINDOW | TFT_LEVELS_SEASON); levels++)
        possibilities += is_possible(t, b, levels);
    return t->limits.seconds * trials_part / possibilities / (b->origins.count + 1) * (origin ? 1 : 2);
}

static uint64_t trial_steps(const struct tft_trainer *t, int origin)
{
    uint64_t steps = t->limits.steps / PART;

    steps = steps < STEPS_LEAST ? STEPS_LEAST : steps;
    steps = steps > STEPS_MOST ? STEPS_MOST : steps;
    return origin ? (steps + 1) / 2 : steps;
}

/* A short training with one possibility, at the present origin. */
static enum halay_status try_levels(struct tft_trainer *t, const struct trials *b, int levels, int origin,
                                    struct judgement *lowest)
{
    double begin = 0, seconds = (1 - validation_part) * trial_seconds(t, b, origin);
    uint64_t steps = trial_steps(t, origin);
    int is_over = 0;

    *lowest = lost;
    enum halay_status status = restore(t, &b->begin);
    tft_schema_try(&t->data->schema, TFT_LEVELS_CHOSEN | levels);
    if (!status)
        status = tft_trainer_draw_order(t);
    while (!status && !is_over && !t->interrupted) {
        status = tft_trainer_step(t, tft_trainer_rate(t));
        if (!isfinite(t->numbers[TFT_STEP_LOSS])) { /* the parameters are lost, and all ranks see it */
            *lowest = lost;
            return status;
        }
        begin = t->state.step == 1 ? t->state.seconds : begin;
        is_over = t->state.step >= steps || t->state.step >= t->limits.steps || t->state.position >= t->epoch_samples ||
                  (seconds > 0 && t->state.seconds - begin > seconds);
        if (!status && !t->interrupted && (is_over || t->state.step % VALIDATE_EVERY == 0))
            status = judge(t, lowest, &is_over);
    }
    return status;
}

/* Move the trainer's windows to an origin that there is; it is usable if there are some of both kinds. */
static enum halay_status go(struct tft_trainer *t, struct trials *b, int origin)
{
    const struct tft_level *levels;
    enum halay_status status = tft_origins_go(&b->origins, origin, &levels);

    t->valid_max = tft_trainer_windows_within(t, validation_part * trial_seconds(t, b, origin));
    t->valid_max = t->valid_max < WINDOWS_MAX ? t->valid_max : WINDOWS_MAX;
    if (!status)
        status = tft_trainer_list_windows(t);
    if (!status)
        t->train.levels = t->valid.levels = levels;
    b->is_usable[origin] = !status && t->train.count && t->valid_samples;
    return status;
}

/* "'per: window' 'relative_to: none'", of what is open. */
static void name_levels(int open, int levels, char *text, size_t size)
{
    snprintf(text, size, "%s%s%s",
             !(open & TFT_LEVELS_WINDOW)  ? ""
             : levels & TFT_LEVELS_WINDOW ? "'per: window'"
                                          : "'per: entity'",
             open == (TFT_LEVELS_WINDOW | TFT_LEVELS_SEASON) ? " " : "",
             !(open & TFT_LEVELS_SEASON)  ? ""
             : levels & TFT_LEVELS_SEASON ? "'relative_to: season'"
                                          : "'relative_to: none'");
}

/* Rank 0. */
static void say_begin(struct tft_trainer *t, const struct trials *b, int levels)
{
    char name[64], time[40];

    name_levels(b->open, levels, name, sizeof name);
    tft_schema_print_time(&t->data->schema, t->data->schema.split_end[TFT_TRAIN], time, sizeof time);
    tft_progress_say(&t->progress, "trying %s from %s on: %zu training windows, %zu validation windows", name, time,
                     t->train.count, t->valid_samples);
}

/* Is there no time for another trial? The same on every rank, since the state's clock is rank 0's. */
static int is_late(const struct tft_trainer *t)
{
    double seconds = t->state.seconds + t->state.window_seconds * (double)t->valid_samples;

    return t->limits.seconds > 0 && seconds >= trials_part * t->limits.seconds;
}

/* Try it at every origin, the last one last; *score: of all of them. */
static enum halay_status try_origins(struct tft_trainer *t, struct trials *b, int levels, double *score)
{
    enum halay_status status = HALAY_OK;
    int n = 0;

    *score = 0;
    for (int k = b->origins.count - 1; k >= 0 && !status && !t->interrupted; k--) {
        b->is_late |= is_late(t);
        if (b->is_late)
            return HALAY_OK;
        status = go(t, b, k);
        if (!status && b->is_usable[k] && t->rank == 0)
            say_begin(t, b, levels);
        if (!status && b->is_usable[k])
            status = try_levels(t, b, levels, k, &b->of[k]);
        if (b->is_usable[k]) {
            *score += tft_loss_is_distribution(t->data->loss) ? b->of[k].loss : log(b->of[k].loss);
            n++;
        }
    }
    *score /= n;
    return status;
}

/* ---- what is said, on rank 0 ---- */

/* ", "-separated numbers of the usable origins, first things first. */
static void list_numbers(const struct trials *b, size_t member, char *text, size_t size)
{
    size_t used = 0;

    *text = 0;
    for (int k = TFT_ORIGINS - 1; k >= 0 && used < size; k--)
        if (b->is_usable[k])
            used += (size_t)halay_snprintf(text + used, size - used, "%s%.4g", used ? ", " : "",
                                           *(const double *)((const char *)&b->of[k] + member));
}

static void say_trial(struct tft_trainer *t, const struct trials *b, int levels)
{
    char name[64], losses[100], risks[100], median[32];
    const struct tft_list *q = &t->config->quantiles;

    name_levels(b->open, levels, name, sizeof name);
    list_numbers(b, offsetof(struct judgement, loss), losses, sizeof losses);
    list_numbers(b, offsetof(struct judgement, q_risk), risks, sizeof risks);
    tft_quantile_name(q->values[tft_median_of(q->values, q->count)], median, sizeof median);
    tft_progress_say(&t->progress, "tried %s: validation loss %s; %s %s", name, losses, median, risks);
}

/* Where the origins are, and what the best naive forecasts come to there. */
static enum halay_status say_origins(struct tft_trainer *t, struct trials *b)
{
    char when[200] = "", risks[100], median[32];
    const struct tft_list *q = &t->config->quantiles;
    enum halay_status status = HALAY_OK;
    struct tft_naive_best best;

    for (int k = b->origins.count - 1; k >= 0 && !status; k--) {
        size_t used = strlen(when);
        char time[40];
        status = go(t, b, k);
        if (status || !b->is_usable[k])
            continue;
        tft_schema_print_time(&t->data->schema, t->data->schema.split_end[TFT_TRAIN], time, sizeof time);
        snprintf(when + used, sizeof when - used, "%s%s", used ? ", " : "", time);
        const struct tft_gather gather = { .windows = &t->valid, .numbers = t->valid_order };
        status = tft_naive_find_best(t->log, &gather, t->valid_samples, q, &best);
        b->of[k].q_risk = best.q_risk;
    }
    list_numbers(b, offsetof(struct judgement, q_risk), risks, sizeof risks);
    tft_quantile_name(q->values[tft_median_of(q->values, q->count)], median, sizeof median);
    if (!status && t->rank == 0)
        tft_progress_say(&t->progress, "trying from %s on; %s of naive forecasts %s", when, median, risks);
    return status;
}

/* ---- all ---- */

/* Try all; b->best is where the choice stands then, and *choice is what it is. */
static enum halay_status try_all(struct tft_trainer *t, struct trials *b, int *choice)
{
    double lowest = INFINITY, score;
    char name[64];
    enum halay_status status = say_origins(t, b);

    for (int levels = 0; levels <= (TFT_LEVELS_WINDOW | TFT_LEVELS_SEASON) && !status; levels++) {
        if (!is_possible(t, b, levels))
            continue;
        status = try_origins(t, b, levels, &score);
        if (status || t->interrupted)
            return status;
        if (b->is_late)
            break;
        if (t->rank == 0)
            say_trial(t, b, levels);
        if (score < lowest + (*choice == TFT_LEVELS_CHOSEN ? log1p(-margin) : 0)) {
            lowest = score;
            *choice = TFT_LEVELS_CHOSEN | levels;
            status = keep(t, &b->best);
        }
    }
    name_levels(b->open, *choice, name, sizeof name);
    if (!status && t->rank == 0)
        tft_progress_say(&t->progress, "chosen: %s%s", name,
                         b->is_late ? ", for want of time for more trials ('max_time')" : "");
    return status;
}

/* Training goes on from the best, with the choice made for good. */
static enum halay_status take_choice(struct tft_trainer *t, const struct trials *b, int choice)
{
    enum halay_status status = restore(t, &b->best);
    t->state.length = (struct tft_run_length){ 0 }; /* whose pace would count the other trials' time */
    t->said_us = halay_now_us();                    /* the pace is that of what follows */
    t->said_samples = t->state.samples;
    t->state.levels = choice;
    t->stop = tft_trainer_is_over(t);
    t->state.pending = t->stop || (t->state.position == t->epoch_samples && !t->config->eval_every);
    if (!status)
        status = tft_trainer_set_levels(t, choice);
    if (!status && t->rank == 0)
        status = tft_trainer_describe(t);
    if (!status && t->rank == 0)
        status = tft_run_begin(t->log, t->options->folder, t->run, 1);
    return status ? status : tft_trainer_commit(t);
}

static enum halay_status choose(struct tft_trainer *t, struct trials *b)
{
    int choice = TFT_LEVELS_CHOSEN;
    size_t valid_max = t->valid_max;
    enum halay_status status = snapshot_init(t, &b->begin);

    if (!status)
        status = snapshot_init(t, &b->best);
    if (!status)
        status = tft_origins_init(t->log, t->data, &b->origins);
    if (!status && t->valid_samples)
        status = try_all(t, b, &choice);
    if (status == HALAY_ERR_CANCELED) {
        t->interrupted = 1;
        status = HALAY_OK;
    }
    tft_origins_fini(&b->origins);
    t->valid_max = valid_max;
    if (!status)
        status = tft_trainer_list_windows(t);
    if (!status && t->interrupted)
        status = restore(t, &b->begin);
    else if (!status)
        status = take_choice(t, b, choice);
    free(b->begin.params);
    free(b->best.params);
    return status;
}

enum halay_status tft_trainer_choose_levels(struct tft_trainer *t)
{
    int open = tft_schema_open_levels(&t->data->schema);
    struct trials *b = open ? calloc(1, sizeof *b) : NULL;

    if (!open)
        return HALAY_OK;
    if (!b) {
        halay_error(t->log, "no memory for a choice");
        return HALAY_ERR_NO_MEMORY;
    }
    b->open = open;
    enum halay_status status = choose(t, b);
    free(b);
    return status;
}
