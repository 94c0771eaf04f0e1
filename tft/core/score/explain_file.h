/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of what single forecasts relied on: CSV or JSON lines, a row for each entity and origin. It holds the mean
 * weights of the inputs, and attention by lag: to the step this number of steps before the forecast step, mean over the
 * heads and the steps of the horizon whose window goes back that far.
 */
#ifndef HALAY_TFT_EXPLAIN_FILE_H
#define HALAY_TFT_EXPLAIN_FILE_H

#include "tft/core/score/weight_reader.h"
#include <stdio.h>

struct tft_explain_file {
    struct halay_log *log;                  /* borrowed, as all pointers */
    FILE *file;                             /* NULL: nothing is written */
    int json;                               /* JSON lines */
    const struct tft_data *data;            /* whose windows */
    const struct tft_weight_reader *reader; /* for the threads that call look */
};

/* A tft_forecast_look; arg is a struct tft_explain_file. */
void tft_explain_file_look(void *arg, const struct tft_forecast_granule *granule);

/* Neither looks at the stream's errors: its owner does, at the end. more: what look wrote. HALAY_ERR_NO_MEMORY is
 * logged. */
void tft_explain_file_header(const struct tft_explain_file *file);
enum halay_status tft_explain_file_window(const struct tft_explain_file *file, const struct tft_window *window,
                                          const float *more);

#endif
