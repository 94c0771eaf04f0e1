/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals between quantiles, and their scores.
 *
 * References: Winkler 1972 for the interval score; Bracher, Ray, Gneiting and Reich 2021 for the weighted one;
 * Gneiting and Ranjan 2011 for the CRPS as an integral of quantile losses.
 */
#include "tft/core/score/intervals.h"
#include <math.h>

/* Quantiles are millionths. */
#define SAME 1e-9

int tft_interval_partner(const double *quantiles, size_t count, size_t quantile)
{
    for (size_t q = 0; q < count; q++)
        if (q != quantile && fabs(quantiles[q] + quantiles[quantile] - 1) < SAME)
            return (int)q;
    return TFT_NO_PARTNER;
}

double tft_interval_score(const double *quantiles, size_t count, const double *losses)
{
    if (count < 2 || fabs(quantiles[0] + quantiles[count - 1] - 1) >= SAME)
        return NAN;
    return (losses[0] + losses[count - 1]) / quantiles[0];
}

double tft_weighted_interval_score(const double *quantiles, size_t count, const double *losses)
{
    double sum = 0, weight = 0;

    for (size_t q = 0; q < count; q++)
        if (fabs(quantiles[q] - 0.5) < SAME || tft_interval_partner(quantiles, count, q) != TFT_NO_PARTNER) {
            sum += losses[q];
            weight += 0.5;
        }
    return weight > 0.5 ? sum / weight : NAN;
}

double tft_crps(const double *quantiles, size_t count, const double *losses)
{
    double sum = 0;

    for (size_t q = 0; q < count; q++) {
        double from = q ? (quantiles[q - 1] + quantiles[q]) / 2 : 0;
        double to = q + 1 < count ? (quantiles[q] + quantiles[q + 1]) / 2 : 1;
        sum += 2 * (to - from) * losses[q];
    }
    return sum;
}
