/* SPDX-License-Identifier: Apache-2.0
 *
 * Which share of the model a blend has: the one with the lowest loss in validation; a half where that has fewer than 20
 * windows, which would be chance.
 */
#ifndef HALAY_TFT_BLEND_CHOICE_H
#define HALAY_TFT_BLEND_CHOICE_H

#include "tft/score/forecast_scores.h"

/* Forecast positions [0, count) of the forecaster's gather, set blend->share to 0, 0.1 ... or 1, and get the loss and
 * the scores with it (in which all entities are one). All ranks get the same bits. blend is not empty, and is not the
 * forecaster's. */
enum halay_status tft_blend_choose(struct tft_forecaster *forecaster, size_t count, struct tft_blend *blend,
                                   struct tft_forecast_scores *result);

#endif
