/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer: what a training holds, for train.c and the files that set it up.
 */
#ifndef HALAY_TFT_TRAINER_H
#define HALAY_TFT_TRAINER_H

#include "tft/core/data/windows.h"
#include "tft/core/run/checkpoints.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/run/run_length.h"
#include "tft/core/run/tracks.h"
#include "tft/core/score/forecast_scores.h"
#include "tft/core/train/adam.h"
#include "tft/core/train/exchange.h"
#include "tft/core/train/health.h"
#include "tft/core/train/progress.h"
#include "tft/core/train/train_options.h"

/* Numbers that each step sums over the ranks; the seconds are rank 0's, the others add 0. */
enum { TFT_STEP_LOSS, TFT_STEP_SECONDS, TFT_STEP_INTERRUPT, TFT_STEP_NUMBERS };

/* Calibrating takes one part in so many of a limit of time, at most. */
enum { TFT_CALIBRATION_PART = 10 };

/* What rank 0 notes of the steps: for other programs (tracks), and on the training's health (notes.c). */
struct tft_notes {
    struct tft_tracks *tracks; /* owned; NULL: none */
    struct tft_health health;
    unsigned spoken;         /* rules that spoke since the last evaluation */
    unsigned char *reached;  /* owned: parameters that a gradient reached in this block of steps */
    int64_t step_us, row_us; /* when the step before ended, and the step of the row before */
    double step_waited;      /* tft_trainer_waited at the end of the step before */
    long long step_gathered_us;
    uint64_t row_samples;
    double seconds, waiting, gathering; /* since the row before */
};

/* What a step works on, where the device computes: the trainer's blocks themselves on the processor; else copies of
 * them, and tft_trainer_bring and tft_trainer_send go between. */
struct tft_twin {
    struct queue *queue; /* borrowed: the steps', for copies; NULL where blocks is */
    float *blocks;       /* owned: like the trainer's; NULL: they are the same memory */
    float *params, *average, *gradients;
    int is_ahead; /* of the host's blocks */
};

struct tft_trainer {
    struct halay_log *log; /* borrowed, as the next five */
    struct halay_context *ctx;
    const struct tft_run_config *config;
    struct tft_data *data;
    const struct tft_train_options *options;
    int rank, ranks;
    json_t *run;                        /* owned: the run's description; rank 0 */
    struct tft_checkpoints checkpoints; /* rank 0 */
    int locks[2]; /* owned: on the run's folder and on that of the checkpoints; rank 0; -1: none */

    struct tft_model *model;
    const struct tft_param_table *table; /* the model's */
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_exchange exchange;
    struct tft_adam adam;
    /* blocks is owned: the parameters, both moments, and the average if there is one. */
    float *blocks, *params;
    float *moments[2];
    float *average;                /* of the parameters; NULL: none is kept */
    struct tft_twin twin;          /* of blocks, where the device has memory of its own */
    struct tft_resident *resident; /* owned: the data's rows there; NULL: the host fills batches */
    json_t *manifest;              /* owned: of the checkpoint that it resumes from, at the start; rank 0 */

    struct tft_windows train, valid;
    uint64_t *order, *valid_order; /* owned: windows of this epoch; of each validation, in order */
    size_t epoch_samples, valid_samples, batch;
    size_t valid_max; /* windows of a validation, beside the configuration's number; 0: no limit */
    uint64_t epoch_steps;
    struct tft_limits limits;
    struct tft_blend blend;           /* its weights are chosen at the end */
    struct tft_members members;       /* owned: those after the first, from the end on */
    double numbers[TFT_STEP_NUMBERS]; /* summed over the ranks with each step */
    struct halay_tensor *numbers_tensor;

    struct tft_progress progress;    /* rank 0 */
    struct tft_training_state state; /* the same on every rank */
    int begun, saved;                /* rank 0: the folder has this run's description, its parameters */
    double best_q_risk;              /* of the median, in the best validation of this process; 0: none yet */
    struct tft_notes notes;          /* rank 0 */
    double norm;                     /* of the last step's gradients, before clipping; rank 0's tensors */
    atomic_llong gathered_us;        /* time that threads spent on putting batches together; relaxed */
    uint64_t said_samples;
    int64_t said_us;
    double said_waited; /* tft_trainer_waited */
    int is_changed;     /* elastic: the ranks have changed, or the state is that of a commit */
    int32_t failed;     /* elastic: rank 0 could not begin; of enum halay_status */
    int stop;           /* after this step, with an evaluation */
    int interrupted;    /* after this step, without; the signal's number if it came here */
};

/* Make everything; state has the first step. On error fini still has to be called. */
enum halay_status tft_trainer_init(struct tft_trainer *trainer);
void tft_trainer_fini(struct tft_trainer *trainer);

/* Seconds that this rank's cores waited for other ranks so far, a mean over them. */
double tft_trainer_waited(struct tft_trainer *trainer);

/* ---- between the host's blocks and the device's (trainer_twin.c) ---- */

/* Once there are blocks; sets where the optimizer works. */
enum halay_status tft_trainer_twin_init(struct tft_trainer *trainer);
void tft_trainer_twin_fini(struct tft_trainer *trainer);
/* The host's blocks have what the steps made of them. Cheap if they have it already. */
enum halay_status tft_trainer_bring(struct tft_trainer *trainer);
/* The host's blocks are what the next step begins with. */
enum halay_status tft_trainer_send(struct tft_trainer *trainer);
/* The gradients of the last step to the exchange's memory, for reports. */
enum halay_status tft_trainer_bring_gradients(struct tft_trainer *trainer);

/* List the training and validation windows, anew, by the splits that the data's schema has now. */
enum halay_status tft_trainer_list_windows(struct tft_trainer *trainer);
void tft_trainer_drop_windows(struct tft_trainer *trainer);

/* ---- in an elastic job (trainer_elastic.c); without --elastic all but join do nothing ---- */

/* Can this job be elastic with this configuration? */
enum halay_status tft_trainer_check_elastic(const struct tft_trainer *trainer);
/* Once there are blocks: get the state of rank 0, or of ranks that already train. begun: on rank 0, whether it could
 * begin. */
enum halay_status tft_trainer_join(struct tft_trainer *trainer, enum halay_status begun);
/* Commit the state, so that it cannot be lost; afterwards other ranks may have joined. Between steps, on all ranks. */
enum halay_status tft_trainer_commit(struct tft_trainer *trainer);
/* After a failure: HALAY_OK if a rank was lost and training can continue from the state. */
enum halay_status tft_trainer_recover(struct tft_trainer *trainer, enum halay_status failure);

/* Rank 0: the run's description, of what is chosen now. */
enum halay_status tft_trainer_describe(struct tft_trainer *trainer);
/* Forecasts the validation windows by these parameters, for tft_forecaster_init. */
struct tft_forecaster tft_trainer_forecaster(const struct tft_trainer *trainer, const float *params);
/* The validation windows' scores, of the model alone whatever its forecasts are blended with, to be ended by
 * tft_forecast_scores_fini. HALAY_ERR_FORMAT (logged) if the loss is not finite. */
enum halay_status tft_trainer_validate(struct tft_trainer *trainer, struct tft_forecast_scores *result);

/* Under a limit of time: limit the windows of a validation, whose pace is measured if the state has none yet. Between
 * steps, on all ranks; sets interrupted. Lists windows anew where their number changes. */
enum halay_status tft_trainer_fit_validation(struct tft_trainer *trainer);
/* Keep the time for the calibration, at the pace that the state has: once it has another state. */
void tft_trainer_reserve(struct tft_trainer *trainer);
/* The time that the steps have, for messages: all of 'max_time', or a part beside a refit or other members. */
void tft_trainer_print_time(const struct tft_trainer *trainer, char text[80]);
/* Validation windows that fit in this time, at that pace; SIZE_MAX: all. */
size_t tft_trainer_windows_within(const struct tft_trainer *trainer, double seconds);

/* The part of the time that is kept for the refit; 0: there is none. Of the windows' splits and the configuration. */
double tft_trainer_refit_part(const struct tft_trainer *trainer);
/* Train on from these parameters, the best ones, of a step, with the windows of all rows, and leave what that gives in
 * the run's folder. All ranks call it, after the training; its state and windows stay as they are, its blocks do not.
 * Sets interrupted, and writes nothing then. */
enum halay_status tft_trainer_refit(struct tft_trainer *trainer, const float *params, long long step);

/* Read the other members, whose trainings have ended, and leave them in the run's folder, beside the best parameters,
 * of a step. All ranks call it, after the training. */
enum halay_status tft_trainer_take_members(struct tft_trainer *trainer, const float *params, long long step);

/* Rank 0: begin, or begin again, the notes of a training from where the state stands. */
enum halay_status tft_trainer_begin_notes(struct tft_trainer *trainer);
/* Rank 0, after a step, and after an evaluation. */
enum halay_status tft_trainer_note_step(struct tft_trainer *trainer);
enum halay_status tft_trainer_note_evaluation(struct tft_trainer *trainer,
                                              const struct tft_progress_evaluation *evaluation);
/* Before an evaluation, while the gradients of the last step are there. */
enum halay_status tft_trainer_note_values(struct tft_trainer *trainer);
/* Close the files; `status` is how the training ended. Does nothing the second time. */
enum halay_status tft_trainer_end_notes(struct tft_trainer *trainer, enum halay_status status);

/* Rank 0: lock the folders against other processes. */
enum halay_status tft_trainer_lock_folders(struct tft_trainer *trainer);
/* Is there nothing more to do, except an evaluation that is due? */
int tft_trainer_is_over(const struct tft_trainer *trainer);

/* The windows of this epoch, in order. */
enum halay_status tft_trainer_draw_order(struct tft_trainer *trainer);
/* Steps in all, as far as they are known. */
uint64_t tft_trainer_steps(const struct tft_trainer *trainer);
/* The schedule's learning rate for the next step. */
double tft_trainer_rate(const struct tft_trainer *trainer);
/* Set the optimizer to where the state stands. */
void tft_trainer_set_adam(struct tft_trainer *trainer);
/* A step on the next samples of the epoch: state advances; numbers[TFT_STEP_LOSS] is the batch's loss, which may not be
 * finite (nor then the parameters); stop and interrupted are set if they apply. The same on every rank. */
enum halay_status tft_trainer_step(struct tft_trainer *trainer, double learning_rate);

/* The parameters that are evaluated and kept: that, or the parameters themselves. */
static inline const float *tft_trainer_best_params(const struct tft_trainer *t)
{
    return t->average ? t->average : t->params;
}
/* Write a checkpoint of the state: rank 0 has the files. */
enum halay_status tft_trainer_save(struct tft_trainer *trainer);

/* Rank 0: write the parameters of this step, the best so far. The blend's weights that the run's folder has stay unless
 * others were chosen. Does nothing on the other ranks. */
enum halay_status tft_trainer_keep(struct tft_trainer *trainer, const float *params, uint64_t step, int is_chosen);

#endif
