/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of forecasts, and of what they relied on: CSV or JSON lines. A file of forecasts has a row for each entity,
 * origin and step, values in the targets' own units. Its columns are named as Python's frames name them, by the table's
 * id, time and targets:
 *
 *     unique_id,origin,ds,horizon,y_0.1,y_0.5,y_0.9
 *
 * entity and time stand for what has no column of its own (an id from file names, a time of several columns). A name
 * that the table has already gets underscores after it.
 */
#ifndef HALAY_TFT_FORECAST_FILE_H
#define HALAY_TFT_FORECAST_FILE_H

#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"
#include "tft/core/run/run_config.h"
#include "tft/core/score/weight_reader.h"
#include <stdio.h>

struct tft_forecast_file {
    FILE *file;                       /* borrowed; NULL: nothing is written */
    const struct tft_data *data;      /* borrowed */
    const struct tft_list *quantiles; /* borrowed: the model's */
    const size_t *chosen;             /* borrowed: the numbers of those that are written; NULL: all */
    size_t chosen_count;
    int json;     /* JSON lines */
    int backtest; /* more columns: before each target's quantiles its value, empty where not measured; and fit */
    size_t fit;
};

/* Neither looks at the stream's errors: its owner does, at the end. */
void tft_forecast_file_header(const struct tft_forecast_file *file);
/* A tft_forecast_take that writes a window's forecast; arg is a struct tft_forecast_file. */
enum halay_status tft_forecast_file_window(void *arg, size_t position, const struct tft_window *window, const float *p);

/* A file with a row for each entity and origin (explain_file.c). */
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
