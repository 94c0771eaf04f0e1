/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: the result of halay_tft_drift in other forms than JSON. None looks at the stream's errors:
 * its owner does, at the end.
 */
#ifndef HALAY_TFT_DRIFT_FORMS_H
#define HALAY_TFT_DRIFT_FORMS_H

#include <jansson.h>
#include <stdio.h>

void tft_drift_print(FILE *to, const json_t *result);
void tft_drift_write_csv(FILE *to, const json_t *result);
/* Gauges in Prometheus' text format. */
void tft_drift_write_metrics(FILE *to, const json_t *result);

#endif
