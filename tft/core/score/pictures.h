/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures: the numbers of single forecasts, for charts.
 */
#ifndef HALAY_TFT_PICTURES_H
#define HALAY_TFT_PICTURES_H

#include "tft/core/score/inference.h"

/* Makes a window's forecast p (D, O, Q), scaled, of one target into an object in the target's unit: "entity", "target"
 * (of several), "from" (the first moment forecast), "history" (steps before that, at most `history`), "actual" (those
 * and the horizon's; null: not measured), "low", "middle", "high", "band" (names of these quantiles). *picture is a new
 * reference. HALAY_ERR_NO_MEMORY, HALAY_ERR_FORMAT (damaged data), both logged. */
enum halay_status tft_picture_forecast(const struct tft_inference *inference, const struct tft_window *window,
                                       const float *p, size_t target, size_t history, json_t **picture);

/* Scores windows as tft_inference_evaluate does, and adds "pictures" with "forecasts", a list of some, spread over
 * entities and time. */
enum halay_status tft_pictures_evaluate(struct tft_inference *inference, const struct tft_window_choice *choice,
                                        json_t **result);

#endif
