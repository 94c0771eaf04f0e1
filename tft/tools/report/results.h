/* SPDX-License-Identifier: Apache-2.0
 *
 * Results in other forms than JSON, by their member "kind".
 */
#ifndef HALAY_TFT_RESULTS_H
#define HALAY_TFT_RESULTS_H

#include <jansson.h>
#include <stdio.h>

/* ---- each kind: tables for people, and the rows of tables, as new references ---- */

void tft_scores_print(FILE *to, const json_t *result);
/* Writes in words how the intervals were calibrated, from the member "calibration", shares {"recent": .., "entity": ..,
 * "horizon": .., "none": ..}; nothing without any. */
void tft_scores_print_calibrated(FILE *to, const json_t *result);
json_t *tft_score_rows(const json_t *result);
json_t *tft_q_risk_rows(const json_t *result);

void tft_drift_print(FILE *to, const json_t *result);
json_t *tft_drift_rows(const json_t *result);
/* Gauges in Prometheus' text format. */
void tft_drift_write_metrics(FILE *to, const json_t *result);

#endif
