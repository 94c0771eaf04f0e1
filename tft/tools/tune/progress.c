/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress. The file is read from its beginning each time: it has a line an evaluation.
 */
#include "tft/tools/tune/progress.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static double part(double done, double all)
{
    return all > 0 ? done / all : 0;
}

static double share_of(const struct tft_judging *how, const json_t *line)
{
    double epoch = json_number_value(json_object_get(line, "epoch")) - !how->is_by_epochs;
    double step = json_number_value(json_object_get(line, "step"));
    double share = fmax(part(step, how->max_steps), part(step, json_number_value(json_object_get(line, "steps"))));

    share = fmax(share, part(json_number_value(json_object_get(line, "seconds")), how->max_time));
    return fmin(fmax(share, part(epoch, how->epochs)), 1);
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
