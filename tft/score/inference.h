/* SPDX-License-Identifier: Apache-2.0
 *
 * Inference: a run, prepared data and the job's ranks and threads, as `evaluate`, `predict` and `report` need them.
 */
#ifndef HALAY_TFT_INFERENCE_H
#define HALAY_TFT_INFERENCE_H

#include "halay.h"
#include "tft/run/run_folder.h"
#include "tft/score/forecast_scores.h"

struct tft_inference {
    struct halay_log *log;     /* borrowed */
    struct halay_context *ctx; /* owned; the job's */
    int rank;
    struct tft_run run;
    struct tft_data data;
    struct tft_pool *pool;
    struct tft_workers *workers;
};

/* Join the job (alone, or under a launcher), read both, start threads. data_path NULL: no data yet. On error fini still
 * has to be called. */
enum halay_status tft_inference_init(struct halay_log *log, const char *checkpoint, const char *data_path,
                                     struct tft_inference *inference);
void tft_inference_fini(struct tft_inference *inference);

/* A forecaster over windows, to be ended by tft_forecaster_fini; with `more` numbers for each (its look is the
 * caller's to set). */
enum halay_status tft_inference_forecaster(struct tft_inference *inference, const struct tft_windows *windows,
                                           size_t more, struct tft_forecaster *forecaster);

/* What `evaluate` reports of a split: a new reference. */
enum halay_status tft_inference_evaluate(struct tft_inference *inference, enum tft_split split, size_t stride,
                                         json_t **result);

/* Which windows: those of a split, one every so many steps (0: the default). */
struct tft_window_choice {
    enum tft_split split;
    size_t stride;
};

#endif
