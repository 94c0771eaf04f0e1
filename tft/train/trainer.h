/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer: what a training holds, for train.c and the files that set it up.
 */
#ifndef HALAY_TFT_TRAINER_H
#define HALAY_TFT_TRAINER_H

#include "tft/data/windows.h"
#include "tft/run/resume.h"
#include "tft/run/run_length.h"
#include "tft/train/adam.h"
#include "tft/train/exchange.h"
#include "tft/train/progress.h"
#include "tft/train/train_options.h"

/* Sums over the ranks that each step brings; the seconds are rank 0's, to which the others add none. */
enum { TFT_STEP_LOSS, TFT_STEP_SECONDS, TFT_STEP_INTERRUPT, TFT_STEP_NUMBERS };

struct tft_trainer {
    struct halay_log *log; /* borrowed, as the next five */
    struct halay_context *ctx;
    const struct tft_run_config *config;
    const struct tft_data *data;
    const struct tft_train_options *options;
    int rank, ranks;
    json_t *run;              /* owned: the run's description; rank 0 */
    struct tft_resume resume; /* rank 0 */
    int locks[2];             /* owned: on the run's folder and on that of the checkpoints; rank 0; -1: none */

    struct tft_model *model;
    const struct tft_param_table *table; /* the model's */
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_shards shards;
    struct tft_exchange exchange;
    struct tft_adam adam;
    /* blocks is owned: both moments and the average if there is one, of this rank's tensors; before them the
     * parameters, unless these are in the exchange's memory. */
    float *blocks, *params;
    float *average;       /* of the parameters; NULL: none is kept */
    float *average_whole; /* the same, of all ranks' tensors: up to date after tft_trainer_gather_average */
    json_t *manifest;     /* owned: of the checkpoint that it goes on from, at the start; rank 0 */

    struct tft_windows train, valid;
    uint64_t *order, *valid_order; /* owned: windows of this epoch; of each validation, in order */
    double *weights;               /* owned: of the entities, for the sampler; NULL: all alike */
    size_t *before;                /* owned: training windows before each of them, and all; if there are weights */
    size_t epoch_samples, valid_samples, batch;
    uint64_t epoch_steps;
    struct tft_limits limits;
    double numbers[TFT_STEP_NUMBERS]; /* summed over the ranks with each step */
    struct halay_tensor *numbers_tensor;

    struct tft_progress progress;  /* rank 0 */
    struct tft_resume_state state; /* the same on every rank */
    int begun, saved;              /* rank 0: the folder has this run's description, its parameters */
    uint64_t said_samples;
    int64_t said_us;
    long long said_waited_us;
    int is_changed;  /* elastic: the ranks are others, or the state is that of a commit */
    int32_t failed;  /* elastic: rank 0 could not begin; of enum halay_status */
    int stop;        /* after this step, with an evaluation */
    int interrupted; /* after this step, without; the signal's number if it came here */
};

/* Make everything; the first step is what state says. On error fini still has to be called. */
enum halay_status tft_trainer_init(struct tft_trainer *trainer);
void tft_trainer_fini(struct tft_trainer *trainer);

/* ---- in an elastic job (trainer_elastic.c); each does nothing if --elastic is not given, but for join ---- */

/* Can it be, with this job and this configuration? */
enum halay_status tft_trainer_check_elastic(const struct tft_trainer *trainer);
/* Once the blocks are there: get rank 0's state, or that of ranks that train already. begun: on rank 0 whether it could
 * begin. */
enum halay_status tft_trainer_join(struct tft_trainer *trainer, enum halay_status begun);
/* What the state says now does not get lost any more; others may have joined afterwards. Between steps, on all
 * ranks. */
enum halay_status tft_trainer_commit(struct tft_trainer *trainer);
/* After a failure: HALAY_OK if it was the loss of a rank, and training can go on from what state says. */
enum halay_status tft_trainer_recover(struct tft_trainer *trainer, enum halay_status failure);

/* Rank 0: nobody else writes these folders. */
enum halay_status tft_trainer_lock_folders(struct tft_trainer *trainer);
/* Is there nothing more to do but an evaluation that is due? */
int tft_trainer_is_over(const struct tft_trainer *trainer);

/* The windows of this epoch, in order. */
enum halay_status tft_trainer_draw_order(struct tft_trainer *trainer);
/* Steps in all, as far as that is known. */
uint64_t tft_trainer_steps(const struct tft_trainer *trainer);
/* The schedule's learning rate for the next step. */
double tft_trainer_rate(const struct tft_trainer *trainer);
/* The optimizer stands where the state does. */
void tft_trainer_set_adam(struct tft_trainer *trainer);
/* A step on the next samples of the epoch: state goes on, numbers[TFT_STEP_LOSS] is the batch's loss, which may be not
 * finite (the parameters then are so too); stop and interrupted are set where they apply. The same on every rank. */
enum halay_status tft_trainer_step(struct tft_trainer *trainer, double learning_rate);

/* The moving average of all parameters, if one is kept. All ranks call it, between steps. */
enum halay_status tft_trainer_gather_average(struct tft_trainer *trainer);
/* The parameters that are evaluated and kept: that, or the parameters themselves. */
static inline const float *tft_trainer_best_params(const struct tft_trainer *t)
{
    return t->average ? t->average_whole : t->params;
}
/* At the start: can all ranks write into one folder of checkpoints, where they have to? HALAY_ERR_CONFIG; all ranks
 * call it. */
enum halay_status tft_trainer_check_folder(struct tft_trainer *trainer);
/* Write a checkpoint of where the state stands; all ranks call it. */
enum halay_status tft_trainer_save(struct tft_trainer *trainer);

/* Rank 0: the parameters of this step are the best so far; write them. Nothing on the others. */
enum halay_status tft_trainer_keep(struct tft_trainer *trainer, const float *params, uint64_t step);

#endif
