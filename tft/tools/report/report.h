/* SPDX-License-Identifier: Apache-2.0
 *
 * Report: one self-contained HTML page about a run.
 */
#ifndef HALAY_TFT_REPORT_H
#define HALAY_TFT_REPORT_H

#include "tft/tools/report/explanation.h"
#include "tft/tools/report/forecast_chart.h"
#include <jansson.h>
#include <stdio.h>

struct tft_report {
    json_t *run;                               /* run.json */
    json_t *metrics;                           /* array of the lines of metrics.jsonl */
    json_t *scores;                            /* what `evaluate` reports; NULL without data */
    json_t *explained;                         /* what tft_explanation_json made of the next; NULL: no explanation */
    const struct tft_explanation *explanation; /* borrowed */
    struct tft_forecast_chart *forecasts;
    size_t forecast_count;
};

void tft_report_write(FILE *file, const struct tft_report *report);

#endif
