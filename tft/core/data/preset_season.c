/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: finds the seasons of series whose times are whole numbers, which have no calendar.
 *
 * While the table is read the values of some series are kept: of every 1st, 2nd, 4th ... one, so that they fit whatever
 * their number. The median over series of the autocorrelation of their changes in training must have a peak, of .3 at
 * least and beyond chance, that is higher than its surroundings and recurs at twice the lag. The first season is the
 * shortest whose peak is about as high as the highest one; a multiple of it that is clearly higher, as a week is for
 * hours, is a second one.
 */
#include "base/memory.h"
#include "tft/core/data/preset_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Kept values; series, their last rows, and lags that are examined. At least three cycles are required. */
enum { KEPT = 1 << 19, SERIES = 64, ROWS = 4096, CYCLES = 3, LAGS = 2 * ROWS / CYCLES + 1 };

/* Thresholds of a peak: its height, in itself, in deviations of chance, above its surroundings, at twice the lag as
 * part of its height at the lag. As high as another one: by this part of it. A second season: the part of the changes
 * that it leaves unexplained, in units of the first one's. */
static const double peak_least = .3, deviations = 4, rise_least = .2, again_least = .5, as_high = .8,
                    about_as_good = .95, second_most = .8;

/* Number of independent series whose median varies by chance like that of all examined ones, which may be alike. */
enum { INDEPENDENT = 4 };

/* ---- values ---- */

/* Keeps half of the series: those of even numbers in units of the stride. */
static void thin_out(struct tft_kept *kept)
{
    size_t n = 0;

    kept->stride *= 2;
    for (size_t i = 0; i < kept->count; i++)
        if (kept->values[i].entity % kept->stride == 0)
            kept->values[n++] = kept->values[i];
    kept->count = n;
}

enum halay_status tft_kept_add(struct tft_kept *kept, size_t entity, int64_t time, double value)
{
    kept->stride = kept->stride ? kept->stride : 1;
    while (kept->count == KEPT && kept->stride <= entity)
        thin_out(kept);
    if (entity % kept->stride || kept->count == KEPT)
        return HALAY_OK;
    if (halay_list_grow(&kept->values, kept->count, &kept->size, sizeof *kept->values))
        return HALAY_ERR_NO_MEMORY;
    kept->values[kept->count++] = (struct tft_kept_value){ entity, time, value };
    return HALAY_OK;
}

static int compare_values(const void *a, const void *b)
{
    const struct tft_kept_value *x = a, *y = b;

    if (x->entity != y->entity)
        return x->entity < y->entity ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

/* ---- autocorrelation ---- */

/* Autocorrelations of the examined series, at each lag. */
struct correlations {
    float at[LAGS][SERIES];
    size_t count[LAGS]; /* of series that are long enough for it */
    double pairs[LAGS]; /* of changes, in all of them */
    size_t series;      /* that change at all */
    float change[ROWS]; /* of one series, 0 where it is not known */
    float is_known[ROWS];
};

/* Computes the changes of values in training, which ends before `end`, on the grid of the last ROWS steps there.
 * Returns the number of these steps. */
static size_t lay_changes(const struct tft_preset_scan *s, const struct tft_kept_value *v, size_t count, int64_t end,
                          struct correlations *c)
{
    while (count && v[count - 1].time >= end)
        count--;
    if (!count)
        return 0;
    size_t first = count - 1, steps = 0;
    while (first && tft_period_between(&s->every, v[first - 1].time, v[count - 1].time) < ROWS)
        first--;
    memset(c->is_known, 0, sizeof c->is_known);
    memset(c->change, 0, sizeof c->change);
    for (size_t i = first; i + 1 < count; i++) {
        steps = (size_t)tft_period_between(&s->every, v[first].time, v[i].time);
        const float change = (float)(v[i + 1].value - v[i].value);
        if (tft_period_between(&s->every, v[i].time, v[i + 1].time) != 1 || !isfinite(change))
            continue;
        c->change[steps] = change;
        c->is_known[steps] = 1;
    }
    return steps + 1;
}

/* Subtracts the mean and clips to four times the mean size, twice over, so that an outlier does not dominate. Returns
 * the mean square; 0: nothing changes. */
static double scale_changes(size_t steps, size_t known, struct correlations *c)
{
    double sum = 0, square = 0;

    for (size_t t = 0; t < steps; t++)
        sum += (double)c->change[t] / (double)known;
    for (size_t t = 0; t < steps; t++)
        c->change[t] = c->is_known[t] > 0 ? c->change[t] - (float)sum : 0;
    for (int round = 0; round < 2; round++) {
        double size = 0;
        for (size_t t = 0; t < steps; t++)
            size += fabs((double)c->change[t]) / (double)known;
        if (!(size > 1e-6 * fabs(sum)))
            return 0;
        for (size_t t = 0; t < steps; t++)
            c->change[t] = (float)fmin(fmax((double)c->change[t] / size, -4), 4);
        sum = 0;
    }
    for (size_t t = 0; t < steps; t++)
        square += (double)(c->change[t] * c->change[t]) / (double)known;
    return square;
}

static void add_series(size_t steps, struct correlations *c)
{
    size_t known = 0;

    for (size_t t = 0; t < steps; t++)
        known += c->is_known[t] > 0;
    const double square = 2 * known > steps ? scale_changes(steps, known, c) : 0;
    if (!(square > 0))
        return;
    c->series++;
    for (size_t lag = 1; lag < LAGS && lag <= 2 * (steps / CYCLES); lag++) {
        float sum = 0, pairs = 0;
        for (size_t t = lag; t < steps; t++) {
            sum += c->change[t] * c->change[t - lag];
            pairs += c->is_known[t] * c->is_known[t - lag];
        }
        if (pairs < 2)
            continue;
        c->at[lag][c->count[lag]++] = sum / pairs / (float)square;
        c->pairs[lag] += (double)pairs;
    }
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Computes the median of each lag that half of the series are long enough for, in its first place. */
static size_t find_medians(struct correlations *c)
{
    size_t lag = 1;

    for (; lag < LAGS && c->count[lag] && 2 * c->count[lag] >= c->series; lag++) {
        qsort(c->at[lag], c->count[lag], sizeof c->at[lag][0], compare_floats);
        c->at[lag][0] = (c->at[lag][(c->count[lag] - 1) / 2] + c->at[lag][c->count[lag] / 2]) / 2;
    }
    return lag - 1;
}

/* ---- peaks ---- */

/* Returns the height of a lag's median above the lowest on its left or on its right, the smaller of the two. */
static double rise_of(const struct correlations *c, size_t lag)
{
    const float r = c->at[lag][0];
    float left = r, right = r;

    for (size_t k = lag / 2; k < lag; k++)
        left = k && c->at[k][0] < left ? c->at[k][0] : left;
    for (size_t k = lag + 1; k <= lag + (lag + 1) / 2; k++)
        right = c->at[k][0] < right ? c->at[k][0] : right;
    return (double)(r - (left > right ? left : right));
}

/* Returns the level that a median may reach by chance. */
static double chance_of(const struct correlations *c, size_t lag)
{
    const double alike = c->count[lag] < INDEPENDENT ? 1 : INDEPENDENT / (double)c->count[lag];

    return deviations / sqrt(c->pairs[lag] * alike);
}

/* Returns the height of the peak at a lag, which is at most half of the longest one; 0: not a peak. */
static double peak_of(const struct correlations *c, size_t lag)
{
    const float *r = c->at[lag];
    const int is_top = r[0] > c->at[lag - 1][0] && r[0] >= c->at[lag + 1][0];
    const double height = (double)r[0], again = (double)c->at[2 * lag][0];

    return is_top && height >= peak_least && height >= chance_of(c, lag) && rise_of(c, lag) >= rise_least &&
                   again >= again_least * height
               ? height
               : 0;
}

/* Returns the mean over all multiples of a lag, which distinguishes it from its neighbours where series are smooth. */
static double comb_of(const struct correlations *c, size_t lag, size_t lags)
{
    double sum = 0, pairs = 0;

    for (size_t k = lag; k <= lags; k += lag) {
        sum += (double)c->at[k][0] * c->pairs[k];
        pairs += c->pairs[k];
    }
    return sum / pairs;
}

/* Returns the best lag around a peak; noise may move the peak of smooth series, so a lag of the calendar is preferred
 * if it is about as good. */
static size_t refine_lag(const struct correlations *c, size_t lag, size_t lags)
{
    static const size_t usual[] = { 12, 24, 48, 52, 96, 144, 168, 288, 336 };
    size_t best = lag;

    for (size_t k = lag - lag / 8; k <= lag + lag / 8 && 2 * k <= lags; k++)
        if (comb_of(c, k, lags) > comb_of(c, best, lags))
            best = k;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const size_t k = usual[i];
        if (k >= lag - lag / 8 && k <= lag + lag / 8 && 2 * k <= lags &&
            comb_of(c, k, lags) >= about_as_good * comb_of(c, best, lags))
            return k;
    }
    return best;
}

/* Returns the part that a peak explains beyond the first season; 0: not clearly more. */
static double gain_of(const struct correlations *c, size_t lag, size_t first)
{
    const double peak = peak_of(c, lag), r = (double)c->at[first][0];

    return 1 - peak <= second_most * (1 - r) && peak - r >= chance_of(c, lag) ? peak - r : 0;
}

/* Returns a multiple of the first season that explains clearly more: the shortest of those that are about as good; 0:
 * not found. */
static size_t find_second(const struct correlations *c, size_t lags, size_t first)
{
    double most = 0;
    size_t second = 2 * first;

    for (size_t lag = second; 2 * lag <= lags; lag += first)
        most = fmax(most, gain_of(c, lag, first));
    while (most > 0 && gain_of(c, second, first) < as_high * most)
        second += first;
    return most > 0 ? second : 0;
}

static size_t find_peaks(const struct correlations *c, size_t lags, size_t seasons[TFT_PERIOD_SEASONS])
{
    double most = 0;
    size_t first = 2;

    for (size_t lag = 2; 2 * lag <= lags; lag++)
        most = fmax(most, peak_of(c, lag));
    if (!(most > 0))
        return 0;
    while (peak_of(c, first) < as_high * most)
        first++;
    seasons[0] = refine_lag(c, first, lags);
    seasons[1] = find_second(c, lags, seasons[0]);
    return seasons[1] ? 2 : 1;
}

enum halay_status tft_preset_find_seasons(struct tft_preset_scan *s, const struct tft_schema *probe,
                                          size_t seasons[TFT_PERIOD_SEASONS], size_t *count)
{
    struct tft_kept *kept = &s->kept;
    struct correlations *c = calloc(1, sizeof *c);
    size_t series = 0, seen = 0;

    if (!c)
        return tft_preset_no_memory(s);
    if (kept->count)
        qsort(kept->values, kept->count, sizeof *kept->values, compare_values);
    for (size_t i = 0; i < kept->count; i++)
        series += !i || kept->values[i].entity != kept->values[i - 1].entity;
    const size_t apart = (series + SERIES - 1) / SERIES;
    for (size_t first = 0, last; first < kept->count; first = last, seen++) {
        const struct tft_kept_value *v = &kept->values[first];
        for (last = first; last < kept->count && kept->values[last].entity == v->entity;)
            last++;
        if (seen % apart == 0)
            add_series(lay_changes(s, v, last - first, tft_preset_training_end(s, probe, v[last - first - 1].time), c),
                       c);
    }
    *count = find_peaks(c, find_medians(c), seasons);
    free(c);
    return HALAY_OK;
}
