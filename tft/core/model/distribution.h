/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts, made of what a model computes, and the quantiles of the distributions that it may compute
 * (tft/core/kernels/loss.h). The one place where that is done.
 */
#ifndef HALAY_TFT_DISTRIBUTION_H
#define HALAY_TFT_DISTRIBUTION_H

#include "tft/core/model/tft.h"

/* Returns the probability that a value is not above x. */
double tft_distribution_below(const struct tft_distribution *d, double x);

/* Returns the lowest x that a value is not above with probability q, 0 < q < 1; a whole number if the
 * distribution counts. Tweedie's is 0 up to the probability of 0. Accuracy: distribution.c. */
double tft_distribution_quantile(const struct tft_distribution *d, double q);

/*
 * Forecasts one target at one step: the configuration's quantiles, forecast (Q), from what the model computed, o (P).
 * Without a unit of their own (tft_loss_is_unscaled) they are scaled as the data are. offset and unit: the batch's.
 *
 *     quantiles; mae, mse, huber    offset + unit o, each
 *     distributions                 their quantiles (tft/core/kernels/loss.h, tft/core/model/distribution.h)
 */
void tft_outputs_forecast(const struct tft_model_config *config, const real *o, real offset, real unit, real *forecast);

#endif
