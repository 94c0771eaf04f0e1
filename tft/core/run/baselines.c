/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/baselines.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows that theta and the damped trend see, and the least that show a trend; the most that others see; seasons that a
 * mean is of. */
enum { TREND_ROWS = 512, TREND_LEAST = 6, ROWS_MAX = 2048, MEAN_OF = 5 };

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

/* ---- methods ---- */

/* The change of the least squares line through n equally spaced values from one to the next; 0 for one value. */
static double line_slope(const double *x, size_t n)
{
    double middle = ((double)n - 1) / 2, sum = 0, squares = 0;

    for (size_t t = 0; t < n; t++) {
        double from = (double)t - middle;
        sum += from * x[t];
        squares += from * from;
    }
    return squares > 0 ? sum / squares : 0;
}

enum { THETA_ALPHAS = 12 };

static const double theta_alphas[THETA_ALPHAS] = { .02, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .99 };

/* Simple exponential smoothing: the alpha with the lowest squared errors, and the last level. */
static size_t theta_smooth(const double *x, size_t n, double *level)
{
    double levels[THETA_ALPHAS], errors[THETA_ALPHAS] = { 0 };
    size_t best = 0;

    for (size_t a = 0; a < THETA_ALPHAS; a++)
        levels[a] = x[0];
    for (size_t t = 1; t < n; t++)
        for (size_t a = 0; a < THETA_ALPHAS; a++) {
            double error = x[t] - levels[a];
            errors[a] += error * error;
            levels[a] += theta_alphas[a] * error;
        }
    for (size_t a = 1; a < THETA_ALPHAS; a++)
        best = errors[a] < errors[best] ? a : best;
    *level = levels[best];
    return best;
}

void tft_theta_forecast(const double *x, size_t n, size_t horizon, double *to)
{
    double level, drift = line_slope(x, n) / 2, alpha = theta_alphas[theta_smooth(x, n, &level)];
    double lag = (1 - pow(1 - alpha, (double)n)) / alpha;

    for (size_t h = 0; h < horizon; h++)
        to[h] = level + drift * ((double)h + lag);
}

enum { ALPHAS = 8, BETAS = 3, PHIS = 3, ALL = ALPHAS * BETAS * PHIS };

static const double alphas[ALPHAS] = { .05, .1, .2, .3, .5, .7, .9, .99 }, betas[BETAS] = { .001, .05, .15 },
                    phis[PHIS] = { .8, .9, .95 };

/* Smoothing with each combination at once: loops over them are in the processor's vectors. */
struct grid {
    double alpha[ALL], gain[ALL], phi[ALL], level[ALL], trend[ALL], errors[ALL];
};

/* The least squares line's value before the first one. */
static double line_begin(const double *x, size_t n, double slope)
{
    double mean = 0;

    for (size_t t = 0; t < n; t++)
        mean += x[t] / (double)n;
    return mean - slope * (((double)n - 1) / 2 + 1);
}

static void grid_init(struct grid *g, const double *x, size_t n)
{
    double slope = line_slope(x, n), begin = line_begin(x, n, slope);

    for (size_t i = 0; i < ALL; i++) {
        g->alpha[i] = alphas[i / (BETAS * PHIS)];
        g->gain[i] = g->alpha[i] * betas[i / PHIS % BETAS];
        g->phi[i] = phis[i % PHIS];
        g->level[i] = begin;
        g->trend[i] = slope;
        g->errors[i] = 0;
    }
}

void tft_damped_trend_forecast(const double *x, size_t n, size_t horizon, double *to)
{
    struct grid g;
    size_t best = 0;

    grid_init(&g, x, n);
    for (size_t t = 0; t < n; t++)
        for (size_t i = 0; i < ALL; i++) {
            double next = g.level[i] + g.phi[i] * g.trend[i], error = x[t] - next;
            g.errors[i] += error * error;
            g.level[i] = next + g.alpha[i] * error;
            g.trend[i] = g.phi[i] * g.trend[i] + g.gain[i] * error;
        }
    for (size_t i = 1; i < ALL; i++)
        best = g.errors[i] < g.errors[best] ? i : best;
    double damped = g.phi[best], sum = 0;
    for (size_t h = 0; h < horizon; h++, damped *= g.phi[best]) {
        sum += damped;
        to[h] = g.level[best] + sum * g.trend[best];
    }
}

/* One of ten, of a normal distribution's upper side. */
static const double season_limit = 1.2816;

static int is_seasonal(const double *x, size_t n, size_t season)
{
    double mean = 0, variance = 0, squares = 0, r = 0;

    for (size_t t = 0; t < n; t++)
        mean += x[t] / (double)n;
    for (size_t t = 0; t < n; t++)
        variance += (x[t] - mean) * (x[t] - mean);
    for (size_t lag = 1; lag <= season && variance > 0; lag++) {
        squares += r * r;
        r = 0;
        for (size_t t = lag; t < n; t++)
            r += (x[t] - mean) * (x[t - lag] - mean);
        r /= variance;
    }
    return r > season_limit * sqrt((1 + 2 * squares) / (double)n);
}

/* The mean of a season around value t, whose ends count half if its length is even. */
static double trend_at(const double *x, size_t t, size_t season)
{
    size_t half = season / 2;
    double sum = 0;

    for (size_t i = t - half; i <= t + half; i++)
        sum += x[i];
    if (season % 2 == 0)
        sum -= (x[t - half] + x[t + half]) / 2;
    return sum / (double)season;
}

int tft_seasonal_fit(const double *x, size_t n, size_t season, double *index)
{
    size_t half = season / 2;
    double mean = 0;

    memset(index, 0, season * sizeof *index);
    if (season < 2 || n < 2 * season + 2 || !is_seasonal(x, n, season))
        return 0;
    for (size_t phase = 0; phase < season; phase++) {
        size_t count = 0;
        for (size_t t = phase < half ? phase + season : phase; t + half < n; t += season, count++)
            index[phase] += x[t] - trend_at(x, t, season);
        index[phase] /= (double)count;
        mean += index[phase] / (double)season;
    }
    for (size_t phase = 0; phase < season; phase++)
        index[phase] -= mean;
    return 1;
}

/* ---- the past ---- */

void tft_history_init(const struct tft_schema *s, struct halay_region *memory, struct tft_history *h)
{
    size_t season = s->season_count ? s->seasons[0] : 1;

    *h = (struct tft_history){ .season = season, .max = tft_baselines_rows(s) };
    h->x = halay_region_alloc(memory, h->max, sizeof *h->x);
    h->z = halay_region_alloc(memory, TREND_ROWS, sizeof *h->z);
    h->index = halay_region_alloc(memory, season <= TREND_ROWS ? season : 1, sizeof *h->index);
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
    size_t before = w->origin - d->entities[w->entity].first, most = before < h->max ? before : h->max;
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
