/* SPDX-License-Identifier: Apache-2.0
 *
 * Inference: a run, prepared data and the job's ranks and threads, as `evaluate`, `predict` and `report` need them.
 */
#ifndef HALAY_TFT_INFERENCE_H
#define HALAY_TFT_INFERENCE_H

#include "halay.h"
#include "tft/run/run_folder.h"
#include "tft/score/calibrate.h"
#include "tft/score/forecast_scores.h"

struct tft_inference {
    struct halay_log *log;     /* borrowed */
    struct halay_context *ctx; /* owned; the job's */
    int rank;
    struct tft_run run;
    struct tft_data data;
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_calibrator calibrator; /* without data: nothing is calibrated */
};

/* Join the job (alone, or under a launcher), read both, start threads. data_path NULL: no data yet. On error fini still
 * has to be called. */
enum halay_status tft_inference_init(struct halay_log *log, const char *checkpoint, const char *data_path,
                                     struct tft_inference *inference);
void tft_inference_fini(struct tft_inference *inference);

/* Calibrate all forecasts from now on, by a word of tft_calibrate_words; -1: that of the run's configuration. Needs the
 * data. folder: the run's. */
enum halay_status tft_inference_calibrate(struct tft_inference *inference, const char *folder, int word);

/* A forecaster over windows, to be ended by tft_forecaster_fini; with `more` numbers for each (its look is the
 * caller's to set). */
enum halay_status tft_inference_forecaster(struct tft_inference *inference, const struct tft_windows *windows,
                                           size_t more, struct tft_forecaster *forecaster);

/* Which windows: those of a split, one every so many steps (0: the default). */
struct tft_window_choice {
    enum tft_split split;
    size_t stride;
};

/* What `evaluate` reports of windows: a new reference. also: called with each forecast, or NULL. */
enum halay_status tft_inference_evaluate(struct tft_inference *inference, const struct tft_window_choice *choice,
                                         tft_forecast_take also, void *arg, json_t **result);

#endif
