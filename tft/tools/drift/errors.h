/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of errors: how good the forecasts of the recent span were, against those of the validation span. Of each entity
 * and of all together the mean quantile loss, and the share of values inside the outermost quantiles.
 */
#ifndef HALAY_TFT_DRIFT_ERRORS_H
#define HALAY_TFT_DRIFT_ERRORS_H

#include "tft/core/score/inference.h"
#include "tft/tools/drift/findings.h"
#include "tft/tools/drift/spans.h"

/*
 * Forecasts of all ranks together, stride steps apart. spans: past and recent span of these forecasts, by the moment of
 * their first target. Adds on each rank a row for each statistic, with "entity" (null: all), "reference" and "recent":
 * of "loss" the means, whose ratio is the value; of "coverage" the shares, whose distance it is. *windows: of the
 * recent span; 0, and nothing is added: there are none, or none in the past.
 */
enum halay_status tft_drift_of_errors(struct tft_inference *inference, const struct tft_spans *spans, size_t stride,
                                      struct tft_findings *findings, size_t *windows);

#endif
