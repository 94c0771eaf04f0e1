/* SPDX-License-Identifier: Apache-2.0
 *
 * What `evaluate` and `backtest` print of the scores that they found.
 */
#ifndef HALAY_TFT_SCORE_TABLE_H
#define HALAY_TFT_SCORE_TABLE_H

#include "base/log.h"
#include "tft/data/paths.h"
#include "tft/run/run_config.h"
#include <jansson.h>

/* Where the scores will go as JSON, opened before the work begins: path NULL: nowhere; "-": standard output, and no
 * table. */
enum halay_status tft_scores_open(struct halay_log *log, const char *path, struct tft_output *json);

/* A table to standard output, and the object to json (zero-initialised: none), which is complete then, or given up. */
enum halay_status tft_scores_say(struct halay_log *log, const struct tft_list *quantiles, struct tft_output *json,
                                 const json_t *result);

#endif
