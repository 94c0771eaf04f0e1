/* SPDX-License-Identifier: Apache-2.0
 *
 * Search.
 */
#include "tft/tools/tune/search.h"
#include "tft/tools/tune/parzen.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_TRIALS = 8, DRAWS = 64, ATTEMPTS = 2000, IMPORTANCE_LEAST = 8, GRID = 64 };

const char *const tft_search_words[] = { "tpe", "random", "grid", NULL };

/* Returns nonzero if the point is valid and was not tried. */
static int is_new(const struct tft_search *s, const struct tft_trials *trials, const double *point)
{
    return !tft_trials_have(trials, point, s->space->count) && s->is_good(s->arg, point);
}

/* ---- without earlier trials -------------------------------------------------------------------------------------- */

static void draw(const struct tft_search *s, struct tft_random *random, double *point)
{
    const struct tft_parzen nothing = { .space = s->space };

    tft_parzen_draw(&nothing, random, point);
}

/*
 * Points that fill the space evenly: each coordinate advances by an irrational step, a power of the root of
 * x^(keys + 1) = x + 1 (Roberts, The Unreasonable Effectiveness of Quasirandom Sequences, 2018), from a start that
 * follows from the seed.
 */
static void fill(const struct tft_search *s, size_t number, double *point)
{
    size_t keys = s->space->count;
    struct tft_random begin = tft_random_begin(s->seed, UINT64_MAX);
    double root = 1.5, step = 1;

    for (int i = 0; i < 64; i++)
        root = pow(1 + root, 1 / ((double)keys + 1));
    for (size_t d = 0; d < keys; d++) {
        step /= root;
        double coordinate = tft_random_share(&begin) + (double)(number + 1) * step;
        coordinate -= floor(coordinate);
        point[d] =
            s->space->settings[d].is_ordered ? coordinate : floor(coordinate * (double)s->space->settings[d].count);
    }
    tft_space_snap(s->space, point);
}

/* ---- from earlier trials ----------------------------------------------------------------------------------------- */

/* Trials in two groups in one list, which holds all of them; how many are the best ones. 0: too few. */
static size_t divide(const struct tft_trials *trials, size_t *order, size_t *count)
{
    size_t n = tft_trials_rank(trials, order), best = (n + 4) / 5;

    *count = n;
    if (n < FIRST_TRIALS)
        return 0;
    for (size_t i = 0; i < trials->count; i++)
        if (trials->list[i].state == TFT_TRIAL_RUNNING)
            order[(*count)++] = i;
    return best < 25 ? best : 25;
}

static int choose(const struct tft_search *s, const struct tft_trials *trials, const size_t *order, size_t best,
                  size_t count, struct tft_random *random, double *point)
{
    const struct tft_parzen good = tft_parzen_of(s->space, trials, order, best, s->space->count);
    const struct tft_parzen bad = tft_parzen_of(s->space, trials, order + best, count - best, s->space->count);
    double drawn[TFT_SETTINGS_MAX], ratio, highest = -INFINITY;

    for (int i = 0; i < DRAWS; i++) {
        tft_parzen_draw(&good, random, drawn);
        ratio = tft_parzen_log_density(&good, drawn) - tft_parzen_log_density(&bad, drawn);
        if (ratio > highest && is_new(s, trials, drawn)) {
            highest = ratio;
            memcpy(point, drawn, s->space->count * sizeof *point);
        }
    }
    return highest > -INFINITY;
}

int tft_search_next(const struct tft_search *s, const struct tft_trials *trials, double *point)
{
    struct tft_random random = tft_random_begin(s->seed, trials->count);
    size_t *order = calloc(trials->count + 1, sizeof *order), best = 0, count = 0;
    int found = 0;

    if (s->kind == TFT_SEARCH_TPE && order)
        best = divide(trials, order, &count);
    memset(point, 0, TFT_SETTINGS_MAX * sizeof *point); /* points are compared as bytes */
    if (best)
        found = choose(s, trials, order, best, count, &random, point);
    const size_t points = s->kind == TFT_SEARCH_GRID ? tft_space_size(s->space, TFT_GRID_MAX) : 0;
    for (size_t i = 0; i < points && !found; i++) {
        tft_space_point_at(s->space, i, point);
        found = is_new(s, trials, point);
    }
    for (int i = 0; i < ATTEMPTS && !found && !points; i++) {
        if (s->kind == TFT_SEARCH_TPE && i == 0)
            fill(s, trials->count, point);
        else
            draw(s, &random, point);
        found = is_new(s, trials, point);
    }
    free(order);
    return found;
}

/* ---- importance -------------------------------------------------------------------------------------------------- */

/* The mean, over the density of all, of how far that of the best is from it: (best / all - 1)^2. */
static double deviation(const struct tft_parzen *best, const struct tft_parzen *all, size_t setting)
{
    const struct tft_setting *s = &all->space->settings[setting];
    size_t places = s->is_ordered ? GRID : s->count;
    double sum = 0, weight = 0;

    for (size_t k = 0; k < places; k++) {
        double coordinate = s->is_ordered ? ((double)k + 0.5) / GRID : (double)k;
        double density = tft_parzen_density_along(all, setting, coordinate);
        double ratio = tft_parzen_density_along(best, setting, coordinate) / density - 1;
        sum += density * ratio * ratio;
        weight += density;
    }
    return sum / weight;
}

int tft_search_importance(const struct tft_space *space, const struct tft_trials *trials, double *importance)
{
    size_t *order = calloc(trials->count + 1, sizeof *order), n = order ? tft_trials_rank(trials, order) : 0;
    double sum = 0;

    if (n >= IMPORTANCE_LEAST) {
        const struct tft_parzen best = tft_parzen_of(space, trials, order, (n + 3) / 4, 1);
        const struct tft_parzen all = tft_parzen_of(space, trials, order, n, 1);
        for (size_t d = 0; d < space->count; d++)
            sum += importance[d] = deviation(&best, &all, d);
    }
    free(order);
    for (size_t d = 0; d < space->count && sum > 0; d++)
        importance[d] /= sum;
    return sum > 0;
}
