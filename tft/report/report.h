/* SPDX-License-Identifier: Apache-2.0
 *
 * Report: one self-contained HTML page about a run.
 */
#ifndef HALAY_TFT_REPORT_H
#define HALAY_TFT_REPORT_H

#include "tft/report/explanation.h"
#include <jansson.h>
#include <stdio.h>

/* A forecast to draw: history and truth in the target's unit, over steps relative to the first forecast value. */
struct tft_report_forecast {
    char title[160];
    size_t history, horizon;
    double *truth;               /* owned: (history + horizon), NAN where unknown */
    double *low, *middle, *high; /* owned: (horizon) */
};

struct tft_report {
    json_t *run;                               /* run.json */
    json_t *metrics;                           /* array of the lines of metrics.jsonl */
    json_t *scores;                            /* what `evaluate` reports; NULL without data */
    json_t *explained;                         /* what tft_explanation_json made of the next; NULL: no explanation */
    const struct tft_explanation *explanation; /* borrowed */
    struct tft_report_forecast *forecasts;
    size_t forecast_count;
};

void tft_report_write(FILE *file, const struct tft_report *report);

#endif
