/* SPDX-License-Identifier: Apache-2.0
 *
 * What `evaluate` and `backtest` print of the scores that they found.
 */
#ifndef HALAY_TFT_SCORE_TABLE_H
#define HALAY_TFT_SCORE_TABLE_H

#include "base/log.h"
#include "tft/run_config.h"
#include <jansson.h>

/* To standard output, and to the JSON file if there is one (NULL: none; "-": that is standard output, without a table). */
enum halay_status tft_scores_say(struct halay_log *log, const struct tft_list *quantiles, const char *json,
                                 const json_t *result);

#endif
