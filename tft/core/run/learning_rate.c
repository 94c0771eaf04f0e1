/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate: pure functions.
 */
#include "tft/core/run/learning_rate.h"
#include <math.h>

double tft_learning_rate_at(enum tft_lr_schedule schedule, double highest, uint64_t step, uint64_t total)
{
    double rise = total >= 20 ? (double)(total / 20) : 1, at = (double)step + 1;

    switch (schedule) {
    case TFT_LR_WARMUP:
        return highest * fmin(1, at / rise);
    case TFT_LR_COSINE:
        if (at < rise)
            return highest * at / rise;
        return highest * 0.5 * (1 + cos(M_PI * fmin(1, ((double)step - rise + 1) / ((double)total - rise + 1))));
    default:
        return highest;
    }
}

/* Smoothed losses. Returns how many there are before they diverge. */
static size_t smooth(enum tft_loss kind, const double *losses, size_t steps, double *smoothed)
{
    const double smoothing = 0.9, too_much = 4;
    double sum = 0, weight = 0, lowest = INFINITY;

    for (size_t i = 0; i < steps; i++) {
        sum = smoothing * sum + (1 - smoothing) * losses[i];
        weight = smoothing * weight + (1 - smoothing);
        smoothed[i] = sum / weight;
        if (!isfinite(smoothed[i]) || smoothed[i] > tft_loss_times(kind, lowest, too_much))
            return i;
        lowest = fmin(lowest, smoothed[i]);
    }
    return steps;
}

/* Slope of the smoothed losses around step i against the logarithm of the rate, by least squares. */
static double slope_at(const double *rates, const double *smoothed, size_t good, size_t i)
{
    enum { REACH = 6 };
    size_t first = i > REACH ? i - REACH : 0, end = i + REACH < good ? i + REACH + 1 : good;
    double n = (double)(end - first), x = 0, y = 0, xx = 0, xy = 0;

    for (size_t k = first; k < end; k++) {
        double at = log(rates[k]);
        x += at;
        y += smoothed[k];
        xx += at * at;
        xy += at * smoothed[k];
    }
    return (n * xy - x * y) / (n * xx - x * x);
}

double tft_learning_rate_suggest(enum tft_loss kind, const double *rates, const double *losses, size_t steps)
{
    double smoothed[TFT_RATE_FINDER_STEPS], steepest = 0, rate = 0;
    size_t lowest = 0,
           good = smooth(kind, losses, steps < TFT_RATE_FINDER_STEPS ? steps : TFT_RATE_FINDER_STEPS, smoothed);

    for (size_t i = 1; i + 1 < good; i++) {
        double slope = slope_at(rates, smoothed, good, i);
        if (slope < steepest) {
            steepest = slope;
            rate = rates[i];
        }
        lowest = smoothed[i] < smoothed[lowest] ? i : lowest;
    }
    return rate > 0 ? fmin(rate, rates[lowest] / 10) : 0;
}
