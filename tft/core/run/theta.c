/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/theta.h"
#include "tft/core/run/line.h"
#include <math.h>

enum { ALPHAS = 12 };

static const double alphas[ALPHAS] = { .02, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .99 };

/* Simple exponential smoothing: the alpha with the lowest squared errors, and the last level. */
static size_t smooth(const double *x, size_t n, double *level)
{
    double levels[ALPHAS], errors[ALPHAS] = { 0 };
    size_t best = 0;

    for (size_t a = 0; a < ALPHAS; a++)
        levels[a] = x[0];
    for (size_t t = 1; t < n; t++)
        for (size_t a = 0; a < ALPHAS; a++) {
            double error = x[t] - levels[a];
            errors[a] += error * error;
            levels[a] += alphas[a] * error;
        }
    for (size_t a = 1; a < ALPHAS; a++)
        best = errors[a] < errors[best] ? a : best;
    *level = levels[best];
    return best;
}

void tft_theta_forecast(const double *x, size_t n, size_t horizon, double *to)
{
    double level, drift = tft_line_slope(x, n) / 2, alpha = alphas[smooth(x, n, &level)];
    double lag = (1 - pow(1 - alpha, (double)n)) / alpha;

    for (size_t h = 0; h < horizon; h++)
        to[h] = level + drift * ((double)h + lag);
}
