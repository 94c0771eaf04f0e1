/* SPDX-License-Identifier: Apache-2.0
 *
 * A run's folder. The first two of its files are all that forecasting needs.
 *
 *   run.json            configuration, schema, encoding (scalers, entities), and the properties of the machine that
 *                       the bits depend on; written when the run begins and when it resumes
 *   model.safetensors   the best weights: the parameters of the best evaluation so far. Its metadata has the step, the
 *                       parameters' CRC-32, the weights of a blend (tft/core/run/blend.h), and the CRC-32 of run.json,
 *                       so that another run's parameters are not mistaken for this one's
 *   refit.safetensors   those weights, trained on with all rows (tft/core/train/refit.c), if the run has such. Its
 *                       metadata has the CRC-32 of the weights in model.safetensors that it began with: beside others,
 *                       and under `refit: off`, it is not read; damaged, it gives a warning
 *   member-2.safetensors, ...  the other members' weights, if the run has members. Beside other weights than those that
 *                       their metadata names by their CRC-32, and where one is missing, none is read
 *   calibration.json    how far to move the ends of its intervals, if it is calibrated (tft/core/score/calibration.h)
 *   metrics.jsonl       a line for each evaluation (tft/core/train/trainer_report.c)
 *   end.json            how the training ended; absent while it runs, and if it was killed
 *   checkpoints/        what training resumes from (tft/core/run/checkpoints.h), unless --checkpoints names
 *                       another folder
 *
 * The first two are written under another name, synced and renamed.
 */
#ifndef HALAY_TFT_RUN_FOLDER_H
#define HALAY_TFT_RUN_FOLDER_H

#include "halay.h"
#include "tft/core/data/data.h"
#include "tft/core/model/params.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/blend.h"
#include "tft/core/run/run_config.h"

/*
 * Members: models of one configuration, trained from one seed each, whose forecast is the mean of their quantiles.
 * Their errors are partly each one's own, which a mean evens out.
 */

struct tft_model;

/* The members after the first, whose parameters are the run's. */
struct tft_members {
    size_t count;
    float *params[TFT_RUN_MEMBERS_MAX]; /* owned: a model's block each */
};

struct tft_member_name {
    char text[40];
};

/* "member-2" and an ending: of the first of those. */
struct tft_member_name tft_member_name(size_t member, const char *ending);

/* Make this number of blocks. On error those made so far are held. */
enum halay_status tft_members_init(struct halay_log *log, const struct tft_model *model, size_t count,
                                   struct tft_members *members);
void tft_members_fini(struct tft_members *members);

struct tft_run {
    json_t *document; /* owned: run.json */
    struct tft_run_config config;
    struct tft_schema schema;     /* owned */
    struct tft_encoding encoding; /* owned */
    struct tft_model *model;      /* owned */
    float *params;                /* owned: the model's block */
    float *refit;                 /* owned: what to forecast the future with; NULL: params */
    struct tft_members members;   /* owned: those after the first, which params is; none: this is the only one */
    long long step;               /* of the parameters */
    struct tft_blend blend;       /* owned */
    int is_checkpoint;            /* its training has not chosen the blend's weights */
};

/* Describes a run, as run.json holds it: a new reference; NULL without memory (logged). */
json_t *tft_run_describe(struct halay_log *log, const struct tft_run_config *config, const struct tft_schema *schema,
                         const struct tft_encoding *encoding);
/* Checks that the run that `before` describes (where: for messages) can resume with this configuration and these data.
 * What their
 * schema leaves to training is chosen as the run did, here and in tft_run_check_data. */
enum halay_status tft_run_check_resume(struct halay_log *log, const char *where, const json_t *before,
                                       const struct tft_run_config *config, struct tft_data *data);

/* Begin a run's folder, which is made if need be. Unless the run resumes, one that holds a model is refused, and what
 * another run left beside its model is removed. */
enum halay_status tft_run_begin(struct halay_log *log, const char *folder, const json_t *run, int resumes);
/* Returns nonzero if the folder has a model. */
int tft_run_has_model(const char *folder);
/* Remove what was written of a run that saved no parameters; the folder stays. */
void tft_run_discard(const char *folder);
/* Write the best weights, of a step, and those of the blend that they are part of; NULL: of none. keeps_blend: the
 * blend's weights that the folder's parameters have, if they are of this run. */
enum halay_status tft_run_save_best(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                    const struct tft_blend *blend, const struct tft_param_table *table,
                                    const float *params, int keeps_blend);
/* Returns nonzero if the folder holds undamaged parameters of this run, of a step in [first, last]. */
int tft_run_has_best(const char *folder, const json_t *run, const struct tft_param_table *table, long long first,
                     long long last);

/* Write the weights that were trained on from the best ones, `first`, for as many steps. */
enum halay_status tft_run_save_refit(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                     const struct tft_param_table *table, const float *first, const float *params);

/* Write the members after the first, of as many steps, beside whose weights, `first`, they belong. */
enum halay_status tft_run_save_members(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                       const struct tft_param_table *table, const float *first,
                                       const struct tft_members *members);

/* Read a run's folder, or the newest good checkpoint of a folder of checkpoints. device: what forecasts with the model;
 * NULL: the processor. On error nothing is held. */
enum halay_status tft_run_load(struct halay_log *log, const char *folder, const struct tft_device *device,
                               struct tft_run *run);
/* Does the same for the processor, with the best weights only. */
enum halay_status tft_run_load_first(struct halay_log *log, const char *folder, struct tft_run *run);
/* Make a run from the content of run.json (where: for messages); its parameters, step and the blend's weights are the
 * caller's to set. On error nothing is held. */
enum halay_status tft_run_of(struct halay_log *log, const char *where, const json_t *document,
                             const struct tft_device *device, struct tft_run *run);
void tft_run_fini(struct tft_run *run);
/* Does tft_run_load on rank 0, and shares the run with all others. All ranks call it. */
enum halay_status tft_run_load_shared(struct halay_log *log, struct halay_context *ctx, const char *folder,
                                      const struct tft_device *device, struct tft_run *run);
/* Shares the members of rank 0. All ranks call it, with the same number of blocks. */
enum halay_status tft_share_members(struct halay_context *ctx, const struct tft_param_table *table,
                                    struct tft_members *members);

/* Returns the weights that forecast times that no row of the training's data has. Scores of these data are those of
 * run->params: the other weights have seen the rows. */
static inline const float *tft_run_future_params(const struct tft_run *run)
{
    return run->refit ? run->refit : run->params;
}
/* Prints the CRC-32 of parameters, in hexadecimal digits. */
void tft_run_print_crc(const struct tft_param_table *table, const float *params, char text[16]);

/* Checks that these data were prepared by the run's schema and scalers. Logs what differs. */
enum halay_status tft_run_check_data(struct halay_log *log, const struct tft_run *run, const char *path,
                                     struct tft_data *data);

#endif
