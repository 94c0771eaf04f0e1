/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: residuals of the training span, by entity and phase in the season, and their quantiles. There are
 * rows times horizon residuals and few quantiles, so that only the places of these are put in order (C. A. R. Hoare,
 * "Algorithm 65: find", CACM 4(7), 1961).
 *
 * Only measured values count: a filled one may know what follows the origin.
 */
#include "tft/core/score/naive.h"
#include "base/bins.h"
#include "base/number_text.h"
#include "tft/core/data/windows.h"
#include "tft/core/score/scores.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fewest residuals that have a P10; a phase with fewer gets the quantiles of all phases. At most RESIDUALS_MAX
 * in all are looked at, unless that leaves fewer than RESIDUALS_ENOUGH for each quantile: a horizon of 720 steps has as
 * many times those of the last value as of a season of 720. */
enum { RESIDUALS_MIN = 10, RESIDUALS_ENOUGH = 100, RESIDUALS_MAX = 20000000, ROUNDS_MAX = 64 };

/* Forecasts that are better by less than this count as equal. */
static const double margin = .01;

/* Returns the value of the entity's row; NAN: not measured. */
static double value_at(const struct tft_naive *naive, const struct tft_entity *e, size_t row)
{
    size_t at = (e->first + row) * naive->data->schema.target_count + naive->target;

    return naive->data->present[at] ? naive->data->target[at] : NAN;
}

/* Returns the value `lag` steps before the row, or the latest whole number of seasons before that; NAN without one. */
static double value_before(const struct tft_naive *naive, const struct tft_entity *e, size_t row, size_t lag)
{
    double value = NAN;

    for (; lag <= row && isnan(value); lag += naive->step)
        value = value_at(naive, e, row - lag);
    return value;
}

/* Returns the line through the first value and the last one that is `lag` or more steps before the row; NAN: they are
 * one. */
static double line_at(const struct tft_naive *naive, size_t entity, size_t row, size_t lag)
{
    const struct tft_entity *e = &naive->data->entities[entity];
    size_t first = naive->first[entity], last = row - lag;

    if (lag > row || first > last)
        return NAN;
    while (last > first && isnan(value_at(naive, e, last)))
        last--;
    double a = value_at(naive, e, first), b = value_at(naive, e, last);
    return last > first ? b + (b - a) / (double)(last - first) * (double)(row - last) : NAN;
}

/* Returns the forecast of an entity's row from `lag` steps before; NAN without one. */
static double forecast_at(const struct tft_naive *naive, size_t entity, size_t row, size_t lag)
{
    return naive->season == TFT_NAIVE_DRIFT ? line_at(naive, entity, row, lag)
                                            : value_before(naive, &naive->data->entities[entity], row, lag);
}

/* Puts the value there that sorting all of them, from `low` to `high`, would; none before it is larger, none after it
 * smaller. What takes too long to divide is sorted. */
static void find_place(double *low, double *high, const double *place)
{
    for (int round = 0; low < high && round < ROUNDS_MAX; round++) {
        const double pivot = low[(high - low) / 2];
        double *i = low, *j = high;
        for (; i <= j; i++, j--) {
            while (*i < pivot)
                i++;
            while (*j > pivot)
                j--;
            if (i > j)
                break;
            const double value = *i;
            *i = *j;
            *j = value;
        }
        if (place > j && place < i)
            return;
        if (place <= j)
            high = j;
        else
            low = i;
    }
    if (low < high)
        halay_sort_doubles(low, (size_t)(high - low) + 1);
}

/* Returns the quantile of values, linear between the two nearest; 0 of none. Changes their order. */
static double residual_quantile(double *values, size_t n, double quantile)
{
    if (!n)
        return 0;
    const double at = quantile * (double)(n - 1);
    const double *below = values + (size_t)at, *last = values + n - 1;

    find_place(values, values + n - 1, below);
    double above = below < last ? below[1] : *below;
    for (const double *v = below + 1; v <= last; v++)
        above = *v < above ? *v : above;
    return *below + (above - *below) * (at - (double)(size_t)at);
}

/* Collects residuals of every step-th of the entity's first `end` rows, from `first` on, against the forecast from
 * `lag` before; returns how many. */
static size_t collect_residuals(const struct tft_naive *naive, size_t entity, size_t lag, size_t first, size_t step,
                                size_t end, double *residuals)
{
    size_t n = 0, rows = end > first ? (end - first + step - 1) / step : 0;
    size_t count = rows < naive->residuals_max ? rows : naive->residuals_max;

    for (size_t i = 0; i < count; i++) {
        size_t row = first + step * tft_spread(i, count, rows);
        double residual = value_at(naive, &naive->data->entities[entity], row) - forecast_at(naive, entity, row, lag);
        if (!isnan(residual))
            residuals[n++] = residual;
    }
    return n;
}

/* Fits one entity, `ahead` + 1 seasons ahead; scratch has room for its rows. */
static void fit_ahead(struct tft_naive *naive, size_t entity, size_t ahead, size_t end, const double *quantiles,
                      double *scratch)
{
    const size_t lag = (ahead + 1) * naive->step, Q = naive->quantile_count, phases = naive->phases;
    double *to = naive->residuals + (entity * naive->ahead + ahead) * phases * Q;
    const double *of_all = NULL; /* quantiles of all phases, found once */

    for (size_t phase = 0; phase < phases; phase++, to += Q) {
        size_t n = collect_residuals(naive, entity, lag, phase, phases, end, scratch);
        if (n < RESIDUALS_MIN && phases > 1) {
            if (of_all) {
                memcpy(to, of_all, Q * sizeof *to);
                continue;
            }
            n = collect_residuals(naive, entity, lag, 0, 1, end, scratch);
            of_all = to;
        }
        for (size_t q = 0; q < Q; q++)
            to[q] = residual_quantile(scratch, n, quantiles[q]);
    }
}

/* Returns the first measured row of an entity; SIZE_MAX without one. */
static size_t first_of(const struct tft_naive *naive, const struct tft_entity *e)
{
    size_t row = 0;

    while (row < e->rows && isnan(value_at(naive, e, row)))
        row++;
    return row < e->rows ? row : SIZE_MAX;
}

static enum halay_status fit_entity(struct tft_naive *naive, size_t entity, const double *quantiles, double *scratch)
{
    const struct tft_data *d = naive->data;
    const size_t end = tft_data_split_rows(d, entity, TFT_TRAIN);
    enum halay_status status = tft_data_check(d, d->entities[entity].first, d->entities[entity].rows);

    if (status)
        return status;
    naive->first[entity] = first_of(naive, &d->entities[entity]);
    for (size_t ahead = 0; ahead < naive->ahead; ahead++)
        fit_ahead(naive, entity, ahead, end, quantiles, scratch);
    return HALAY_OK;
}

size_t tft_naive_seasons(const struct tft_schema *schema, size_t seasons[TFT_NAIVE_MAX])
{
    size_t n = 0;

    for (size_t k = 0; k < schema->season_count; k++)
        seasons[n++] = schema->seasons[k];
    if (seasons[0] != 1)
        seasons[n++] = 1;
    seasons[n++] = TFT_NAIVE_DRIFT;
    return n;
}

/* Sets sizes, by the schema. */
static void set_sizes(struct tft_naive *n)
{
    const struct tft_schema *s = &n->data->schema;

    n->step = n->season == TFT_NAIVE_DRIFT ? 1 : n->season;
    n->ahead = (s->horizon + n->step - 1) / n->step;
    n->phases = n->step > 1 ? s->seasons[0] : 1;
    n->residuals_max = RESIDUALS_MAX / (n->data->entity_count * n->ahead * n->phases + 1);
    if (n->residuals_max < RESIDUALS_ENOUGH)
        n->residuals_max = RESIDUALS_ENOUGH;
}

enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t season,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *n)
{
    struct halay_region *memory = &n->memory;
    enum halay_status status = HALAY_OK;
    size_t longest = 1, entities = data->entity_count;
    double *scratch;

    *n = (struct tft_naive){ .data = data, .target = target, .season = season, .quantile_count = quantile_count };
    set_sizes(n);
    for (size_t e = 0; e < entities; e++)
        longest = data->entities[e].rows > longest ? data->entities[e].rows : longest;
    scratch = halay_region_alloc(memory, longest, sizeof *scratch);
    n->first = halay_region_alloc(memory, entities, sizeof *n->first);
    n->residuals = halay_region_alloc(memory, entities * quantile_count, n->ahead * n->phases * sizeof *n->residuals);
    if (memory->failed)
        status = halay_no_memory(log, "for naive forecasts");
    for (size_t e = 0; e < entities && !status; e++)
        status = fit_entity(n, e, quantiles, scratch);
    if (status)
        tft_naive_fini(n);
    return status;
}

void tft_naive_fini(struct tft_naive *naive)
{
    halay_region_fini(&naive->memory);
    *naive = (struct tft_naive){ 0 };
}

int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t origin, size_t h, double *p, double *plain)
{
    const struct tft_entity *e = &naive->data->entities[entity];
    size_t row = origin + h - e->first, ahead = h / naive->step, Q = naive->quantile_count;
    double value = forecast_at(naive, entity, row, (ahead + 1) * naive->step);

    if (isnan(value))
        return 0;
    const double *of_phase =
        naive->residuals + ((entity * naive->ahead + ahead) * naive->phases + row % naive->phases) * Q;
    for (size_t q = 0; q < Q; q++)
        p[q] = value + of_phase[q];
    *plain = value;
    return 1;
}

void tft_naive_key(size_t season, char *text, size_t size)
{
    if (season == TFT_NAIVE_DRIFT)
        snprintf(text, size, "drift");
    else
        snprintf(text, size, "%zu", season);
}

void tft_naive_title(const char *key, size_t horizon, char *text, size_t size)
{
    size_t steps = strtoul(key, NULL, 10);

    if (!strcmp(key, "drift"))
        snprintf(text, size, "last value and drift");
    else if (horizon <= steps)
        snprintf(text, size, "value of %zu step%s before", steps, steps == 1 ? "" : "s");
    else if (steps == 1)
        snprintf(text, size, "last value repeated");
    else
        snprintf(text, size, "last %zu steps repeated", steps);
}

int tft_naive_wins(double q_risk, const struct tft_naive_best *best)
{
    return q_risk > 0 && isfinite(best->q_risk) && q_risk >= (1 - margin) * best->q_risk;
}

int tft_naive_warning(const struct tft_schema *s, size_t target, double median, double q_risk,
                      const struct tft_naive_best *best, char *text, size_t size)
{
    size_t first = target < s->target_count ? target : 0, end = target < s->target_count ? target + 1 : s->target_count;
    int window = 1, blend = 1;
    char name[32], key[24], title[64], advice[100] = "";

    if (!tft_naive_wins(q_risk, best))
        return 0;
    for (size_t o = first; o < end; o++) {
        const struct tft_input *input = &s->inputs[s->targets[o]];
        window &= input->per == TFT_PER_WINDOW;
        blend &= input->blend;
    }
    if (!window)
        halay_append(advice, sizeof advice, "'per: window'");
    if (!blend)
        halay_append(advice, sizeof advice, "%s'blend: season'", *advice ? ", " : "");
    tft_naive_key(best->season, key, sizeof key);
    tft_naive_title(key, s->horizon, title, sizeof title);
    tft_quantile_name(median, name, sizeof name);
    halay_snprintf(text, size, "no better than naive: the forecast's %s is %.4f, %sthat of '%s%s' %.4f%s%s", name,
                   q_risk, q_risk < best->q_risk ? "less than 1 % below " : "", title, best->is_plain ? ", plain" : "",
                   best->q_risk, *advice ? "; for levels that move, the target (schema) can have " : "", advice);
    return 1;
}
