/* SPDX-License-Identifier: Apache-2.0
 *
 * What `evaluate` and `backtest` print of the scores that they found.
 */
#ifndef HALAY_TFT_SCORE_TABLE_H
#define HALAY_TFT_SCORE_TABLE_H

#include "base/log.h"
#include "tft/run_config.h"
#include <jansson.h>

/* To standard output. */
void tft_score_table_print(const json_t *result, const struct tft_list *quantiles);

#endif
