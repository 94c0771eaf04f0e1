/* SPDX-License-Identifier: Apache-2.0
 *
 * Backtest: forecasts from origins that roll through a split, by models that are trained again, after every few of
 * them, on everything before: what would have been forecast had the model been in use then.
 *
 *   fit 1   train......|valid..|o   o   o
 *   fit 2   train..................|valid..|o   o   o         fit_every 3: three origins each
 *   fit 3   train..............................|valid..|o
 *
 * The ends of the training and validation spans move on with the origins; each fit is a run of its own, with a folder
 * that all other commands read. Rows keep the scaling of the prepared data, fitted on the original training span.
 */
#ifndef HALAY_TFT_BACKTEST_H
#define HALAY_TFT_BACKTEST_H

#include "halay.h"
#include "tft/core/data/data.h"
#include "tft/core/run/run_config.h"
#include "tft/core/train/train_options.h"

struct tft_backtest_options {
    const char *folder; /* of the runs fit-0001, fit-0002, ... */
    enum tft_split split;
    size_t stride;    /* steps from origin to origin; 0: the horizon */
    size_t fit_every; /* origins of a fit; 0: all */
    int warm;         /* a fit starts from the weights of the previous one */
    int resume;
    const char *forecasts; /* the file of all forecasts; NULL: none */
    int json;              /* that is JSON lines */
    struct tft_stop *stop; /* NULL: it is not asked to stop */
    struct tft_listener listener;
};

/*
 * Train and forecast, on all ranks of the job; meanwhile data's splits change. *result: a new reference to what
 * `evaluate` reports of all forecasts together, and "fits". HALAY_ERR_CANCELED: it was asked to stop.
 */
enum halay_status tft_backtest(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                               struct tft_data *data, const struct tft_backtest_options *options, json_t **result);

#endif
