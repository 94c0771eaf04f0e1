/* SPDX-License-Identifier: Apache-2.0
 *
 * Inference: a run, prepared data and the job's ranks and threads, as `evaluate`, `predict` and `report` need them.
 */
#ifndef HALAY_TFT_INFERENCE_H
#define HALAY_TFT_INFERENCE_H

#include "halay.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/score/calibration.h"
#include "tft/core/score/forecast_scores.h"

struct tft_inference {
    struct halay_log *log;      /* borrowed */
    struct halay_context *ctx;  /* borrowed; the job's */
    struct tft_stop *stop;      /* borrowed; NULL, or set by the owner: asks to stop */
    void (*between)(void *arg); /* NULL, or set by the owner: a forecaster's, whose chunks are small then */
    void *between_arg;
    int rank;
    struct tft_run run;
    struct tft_data data;
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_calibrator calibrator; /* without data: nothing is calibrated */
};

/* log, ctx, rank and run are set: start threads, unless they run. On error fini still has to be called. */
enum halay_status tft_inference_start(struct tft_inference *inference);
void tft_inference_fini(struct tft_inference *inference);

/* A forecaster over windows, to be ended by tft_forecaster_fini; with `more` numbers for each (its look is the
 * caller's to set). */
enum halay_status tft_inference_forecaster(struct tft_inference *inference, const struct tft_windows *windows,
                                           size_t more, struct tft_forecaster *forecaster);

/* A choice of windows: those of a split, one every `stride` steps (0: the default). */
struct tft_window_choice {
    enum tft_split split;
    size_t stride;
};

/* Makes the report of `evaluate` on windows: a new reference. also: called with each forecast, or NULL. */
enum halay_status tft_inference_evaluate(struct tft_inference *inference, const struct tft_window_choice *choice,
                                         tft_forecast_take also, void *arg, json_t **result);

/* Scores windows in the same way, and adds "pictures" with "forecasts", the numbers of some for charts, spread over
 * entities and time. */
enum halay_status tft_pictures_evaluate(struct tft_inference *inference, const struct tft_window_choice *choice,
                                        json_t **result);

#endif
