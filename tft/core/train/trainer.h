/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer: what a training holds, in parts of which one file is the owner, and what those files do for each other.
 * A function that begins with "Rank 0" is called on that rank alone; all ranks call the others, in the same order.
 */
#ifndef HALAY_TFT_TRAINER_H
#define HALAY_TFT_TRAINER_H

#include "base/log.h"
#include "base/memory.h"
#include "tft/core/data/windows.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/run/checkpoints.h"
#include "tft/core/run/run_config.h"
#include "tft/core/run/run_folder.h"
#include "tft/core/run/run_length.h"
#include "tft/core/run/tracks.h"
#include "tft/core/score/forecast_scores.h"
#include "tft/core/train/adam.h"
#include "tft/core/train/exchange.h"
#include "tft/core/train/health.h"
#include "tft/core/train/train.h"

/* The parameters, both moments and the moving average of a training, one after the other in one allocation. */
struct tft_block_set {
    float *memory, *params, *moments[2];
    float *average; /* of the parameters; NULL: none is kept */
};

/* Zero-initialise. */
struct tft_blocks {
    struct halay_log *log;             /* borrowed */
    struct queue *queue;               /* borrowed: the steps', for copies */
    size_t reals;                      /* of all blocks */
    struct tft_block_set host, device; /* each memory owned once */
    int is_ahead;                      /* the device's blocks are newer than the host's */
};

/* Makes the blocks, all zero, of `reals` numbers each. queue: of the device; borrowed until fini. */
enum halay_status tft_blocks_init(struct halay_log *log, struct queue *queue, size_t reals, int has_average,
                                  struct tft_blocks *blocks);
void tft_blocks_fini(struct tft_blocks *blocks);
/* Returns nonzero if the device's blocks are copies. */
static inline int tft_blocks_are_apart(const struct tft_blocks *blocks)
{
    return blocks->device.memory != blocks->host.memory;
}
/* Brings what the steps made to the host. Cheap if it is there already. */
enum halay_status tft_blocks_download(struct tft_blocks *blocks);
/* Makes the host's blocks what the next step begins with. */
enum halay_status tft_blocks_upload(struct tft_blocks *blocks);
/* Returns the parameters that are evaluated and kept: their average, or the parameters themselves. */
static inline const float *tft_blocks_best(const struct tft_blocks *blocks)
{
    return blocks->host.average ? blocks->host.average : blocks->host.params;
}

/* ---- epoch.c ---- */

/* The windows of training and validation, in their order. Zero-initialise. */
struct tft_epoch {
    struct tft_windows train, valid;
    struct halay_region orders;
    uint64_t *order, *valid_order; /* in orders: windows of this epoch; of each validation, ascending */
    size_t samples, valid_samples; /* how many of them are taken */
    size_t valid_max;              /* windows of a validation, beside the configuration's number; 0: no limit */
};

/* Lists the windows by the splits that the data's schema has now, in place of those listed before. */
enum halay_status tft_epoch_list(struct halay_log *log, const struct tft_data *data,
                                 const struct tft_run_config *config, struct tft_epoch *epoch);
/* Draws the order of the training windows in an epoch of this number. */
void tft_epoch_draw(struct tft_epoch *epoch, uint32_t seed, uint32_t number);
void tft_epoch_fini(struct tft_epoch *epoch);

/* Fills order (room for `total`): order[0 .. count) are the windows, the rest is scratch. count <= total. */
void tft_sampler_draw(uint32_t seed, uint32_t epoch, uint64_t total, uint64_t count, uint64_t *order);

/* Calibrating takes a tenth of a limit of time at most. */
enum { TFT_CALIBRATION_PART = 10 };

/* Numbers that each step sums over the ranks; the seconds are rank 0's, the others add 0. */
enum { TFT_STEP_LOSS, TFT_STEP_SECONDS, TFT_STEP_INTERRUPT, TFT_STEP_NUMBERS };

/* The results of a step besides the parameters (trainer_step.c). */
struct tft_step_sums {
    double numbers[TFT_STEP_NUMBERS];
    struct halay_tensor *tensor; /* owned: numbers, summed over the ranks */
    double norm;                 /* of the gradients, before clipping; of this rank's tensors */
    atomic_llong gathered_us;    /* time that threads spent on putting batches together; relaxed */
};

/* The files of a run (trainer_files.c); rank 0's. */
struct tft_run_files {
    json_t *run; /* owned: the run's description */
    struct tft_checkpoints checkpoints;
    json_t *manifest; /* owned: of the checkpoint that it resumes from, at the start */
    int locks[2];     /* owned: on the run's folder and on that of the checkpoints; -1: none */
    int begun, saved; /* the folder has this run's description, its parameters */
};

/* The reports of steps and evaluations (trainer_report.c); rank 0's. Zero on the others. */
struct tft_report {
    struct tft_listener listener;
    FILE *metrics;      /* owned; NULL: none */
    const char *folder; /* of these and of end.json; borrowed; NULL: none is open */
    int64_t began_us;
    struct tft_moment start; /* where the training began, in this process */
    uint64_t start_samples, total_steps;
    struct tft_tracks *tracks; /* owned; NULL: none */
    struct tft_health health;
    unsigned rules;         /* of health, that spoke since the last evaluation */
    unsigned char *reached; /* owned: parameters that a gradient reached in this block of steps */
    /* since the last step */
    int64_t step_us;
    double step_waited; /* tft_trainer_waited then */
    long long step_gathered_us;
    /* since the last row of the tracks */
    int64_t row_us;
    uint64_t row_samples;
    double seconds, waiting, gathering;
    /* since the last evaluation */
    int64_t before_us;
    double cpu_before; /* processor seconds then */
};

/* The parts that forecasts are made of, chosen at the end (trainer_finish.c). */
struct tft_made_of {
    struct tft_blend blend;
    struct tft_members members; /* owned: those after the first */
    double best_q_risk;         /* of the median, in the best validation of this process; 0: none yet */
};

/* An elastic job (trainer_elastic.c). */
struct tft_elastic_state {
    int is_changed; /* the ranks have changed, or the state is that of a commit */
    int32_t failed; /* rank 0 could not begin; of enum halay_status */
};

struct tft_trainer {
    struct halay_log *log; /* borrowed, as the next four */
    struct halay_context *ctx;
    const struct tft_run_config *config;
    struct tft_data *data;
    const struct tft_train_options *options;
    int rank, ranks;

    struct tft_model *model;
    const struct tft_param_table *table; /* the model's */
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_resident *resident; /* owned: the data's rows on the device; NULL: the host fills batches */

    struct tft_epoch epoch;
    size_t batch; /* samples of a step, of all ranks */
    struct tft_blocks blocks;
    struct tft_exchange exchange;
    struct tft_adam adam;
    struct tft_step_sums sums;

    struct tft_training_state state; /* the same on every rank */
    struct tft_limits limits;
    int stop;        /* after this step, with an evaluation */
    int interrupted; /* after this step, without; the signal's number if this process got it */
    /* Since the last evaluation, or the beginning. */
    uint64_t since_samples;
    int64_t since_us;
    double since_waited; /* tft_trainer_waited then */

    struct tft_run_files files;
    struct tft_report report;
    struct tft_made_of made_of;
    struct tft_elastic_state elastic;
};

/* ---- trainer.c ---- */

/* Makes everything; state has the first step. On error fini still has to be called. */
enum halay_status tft_trainer_init(struct tft_trainer *trainer);
void tft_trainer_fini(struct tft_trainer *trainer);
/* Lists the windows anew. */
enum halay_status tft_trainer_list_windows(struct tft_trainer *trainer);

/* ---- trainer_files.c ---- */

/* Rank 0: locks the folders, and begins the run's folder and the state: fresh, from another run's parameters, or from a
 * checkpoint with all its blocks. */
enum halay_status tft_files_begin(struct tft_trainer *trainer);
/* Rank 0, which another rank was before: takes the files over, like a process that resumes. */
enum halay_status tft_files_take_over(struct tft_trainer *trainer);
void tft_files_fini(struct tft_run_files *files);
/* Writes a checkpoint of the state: rank 0 has the files. */
enum halay_status tft_files_save(struct tft_trainer *trainer);
/* Writes the parameters of this step, the best so far, on rank 0. The blend's weights that the run's folder has stay
 * unless others were chosen. */
enum halay_status tft_files_keep(struct tft_trainer *trainer, const float *params, uint64_t step, int is_chosen);
/* ---- trainer_step.c ---- */

/* Registers the sums. */
enum halay_status tft_step_sums_init(struct tft_trainer *trainer);
/* Runs a step on the next samples of the epoch: state advances; sums.numbers[TFT_STEP_LOSS] is the batch's loss, which
 * may not be finite (nor then the parameters); stop and interrupted are set if they apply. The same on every rank. */
enum halay_status tft_trainer_step(struct tft_trainer *trainer, double learning_rate);
/* Draws the order of this epoch's windows. */
void tft_trainer_draw_order(struct tft_trainer *trainer);
/* Returns the steps in all, as far as they are known. */
uint64_t tft_trainer_steps(const struct tft_trainer *trainer);
/* Returns the schedule's learning rate for the next step. */
double tft_trainer_rate(const struct tft_trainer *trainer);
/* Sets the optimizer to the state's step. */
void tft_trainer_set_adam(struct tft_trainer *trainer);
/* Returns nonzero if nothing more is to be done, except an evaluation that is due. */
int tft_trainer_is_over(const struct tft_trainer *trainer);
/* Returns the seconds that this rank's cores waited for other ranks so far, a mean over them. */
double tft_trainer_waited(struct tft_trainer *trainer);
/* Prints the time that the steps have, for messages: all of 'max_time', or a part beside a refit or other members. */
void tft_trainer_print_time(const struct tft_trainer *trainer, char text[80]);

/* ---- validation.c ---- */

/* Describes forecasts of the validation windows by these parameters, for tft_forecaster_init. */
struct tft_forecaster tft_trainer_forecaster(const struct tft_trainer *trainer, const float *params);
/* Scores the validation windows' forecasts by the model alone, whatever its forecasts are blended with. result: to be
 * ended by tft_forecast_scores_fini. */
enum halay_status tft_trainer_validate(struct tft_trainer *trainer, struct tft_forecast_scores *result);
/* Under a limit of time: limits the windows of a validation, whose pace is measured if the state has none yet. Between
 * steps; sets interrupted. Lists windows anew where their number changes. */
enum halay_status tft_trainer_fit_validation(struct tft_trainer *trainer);
/* Keeps the time for the calibration, at the pace that the state has: once it has another state. */
void tft_trainer_reserve(struct tft_trainer *trainer);
/* Returns the validation windows that fit in this time, at that pace; SIZE_MAX: all. */
size_t tft_trainer_windows_within(const struct tft_trainer *trainer, double seconds);

/* ---- trainer_report.c ---- */

/* Rank 0: begins, or begins again, to report from the state's step: opens metrics.jsonl and the tracks without
 * their lines after that. Until fini metrics.jsonl has a lock (flock(2)), by which others can know that a training is
 * at work (the folder's own lock would do, but for the moment in which a look takes it from a training that begins). */
enum halay_status tft_report_begin(struct tft_trainer *trainer);
/* Rank 0, after a step. */
enum halay_status tft_report_step(struct tft_trainer *trainer);
/* Rank 0, before an evaluation, while the gradients of the last step are there: values for the tracks. */
enum halay_status tft_report_values(struct tft_trainer *trainer);
/* Rank 0, after an evaluation. result: NULL without validation. */
enum halay_status tft_report_evaluation(struct tft_trainer *trainer, const struct tft_forecast_scores *result,
                                        int is_best);
/* Rank 0: the number of steps is now known. */
void tft_report_total(struct tft_trainer *trainer);
/* Closes the tracks and writes end.json, how the training ended ("done", "stopped", "failed"): one that is killed
 * leaves none. Returns `status`, or the first error. */
enum halay_status tft_report_end(struct tft_trainer *trainer, enum halay_status status);
void tft_report_fini(struct tft_trainer *trainer);
/* Returns the seconds of training, those of earlier processes included. */
double tft_report_seconds(const struct tft_report *report);

/* ---- trainer_finish.c ---- */

/* Chooses what the best parameters are blended with and how far their intervals are moved, takes the other members,
 * refits. */
enum halay_status tft_trainer_finish(struct tft_trainer *trainer);
/* Rank 0: prints a line if naive forecasts of the validation windows are as good. */
enum halay_status tft_trainer_compare_naive(struct tft_trainer *trainer);
void tft_made_of_fini(struct tft_made_of *made_of);

/* ---- refit.c ---- */

/* Returns the part of the time that is kept for the refit, by the windows' splits and the configuration; 0:
 * without a refit. */
double tft_trainer_refit_part(const struct tft_trainer *trainer);
/* Trains on from these parameters, the best ones, of a step, with the windows of all rows, and leaves the result in the
 * run's folder. After the training, whose state and windows stay as they are, but not its blocks. Sets interrupted,
 * and writes nothing then. */
enum halay_status tft_trainer_refit(struct tft_trainer *trainer, const float *params, long long step);

/* ---- trainer_elastic.c: without --elastic all but join do nothing ---- */

/* Returns HALAY_OK if this job can be elastic with this configuration, or is not to be. */
enum halay_status tft_trainer_check_elastic(const struct tft_trainer *trainer);
/* Once there are blocks: gets the state of rank 0, or of ranks that already train. begun: on rank 0, whether it could
 * begin. */
enum halay_status tft_trainer_join(struct tft_trainer *trainer, enum halay_status begun);
/* Commits the state, so that it cannot be lost; afterwards other ranks may have joined. Between steps. */
enum halay_status tft_trainer_commit(struct tft_trainer *trainer);
/* After a failure: HALAY_OK if a rank was lost and training can continue from the state. */
enum halay_status tft_trainer_recover(struct tft_trainer *trainer, enum halay_status failure);

/* ---- transfer.c ---- */

/* The model that the parameters are for. */
struct tft_transfer_to {
    const struct tft_schema *schema;
    const struct tft_encoding *encoding;
    const struct tft_model_config *config;
    const struct tft_param_table *table;
};

/*
 * Fill params, which hold initial values, with what `from` has. A warning lists what was taken over, what is new and
 * what was left out, if the two differ. HALAY_ERR_CONFIG: a tensor has another shape for another reason, or there is
 * nothing to take; HALAY_ERR_NO_MEMORY. folder: for messages.
 */
enum halay_status tft_transfer(struct halay_log *log, const char *folder, const struct tft_run *from,
                               const struct tft_transfer_to *to, float *params);

#endif
