/* SPDX-License-Identifier: Apache-2.0
 *
 * Scoring: a checkpoint and prepared data opened together, as `evaluate` and `report` need them.
 */
#ifndef HALAY_TFT_SCORING_H
#define HALAY_TFT_SCORING_H

#include "halay.h"
#include "tft/run/run_folder.h"
#include "tft/score/evaluate.h"

struct tft_scoring {
    struct halay_log *log;     /* borrowed */
    struct halay_context *ctx; /* owned; the job's */
    int rank;
    struct tft_checkpoint checkpoint;
    struct tft_data data;
    struct tft_pool *pool;
    struct tft_workers *workers;
};

/* Join the job (alone, or under a launcher), read both, start threads. data_path may be NULL: no data (yet). The object
 * may be given to fini after an error too. */
enum halay_status tft_scoring_init(struct halay_log *log, const char *checkpoint, const char *data_path,
                                   struct tft_scoring *scoring);
void tft_scoring_fini(struct tft_scoring *scoring);

/* A forecaster over windows; give it to tft_forecaster_fini. */
enum halay_status tft_scoring_forecaster(struct tft_scoring *scoring, const struct tft_windows *windows,
                                         struct tft_forecaster *forecaster);

/* All that `evaluate` says about a split, as a new reference; with the naive forecasts. */
enum halay_status tft_scoring_evaluate(struct tft_scoring *scoring, enum tft_split split, size_t stride,
                                       json_t **result);

/* Which windows: those of a split, every stride-th (0: the default). */
struct tft_selection {
    enum tft_split split;
    size_t stride; /* steps */
};

/* From the values of --split and --stride (NULL: not given). HALAY_ERR_CONFIG (logged) if one says nothing. */
enum halay_status tft_selection_parse(struct halay_log *log, const char *split, const char *stride,
                                      struct tft_selection *selection);

#endif
