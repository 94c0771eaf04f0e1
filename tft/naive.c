/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: residuals of the training span, sorted by entity and hour, and their quantiles.
 *
 * A residual counts if its own value was measured; the value before it may have been filled. Cleanup: zeroed first,
 * fini accepts half-built.
 */
#include "tft/naive.h"
#include "tft/calendar.h"
#include <math.h>
#include <stdlib.h>

static int hour_of(const struct tft_data *d, size_t entity, size_t row)
{
    struct tft_date date;

    if (tft_schema_counts(&d->schema))
        return 0;
    tft_time_to_date(tft_data_time(d, entity, row), &date);
    return date.hour;
}

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

/* All of one entity; scratch has room for its rows. */
static enum halay_status fit_entity(struct tft_naive *naive, size_t entity, const double *quantiles, double *scratch)
{
    const struct tft_data *d = naive->data;
    const struct tft_entity *e = &d->entities[entity];
    size_t end = tft_data_rows_before(d, entity, d->schema.split_end[TFT_TRAIN]), total = 0;
    size_t O = d->schema.target_count;
    double sum = 0;
    enum halay_status status = tft_data_check(d, e->first, end);

    if (status)
        return status;
    for (int hour = 0; hour < TFT_NAIVE_HOURS; hour++) {
        size_t n = 0;
        for (size_t i = naive->lag; i < end; i++) {
            size_t row = e->first + i;
            if (!d->present[row * O + naive->target] || hour_of(d, entity, row) != hour ||
                isnan(value_at(naive, row - naive->lag))) /* a row that `fill: drop` leaves out */
                continue;
            scratch[n] = value_at(naive, row) - value_at(naive, row - naive->lag);
            sum += fabs(scratch[n++]);
        }
        total += n;
        qsort(scratch, n, sizeof *scratch, compare);
        for (size_t q = 0; q < naive->quantile_count; q++)
            naive->residuals[(entity * TFT_NAIVE_HOURS + (size_t)hour) * naive->quantile_count + q] =
                quantile_of(scratch, n, quantiles[q]);
    }
    naive->mean_error[entity] = total ? sum / (double)total : 0;
    return HALAY_OK;
}

enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t lag,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *naive)
{
    struct tft_naive n = { .data = data, .target = target, .lag = lag, .quantile_count = quantile_count };
    size_t longest = 1;

    for (size_t e = 0; e < data->entity_count; e++)
        longest = data->entities[e].rows > longest ? data->entities[e].rows : longest;
    double *scratch = calloc(longest, sizeof *scratch);
    n.residuals = calloc(data->entity_count * TFT_NAIVE_HOURS * quantile_count, sizeof *n.residuals);
    n.mean_error = calloc(data->entity_count, sizeof *n.mean_error);
    if (!scratch || !n.residuals || !n.mean_error) {
        halay_error(log, "no memory for naive forecasts");
        free(scratch);
        tft_naive_fini(&n);
        return HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status = HALAY_OK;
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

int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t row, double *p, double *plain)
{
    const struct tft_data *d = naive->data;
    size_t hour;

    if (row < d->entities[entity].first + naive->lag)
        return 0;
    *plain = value_at(naive, row - naive->lag);
    if (isnan(*plain)) /* a row that `fill: drop` leaves out */
        return 0;
    hour = (size_t)hour_of(d, entity, row);
    for (size_t q = 0; q < naive->quantile_count; q++)
        p[q] = *plain + naive->residuals[(entity * TFT_NAIVE_HOURS + hour) * naive->quantile_count + q];
    return 1;
}
