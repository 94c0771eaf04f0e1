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

/* Open the JSON file before the work begins. path NULL: none; "-": standard output, and no table. */
enum halay_status tft_score_output_open(struct halay_log *log, const char *path, struct tft_output *json);

/* Write a table to standard output and result to json (zero-initialised: none), which is closed either way. */
enum halay_status tft_score_output_write(struct halay_log *log, const struct tft_list *quantiles,
                                         struct tft_output *json, const json_t *result);

#endif
