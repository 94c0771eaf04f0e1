/* SPDX-License-Identifier: Apache-2.0
 *
 * What an evaluation or a backtest found, in other forms than JSON. Neither looks at the stream's errors: its owner
 * does, at the end.
 */
#ifndef HALAY_TFT_SCORE_OUTPUT_H
#define HALAY_TFT_SCORE_OUTPUT_H

#include <jansson.h>
#include <stdio.h>

/* A table for people. */
void tft_scores_print(FILE *to, const json_t *result);

/* CSV: a row for all values, one for each horizon and one for each entity, of each target. The names of columns are the
 * result's keys; those in objects are joined: q_risk_p10. */
void tft_scores_write_csv(FILE *file, const json_t *result);

#endif
