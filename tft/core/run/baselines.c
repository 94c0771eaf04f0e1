/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/baselines.h"
#include "tft/core/run/damped_trend.h"
#include "tft/core/run/seasonal.h"
#include "tft/core/run/theta.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows that theta and the damped trend see, and the least that show a trend; the most that others see; seasons that a
 * mean is of. */
enum { TREND_ROWS = 512, TREND_LEAST = 6, ROWS_MAX = 2048, MEAN_OF = 5 };

static size_t first_season(const struct tft_schema *s)
{
    return s->season_count ? s->seasons[0] : 1;
}

size_t tft_baselines_of(const struct tft_schema *s, struct tft_baseline all[TFT_BASELINES_MAX])
{
    size_t n = 0;

    all[n++] = (struct tft_baseline){ TFT_BASE_LAST, 0 };
    for (size_t k = 0; k < s->season_count; k++) {
        size_t season = s->seasons[k];
        if (season > 1 && season <= ROWS_MAX)
            all[n++] = (struct tft_baseline){ TFT_BASE_SEASON, season };
        if (season > 1 && 2 * season <= ROWS_MAX)
            all[n++] = (struct tft_baseline){ TFT_BASE_MEAN, season };
    }
    all[n++] = (struct tft_baseline){ TFT_BASE_DRIFT, 0 };
    all[n++] = (struct tft_baseline){ TFT_BASE_THETA, 0 };
    all[n++] = (struct tft_baseline){ TFT_BASE_DAMPED, 0 };
    return n;
}

size_t tft_baselines_rows(const struct tft_schema *s)
{
    size_t rows = TREND_ROWS;

    for (size_t k = 0; k < s->season_count; k++) {
        size_t seen = s->seasons[k] <= ROWS_MAX ? MEAN_OF * s->seasons[k] : 0;
        seen = seen > ROWS_MAX ? ROWS_MAX : seen;
        rows = seen > rows ? seen : rows;
    }
    return rows;
}

void tft_baseline_title(const struct tft_baseline *b, char *text, size_t size)
{
    static const char *const titles[] = { [TFT_BASE_LAST] = "last value",
                                          [TFT_BASE_DRIFT] = "drift",
                                          [TFT_BASE_THETA] = "theta",
                                          [TFT_BASE_DAMPED] = "damped trend" };

    if (b->kind == TFT_BASE_SEASON)
        snprintf(text, size, "season of %zu", b->season);
    else if (b->kind == TFT_BASE_MEAN)
        snprintf(text, size, "mean of seasons of %zu", b->season);
    else
        snprintf(text, size, "%s", titles[b->kind]);
}

/* ---- the past ---- */

enum halay_status tft_history_init(const struct tft_schema *s, struct tft_history *h)
{
    size_t season = first_season(s);

    *h = (struct tft_history){ .season = season, .most = tft_baselines_rows(s) };
    h->x = calloc(h->most, sizeof *h->x);
    h->z = calloc(TREND_ROWS, sizeof *h->z);
    h->index = calloc(season <= TREND_ROWS ? season : 1, sizeof *h->index);
    if (h->x && h->z && h->index)
        return HALAY_OK;
    tft_history_fini(h);
    return HALAY_ERR_NO_MEMORY;
}

void tft_history_fini(struct tft_history *h)
{
    free(h->x);
    free(h->z);
    free(h->index);
    *h = (struct tft_history){ 0 };
}

static double unit_of(const double *x, size_t n, size_t season)
{
    double sum = 0;
    size_t count = 0, lag = n > season ? season : 1;

    for (size_t t = lag; t < n; t++) {
        double distance = fabs(x[t] - x[t - lag]);
        sum += isnan(distance) ? 0 : distance;
        count += !isnan(distance);
    }
    return count ? sum / (double)count : 0;
}

/* Rows before the origin that count: from a measured one on, and none before more than a whole encoder's that were not
 * measured. At least one of the latest TREND_ROWS is. */
static size_t rows_of(const struct tft_data *d, const struct tft_window *w, size_t target, size_t most)
{
    size_t rows = 0, O = d->schema.target_count,
           gap = d->schema.encoder < TREND_ROWS ? d->schema.encoder : TREND_ROWS - 1;

    for (size_t back = 1; back <= most && back - rows <= gap + 1; back++)
        rows = d->present[(w->origin - back) * O + target] ? back : rows;
    return rows;
}

enum halay_status tft_history_read(struct tft_history *h, const struct tft_data *d, const struct tft_window *w,
                                   size_t target)
{
    size_t before = w->origin - d->entities[w->entity].first, most = before < h->most ? before : h->most;
    enum halay_status status = tft_data_check(d, w->origin - most, most);

    if (status)
        return status;
    h->rows = rows_of(d, w, target, most);
    for (size_t t = 0; t < h->rows; t++) {
        size_t row = w->origin - h->rows + t;
        int is_measured = d->present[row * d->schema.target_count + target];
        h->x[t] = is_measured ? tft_data_forecast_target(d, row, target) : NAN;
    }
    h->unit = unit_of(h->x, h->rows, h->season);
    h->has_z = 0;
    return HALAY_OK;
}

/* Interpolate what is missing; after the last measured value, repeat it. */
static void fill_z(struct tft_history *h)
{
    const double *x = h->x + (h->rows - h->z_rows);
    size_t last = 0;

    while (isnan(x[last])) /* of a long past, the row that is first here need not be measured */
        last++;
    for (size_t t = 0; t <= last; t++)
        h->z[t] = x[last];
    for (size_t t = last + 1; t < h->z_rows; t++) {
        h->z[t] = isnan(x[t]) ? h->z[last] : x[t];
        for (size_t i = last + 1; i < t && !isnan(x[t]); i++)
            h->z[i] = h->z[last] + (x[t] - h->z[last]) * (double)(i - last) / (double)(t - last);
        last = isnan(x[t]) ? last : t;
    }
}

static void make_z(struct tft_history *h)
{
    h->z_rows = h->rows < TREND_ROWS ? h->rows : TREND_ROWS;
    fill_z(h);
    if (h->season <= TREND_ROWS && tft_seasonal_fit(h->z, h->z_rows, h->season, h->index))
        for (size_t t = 0; t < h->z_rows; t++)
            h->z[t] -= h->index[t % h->season];
    h->has_z = 1;
}

/* ---- forecasts ---- */

/* The mean of the last `count` measured values that are a whole number of seasons before step h. */
static double season_at(const struct tft_history *history, size_t season, size_t h, size_t count)
{
    double sum = 0;
    size_t n = 0, back = season - h % season;

    for (size_t seen = 0; back <= history->rows && n < count && (count == 1 || seen < count); back += season, seen++) {
        double value = history->x[history->rows - back];
        sum += isnan(value) ? 0 : value;
        n += !isnan(value);
    }
    return n ? sum / (double)n : NAN;
}

/* The line through the first measured value and the last. */
static void forecast_line(const struct tft_history *history, int is_level, size_t horizon, double *to)
{
    size_t last = history->rows - 1;

    while (isnan(history->x[last]))
        last--;
    double slope = last && !is_level ? (history->x[last] - history->x[0]) / (double)last : 0;
    for (size_t h = 0; h < horizon; h++)
        to[h] = history->x[last] + slope * (double)(history->rows + h - last);
}

static void forecast_trend(const struct tft_baseline *b, struct tft_history *history, size_t horizon, double *to)
{
    if (!history->has_z)
        make_z(history);
    if (b->kind == TFT_BASE_THETA)
        tft_theta_forecast(history->z, history->z_rows, horizon, to);
    else
        tft_damped_trend_forecast(history->z, history->z_rows, horizon, to);
    for (size_t h = 0; h < horizon && history->season <= TREND_ROWS; h++)
        to[h] += history->index[(history->z_rows + h) % history->season];
}

void tft_baseline_forecast(const struct tft_baseline *b, struct tft_history *history, size_t horizon, double *to)
{
    if (!history->rows)
        for (size_t h = 0; h < horizon; h++)
            to[h] = NAN;
    else if (b->kind == TFT_BASE_SEASON || b->kind == TFT_BASE_MEAN)
        for (size_t h = 0; h < horizon; h++)
            to[h] = season_at(history, b->season, h, b->kind == TFT_BASE_MEAN ? MEAN_OF : 1);
    else if (b->kind == TFT_BASE_LAST || history->rows < TREND_LEAST)
        forecast_line(history, 1, horizon, to);
    else if (b->kind == TFT_BASE_DRIFT)
        forecast_line(history, 0, horizon, to);
    else
        forecast_trend(b, history, horizon, to);
}
