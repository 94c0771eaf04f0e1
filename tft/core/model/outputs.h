/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs: what a model computes, made into forecasts. The one place where that is done.
 */
#ifndef HALAY_TFT_OUTPUTS_H
#define HALAY_TFT_OUTPUTS_H

#include "tft/core/model/tft.h"

/*
 * Forecast of one target at one step: the configuration's quantiles, forecast (Q), from what the model computed, o (P).
 * Without a unit of their own (tft_loss_is_unscaled) they are scaled as the data are. offset and unit: the batch's.
 *
 *     quantiles; mae, mse, huber    offset + unit o, each
 *     distributions                 their quantiles (tft/core/kernels/loss.h, tft/core/model/distribution.h)
 */
void tft_outputs_forecast(const struct tft_model_config *config, const real *o, real offset, real unit, real *forecast);

#endif
