/* SPDX-License-Identifier: Apache-2.0
 *
 * What `evaluate` and `backtest` write of an evaluation.
 */
#ifndef HALAY_TFT_SCORE_OUTPUT_H
#define HALAY_TFT_SCORE_OUTPUT_H

#include "base/log.h"
#include "tft/data/output_file.h"
#include "tft/run/run_config.h"
#include <jansson.h>

/* Open the JSON (or CSV) file before the work begins. path NULL: none; "-": standard output, and, of JSON, no table. */
enum halay_status tft_score_output_open(struct halay_log *log, const char *path, struct tft_output *out);

/* Write a table to standard output and result to json (zero-initialised: none), which is closed either way. */
enum halay_status tft_score_output_write(struct halay_log *log, const struct tft_list *quantiles,
                                         struct tft_output *json, const json_t *result);

/* Write the scores as CSV and complete it: a row for all values, one for each horizon and one for each entity, of each
 * target. The names of columns are the result's keys; those in objects are joined: q_risk_p10. */
enum halay_status tft_score_output_csv(struct tft_output *csv, const json_t *result);

#endif
