/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials. A file of metrics is read from its beginning each time: it has a line an evaluation.
 */
#include "tft/tools/tune/trials.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SIZE = 16 };

const char *const tft_trial_states[] = { "running", "done", "stopped", "cut", "failed", NULL };

struct tft_trial *tft_trials_add(struct tft_trials *t, const double *point)
{
    if (t->count == t->size) {
        size_t size = t->size ? 2 * t->size : FIRST_SIZE;
        struct tft_trial *list = realloc(t->list, size * sizeof *list);
        if (!list)
            return NULL;
        t->list = list;
        t->size = size;
    }
    struct tft_trial *trial = &t->list[t->count++];
    *trial = (struct tft_trial){ .value = INFINITY };
    memcpy(trial->point, point, sizeof trial->point);
    return trial;
}

void tft_trials_fini(struct tft_trials *t)
{
    free(t->list);
    *t = (struct tft_trials){ 0 };
}

int tft_trials_have(const struct tft_trials *t, const double *point, size_t settings)
{
    for (size_t i = 0; i < t->count; i++)
        if (!memcmp(t->list[i].point, point, settings * sizeof *point))
            return 1;
    return 0;
}

size_t tft_trials_best(const struct tft_trials *t)
{
    size_t best = t->count;

    for (size_t i = 0; i < t->count; i++)
        if (isfinite(t->list[i].value) && (best == t->count || t->list[i].value < t->list[best].value))
            best = i;
    return best;
}

static int is_at_end(const struct tft_trial *t)
{
    return t->state == TFT_TRIAL_DONE;
}

static int is_better(const struct tft_trial *a, const struct tft_trial *b)
{
    if (isfinite(a->value) != isfinite(b->value))
        return isfinite(a->value);
    if (is_at_end(a) != is_at_end(b))
        return is_at_end(a);
    if (a->rungs != b->rungs)
        return a->rungs > b->rungs;
    return a->value < b->value;
}

size_t tft_trials_rank(const struct tft_trials *t, size_t *order)
{
    size_t n = 0;

    for (size_t i = 0; i < t->count; i++) {
        size_t at = n;
        if (t->list[i].state == TFT_TRIAL_RUNNING)
            continue;
        for (; at && is_better(&t->list[i], &t->list[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    return n;
}

double tft_rung_share(size_t rung, size_t rungs, int eta)
{
    return pow(eta, (double)rung - (double)rungs);
}

int tft_halving_keeps(const struct tft_trials *t, size_t trial, size_t rung, int eta)
{
    size_t seen = 0, better = 0;

    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].rungs <= rung)
            continue;
        seen++;
        better += t->list[i].at_rung[rung] < t->list[trial].at_rung[rung];
    }
    return better < (seen + (size_t)eta - 1) / (size_t)eta;
}

/* ---- progress ---- */

const char *const tft_goal_words[] = { "valid_loss", "q_risk", NULL };

static double mean_of(const json_t *numbers)
{
    const char *key;
    const json_t *value;
    double sum = 0;
    size_t n = 0;

    json_object_foreach((json_t *)numbers, key, value) {
        sum += json_is_number(value) ? json_number_value(value) : NAN;
        n++;
    }
    return n ? sum / (double)n : NAN;
}

static double value_of(const struct tft_judging *how, const json_t *line)
{
    const json_t *loss = json_object_get(line, "valid_loss");

    if (how->goal == TFT_GOAL_Q_RISK)
        return mean_of(json_object_get(line, "valid_q_risk"));
    return json_is_number(loss) ? json_number_value(loss) : NAN;
}

static double share_done(double done, double all)
{
    return all > 0 ? done / all : 0;
}

static double share_of(const struct tft_judging *how, const json_t *line)
{
    double epoch = json_number_value(json_object_get(line, "epoch")) - !how->is_by_epochs;
    double step = json_number_value(json_object_get(line, "step"));
    double share =
        fmax(share_done(step, how->max_steps), share_done(step, json_number_value(json_object_get(line, "steps"))));

    share = fmax(share, share_done(json_number_value(json_object_get(line, "seconds")), how->max_time));
    return fmin(fmax(share, share_done(epoch, how->epochs)), 1);
}

static void take_line(const struct tft_judging *how, const json_t *line, struct tft_trial *t)
{
    double value = value_of(how, line);

    if (value < t->value)
        t->value = value;
    t->share = share_of(how, line);
    t->step = json_integer_value(json_object_get(line, "step"));
    t->seconds = json_number_value(json_object_get(line, "seconds"));
}

int tft_progress_take(const char *path, const struct tft_judging *how, struct tft_trial *t)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    ssize_t length;
    int is_at_rung = 0;

    t->value = INFINITY;
    while (file && !is_at_rung && (length = getline(&text, &size, file)) > 0 && text[length - 1] == '\n') {
        json_t *line = json_loads(text, 0, NULL);
        if (line)
            take_line(how, line, t);
        json_decref(line);
        is_at_rung = t->rungs < how->rungs && isfinite(t->value) &&
                     t->share >= tft_rung_share(t->rungs, how->rungs, how->eta) && t->share < 1;
    }
    free(text);
    if (file)
        fclose(file);
    if (is_at_rung)
        t->at_rung[t->rungs] = t->value;
    return is_at_rung;
}
