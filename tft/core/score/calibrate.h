/* SPDX-License-Identifier: Apache-2.0
 *
 * Making calibrations: of a run's validation windows, and of the windows before those that are to be forecast.
 */
#ifndef HALAY_TFT_CALIBRATE_H
#define HALAY_TFT_CALIBRATE_H

#include "tft/core/score/forecast.h"

/* Forecast the validation windows, the horizon apart (of more than `most`, or of very many, some that are spread over
 * all), and make the calibration's document: a new reference, the same on all ranks. The forecaster needs everything
 * but windows and chunk. */
enum halay_status tft_calibrate(const struct tft_forecaster *forecaster, const struct tft_data *data,
                                const struct tft_list *quantiles, size_t most, json_t **document);
/* Returns how many factors a calibration has for all entities; 0: its windows are too few. */
size_t tft_calibrate_found(const json_t *document);
/* Describes the calibration in a sentence: how many entities have factors of their own, and what is missing. windows:
 * what they are called. */
void tft_calibrate_describe(const json_t *document, const struct tft_data *data, const char *windows, char *text,
                            size_t size);

/* Before the windows of a forecaster are forecast: note those that precede them, for its calibrator to be rolling. Does
 * nothing without one that is. */
enum halay_status tft_calibrate_recall(const struct tft_forecaster *forecaster);

#endif
