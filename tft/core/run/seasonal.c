/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/seasonal.h"
#include <math.h>
#include <string.h>

/* One of ten, of a normal distribution's upper side. */
static const double limit = 1.2816;

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
    return r > limit * sqrt((1 + 2 * squares) / (double)n);
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
