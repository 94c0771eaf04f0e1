/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift of inputs: of each entity and each input that a column gives (targets among them), the distribution of its
 * values in the recent span against that in the training span; and of targets, the share that is missing.
 */
#ifndef HALAY_TFT_DRIFT_INPUTS_H
#define HALAY_TFT_DRIFT_INPUTS_H

#include "tft/core/data/data.h"
#include "tft/core/run/ranks.h"
#include "tft/tools/drift/findings.h"
#include "tft/tools/drift/spans.h"

/* Adds a row for each statistic, with "entity", "input", and of distributions "reference" and "recent" (shares of ten
 * groups of values, or of categories) and "groups" (where each group ends, in the input's own unit; names). Adds to
 * *short_series how many had too few values to compare. HALAY_ERR_CANCELED: somebody asked to stop. */
enum halay_status tft_drift_of_inputs(struct halay_log *log, const struct tft_data *data, const struct tft_stop *stop,
                                      const struct tft_spans *spans, struct tft_findings *findings,
                                      size_t *short_series);

#endif
