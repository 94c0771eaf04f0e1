/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: residuals of the training span, sorted by entity and phase in the season, and their quantiles.
 *
 * Only measured values count: a filled one may know what comes after the origin. Cleanup: zeroed first, fini accepts
 * half-built.
 */
#include "tft/score/naive.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fewest residuals that have a P10; a phase with fewer gets the quantiles of all phases. */
enum { RESIDUALS_LEAST = 10 };

/* A value of the entity's row; NAN: not measured. */
static double value_at(const struct tft_naive *naive, const struct tft_entity *e, size_t row)
{
    size_t at = (e->first + row) * naive->data->schema.target_count + naive->target;

    return naive->data->present[at] ? naive->data->target[at] : NAN;
}

/* The value `lag` steps before the row, or the latest whole number of seasons before that; NAN: there is none. */
static double value_before(const struct tft_naive *naive, const struct tft_entity *e, size_t row, size_t lag)
{
    double value = NAN;

    for (; lag <= row && isnan(value); lag += naive->season)
        value = value_at(naive, e, row - lag);
    return value;
}

static int compare_residuals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantile of sorted values, linear between the two nearest; 0 of none. */
static double residual_quantile(const double *sorted, size_t n, double quantile)
{
    if (!n)
        return 0;
    double at = quantile * (double)(n - 1);
    size_t below = (size_t)at;
    size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (at - (double)below);
}

/* Residuals of every step-th of the entity's first `end` rows, from `first` on, against the value `lag` before: sorted;
 * how many. */
static size_t collect(const struct tft_naive *naive, const struct tft_entity *e, size_t lag, size_t first, size_t step,
                      size_t end, double *residuals)
{
    size_t n = 0;

    for (size_t row = first; row < end; row += step) {
        double residual = value_at(naive, e, row) - value_before(naive, e, row, lag);
        if (!isnan(residual))
            residuals[n++] = residual;
    }
    qsort(residuals, n, sizeof *residuals, compare_residuals);
    return n;
}

/* Over the training values that have another one exactly a season before. */
static double mean_error_of(const struct tft_naive *naive, const struct tft_entity *e, size_t end)
{
    double sum = 0;
    size_t n = 0;

    for (size_t row = naive->season; row < end; row++) {
        double error = fabs(value_at(naive, e, row) - value_at(naive, e, row - naive->season));
        sum += isnan(error) ? 0 : error;
        n += !isnan(error);
    }
    return n ? sum / (double)n : NAN;
}

/* One entity, `ahead` + 1 seasons ahead; scratch has room for twice its rows. */
static void fit_ahead(struct tft_naive *naive, size_t entity, size_t ahead, size_t end, const double *quantiles,
                      double *scratch)
{
    const struct tft_entity *e = &naive->data->entities[entity];
    size_t lag = (ahead + 1) * naive->season, Q = naive->quantile_count, phases = naive->phases;
    double *to = naive->residuals + (entity * naive->ahead + ahead) * phases * Q, *of_phase = scratch + e->rows;
    size_t all = collect(naive, e, lag, 0, 1, end, scratch);

    for (size_t phase = 0; phase < phases; phase++) {
        size_t n = collect(naive, e, lag, phase, phases, end, of_phase);
        int has_few = n < RESIDUALS_LEAST;
        for (size_t q = 0; q < Q; q++)
            to[phase * Q + q] =
                has_few ? residual_quantile(scratch, all, quantiles[q]) : residual_quantile(of_phase, n, quantiles[q]);
    }
}

static enum halay_status fit_entity(struct tft_naive *naive, size_t entity, const double *quantiles, double *scratch)
{
    const struct tft_data *d = naive->data;
    size_t end = tft_data_rows_before(d, entity, d->schema.split_end[TFT_TRAIN]);
    enum halay_status status = tft_data_check(d, d->entities[entity].first, d->entities[entity].rows);

    if (!status)
        naive->mean_error[entity] = mean_error_of(naive, &d->entities[entity], end);
    for (size_t ahead = 0; ahead < naive->ahead && !status; ahead++)
        fit_ahead(naive, entity, ahead, end, quantiles, scratch);
    return status;
}

enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t season,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *naive)
{
    struct tft_naive n = { .data = data, .target = target, .season = season, .quantile_count = quantile_count };
    size_t longest = 1, count;
    double *scratch = NULL;
    enum halay_status status = HALAY_OK;

    n.ahead = (data->schema.horizon + season - 1) / season;
    n.phases = data->schema.seasons[0];
    for (size_t e = 0; e < data->entity_count; e++)
        longest = data->entities[e].rows > longest ? data->entities[e].rows : longest;
    if (!halay_mul_overflows(data->entity_count * quantile_count, n.ahead * n.phases, &count)) {
        scratch = calloc(2 * longest, sizeof *scratch);
        n.residuals = calloc(count, sizeof *n.residuals);
        n.mean_error = calloc(data->entity_count, sizeof *n.mean_error);
    }
    if (!scratch || !n.residuals || !n.mean_error) {
        halay_error(log, "no memory for naive forecasts");
        status = HALAY_ERR_NO_MEMORY;
    }
    for (size_t e = 0; e < data->entity_count && !status; e++)
        status = fit_entity(&n, e, quantiles, scratch);
    free(scratch);
    if (status)
        tft_naive_fini(&n);
    else
        *naive = n;
    return status;
}

void tft_naive_fini(struct tft_naive *naive)
{
    free(naive->residuals);
    free(naive->mean_error);
    *naive = (struct tft_naive){ 0 };
}

int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t origin, size_t h, double *p, double *plain)
{
    const struct tft_entity *e = &naive->data->entities[entity];
    size_t row = origin + h - e->first, ahead = h / naive->season, Q = naive->quantile_count;
    double value = value_before(naive, e, row, (ahead + 1) * naive->season);

    if (isnan(value))
        return 0;
    const double *of_phase =
        naive->residuals + ((entity * naive->ahead + ahead) * naive->phases + row % naive->phases) * Q;
    for (size_t q = 0; q < Q; q++)
        p[q] = value + of_phase[q];
    *plain = value;
    return 1;
}

void tft_naive_title(const char *season, size_t horizon, char *text, size_t size)
{
    size_t steps = strtoul(season, NULL, 10);

    if (horizon <= steps)
        snprintf(text, size, "value of %zu step%s before", steps, steps == 1 ? "" : "s");
    else if (steps == 1)
        snprintf(text, size, "last value repeated");
    else
        snprintf(text, size, "last %zu steps repeated", steps);
}

/* Append a key to the advice. */
static void advise(char *advice, size_t size, int is_set, const char *key)
{
    size_t used = strlen(advice);

    if (!is_set)
        snprintf(advice + used, size - used, "%s'%s'", used ? ", " : "", key);
}

void tft_naive_warning(const struct tft_schema *s, size_t target, const char *median, double q_risk, size_t season,
                       double naive_q_risk, char *text, size_t size)
{
    size_t first = target < s->target_count ? target : 0, end = target < s->target_count ? target + 1 : s->target_count;
    int window = 1, relative = 1, blend = 1;
    char number[24], title[64], advice[100] = "";

    for (size_t o = first; o < end; o++) {
        const struct tft_input *input = &s->inputs[s->targets[o]];
        window &= input->per == TFT_PER_WINDOW;
        blend &= input->blend;
        relative &= input->relative == TFT_RELATIVE_SEASON;
    }
    advise(advice, sizeof advice, window, "per: window");
    advise(advice, sizeof advice, blend, "blend: season");
    advise(advice, sizeof advice, relative || s->seasons[0] > s->encoder, "relative_to: season");
    snprintf(number, sizeof number, "%zu", season);
    tft_naive_title(number, s->horizon, title, sizeof title);
    snprintf(text, size, "no better than naive: the forecast's %s is %.4f, that of '%s' %.4f%s%s", median, q_risk,
             title, naive_q_risk, *advice ? "; for levels that move, the target (schema) can have " : "", advice);
}
