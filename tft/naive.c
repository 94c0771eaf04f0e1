/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: residuals of the training span, sorted by entity and place in the season, and their quantiles.
 *
 * A residual counts if its own value was measured; the value before it may have been filled. Cleanup: zeroed first,
 * fini accepts half-built.
 */
#include "tft/naive.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* So many residuals at least have a P10; a place with less has the quantiles of all places. */
enum { RESIDUALS_LEAST = 10 };

static double value_at(const struct tft_naive *naive, size_t row)
{
    return naive->data->target[row * naive->data->schema.target_count + naive->target];
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Quantile of sorted values, linear between the two nearest; 0 of none. */
static double quantile_of(const double *sorted, size_t n, double quantile)
{
    if (!n)
        return 0;
    double at = quantile * (double)(n - 1);
    size_t below = (size_t)at;
    size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (at - (double)below);
}

/* Residuals of every step-th of the entity's first `end` rows, from `first` on, against the value `lag` before: sorted; how many. */
static size_t collect(const struct tft_naive *naive, const struct tft_entity *e, size_t lag, size_t first, size_t step,
                      size_t end, double *residuals)
{
    const struct tft_data *d = naive->data;
    size_t n = 0;

    first += first < lag ? (lag - first + step - 1) / step * step : 0;
    for (size_t i = first; i < end; i += step) {
        size_t row = e->first + i;
        double before = value_at(naive, row - lag);
        if (d->present[row * d->schema.target_count + naive->target] && !isnan(before)) /* NAN: of `fill: drop` */
            residuals[n++] = value_at(naive, row) - before;
    }
    qsort(residuals, n, sizeof *residuals, compare);
    return n;
}

static double mean_size(const double *values, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += fabs(values[i]);
    return n ? sum / (double)n : NAN;
}

/* One entity, `ahead` + 1 seasons ahead; scratch has room for twice its rows. */
static void fit_ahead(struct tft_naive *naive, size_t entity, size_t ahead, size_t end, const double *quantiles,
                      double *scratch)
{
    const struct tft_entity *e = &naive->data->entities[entity];
    size_t lag = (ahead + 1) * naive->season, Q = naive->quantile_count, places = naive->places;
    double *to = naive->residuals + (entity * naive->ahead + ahead) * places * Q, *of_place = scratch + e->rows;
    size_t all = collect(naive, e, lag, 0, 1, end, scratch);

    if (!ahead)
        naive->mean_error[entity] = mean_size(scratch, all);
    for (size_t place = 0; place < places; place++) {
        size_t n = collect(naive, e, lag, place, places, end, of_place);
        int has_few = n < RESIDUALS_LEAST;
        for (size_t q = 0; q < Q; q++)
            to[place * Q + q] =
                has_few ? quantile_of(scratch, all, quantiles[q]) : quantile_of(of_place, n, quantiles[q]);
    }
}

static enum halay_status fit_entity(struct tft_naive *naive, size_t entity, const double *quantiles, double *scratch)
{
    const struct tft_data *d = naive->data;
    size_t end = tft_data_rows_before(d, entity, d->schema.split_end[TFT_TRAIN]);
    enum halay_status status = tft_data_check(d, d->entities[entity].first, end);

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
    n.places = data->schema.seasons[0];
    for (size_t e = 0; e < data->entity_count; e++)
        longest = data->entities[e].rows > longest ? data->entities[e].rows : longest;
    if (!halay_mul_overflows(data->entity_count * quantile_count, n.ahead * n.places, &count)) {
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
    const struct tft_data *d = naive->data;
    size_t first = d->entities[entity].first, row = origin + h, ahead = h / naive->season;
    size_t lag = (ahead + 1) * naive->season, Q = naive->quantile_count;

    if (row < first + lag || isnan(value_at(naive, row - lag))) /* NAN: a row that `fill: drop` leaves out */
        return 0;
    *plain = value_at(naive, row - lag);
    const double *of_place =
        naive->residuals + ((entity * naive->ahead + ahead) * naive->places + (row - first) % naive->places) * Q;
    for (size_t q = 0; q < Q; q++)
        p[q] = *plain + of_place[q];
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
