/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: from prepared data to a run's folder, on all ranks of the job.
 *
 * All ranks hold the same parameters. Of each global batch a rank computes its granules' gradients; each gradient is
 * submitted to the engine the moment backward has made it final, and is waited for where the optimizer needs it. Every
 * rank then makes the same update. Rank 0 writes the files and prints.
 */
#ifndef HALAY_TFT_TRAIN_H
#define HALAY_TFT_TRAIN_H

#include "halay.h"
#include "halay_tft.h"
#include "tft/core/data/data.h"
#include "tft/core/run/ranks.h"
#include "tft/core/run/run_config.h"
#include <stdio.h>

/* Gets what rank 0's training announces; each may be NULL. Called on the thread that trains. */
struct tft_listener {
    void (*step)(void *arg, const struct halay_tft_progress *progress);
    void (*evaluation)(void *arg, const char *json); /* the line of metrics.jsonl */
    void (*say)(void *arg, const char *text);        /* a line for people */
    void *arg;
};

/* Returns the number of a rank's compute threads: the configuration's, or its share of its host's cores; one for a
 * device of its own. */
int tft_trainer_threads(struct halay_log *log, const struct halay_context *ctx, const struct tft_run_config *config);
/* Prints a line for people, if the listener takes such. */
void tft_say(const struct tft_listener *listener, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Options of a training besides its configuration and data. */
struct tft_train_options {
    const char *folder;      /* the run's */
    const char *checkpoints; /* the folder of its checkpoints */
    const char *metrics;     /* the folder of metrics.jsonl; NULL: the run's */
    int folder_ends;         /* the folder is removed after the training: messages do not name it */
    int elastic;             /* continue when ranks are lost: halay_elastic.h */
    int holds_out;           /* a refit leaves out the rows from this split (enum tft_split) on; 0: none */
    int is_member;           /* not the first: the first's training chooses and calibrates for all */
    int resume;              /* resume from the newest of them, if there is one */
    struct tft_stop *stop;   /* borrowed; NULL: it is not asked to stop */
    struct tft_listener listener;
    int finds_rate; /* look for a learning rate and write nothing; folders are not used */
    FILE *report;   /* where rank 0 prints what it found */
    double *rate;   /* what it found; 0: nothing */
};

/*
 * Train on data (the same on all ranks) and leave the best parameters in the run's folder. log is this rank's. SIGTERM,
 * SIGINT and SIGUSR1 (on any rank) end it after the step, with a checkpoint: that is HALAY_OK.
 */
enum halay_status tft_train(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                            struct tft_data *data, const struct tft_train_options *options);
/* Does the same for the first member alone; the other members are already in folders of its folder (members.c). */
enum halay_status tft_train_first(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                                  struct tft_data *data, const struct tft_train_options *options);

/* ---- backtest ---- */

/* A backtest: forecasts from origins that roll through a split, by models that are trained again, after every few of
 * them, on everything before: what would have been forecast had the model been in use then. */
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
