/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles of the distributions that a model forecasts (tft/core/kernels/loss.h).
 */
#ifndef HALAY_TFT_DISTRIBUTION_H
#define HALAY_TFT_DISTRIBUTION_H

#include "tft/core/kernels/loss.h"

/* The probability that a value is not above x. */
double tft_distribution_below(const struct tft_distribution *d, double x);

/* The lowest x that a value is not above with probability q, 0 < q < 1; a whole number of a distribution that counts.
 * Tweedie's is 0 up to the probability of 0. Accuracy: distribution.c. */
double tft_distribution_quantile(const struct tft_distribution *d, double q);

#endif
