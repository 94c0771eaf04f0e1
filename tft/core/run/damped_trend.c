/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/damped_trend.h"
#include "tft/core/run/line.h"

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
    double slope = tft_line_slope(x, n), begin = line_begin(x, n, slope);

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
