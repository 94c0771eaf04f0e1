/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoint: a run's folder. The first two of its files are enough to forecast new files.
 *
 *   run.json            configuration, schema and encoding (scalers, entities), and on what machine bits are made;
 *                       written when the run begins, and when it goes on
 *   model.safetensors   the parameters of the best evaluation so far; its metadata carry the step, the parameters'
 *                       CRC-32, and that of run.json, so that the parameters of another run are not taken for this
 *                       one's
 *   metrics.jsonl       a line an evaluation
 *   checkpoints/        what training goes on from (tft/run/resume.h), unless that is elsewhere
 *
 * Each is written beside its name, synced and renamed.
 */
#ifndef HALAY_TFT_CHECKPOINT_H
#define HALAY_TFT_CHECKPOINT_H

#include "tft/data/data.h"
#include "tft/run/batches.h"

struct tft_checkpoint {
    struct tft_run_config config;
    struct tft_schema schema;     /* owned */
    struct tft_encoding encoding; /* owned */
    struct tft_model *model;      /* owned */
    float *params;                /* owned: the model's block */
    long long step;               /* that the parameters are of */
};

/* What identifies a run, and describes it whole: a new reference; NULL if there is no memory (logged). */
json_t *tft_checkpoint_describe(struct halay_log *log, const struct tft_run_config *config,
                                const struct tft_schema *schema, const struct tft_encoding *encoding);
/* Could the run that `before` describes (where: for messages) go on with this configuration and these data? */
enum halay_status tft_checkpoint_check_resume(struct halay_log *log, const char *where, const json_t *before,
                                              const struct tft_run_config *config, const struct tft_data *data);

/* Begin a run's folder: made if it is not there; one that holds a model already is refused unless the run goes on. */
enum halay_status tft_checkpoint_begin(struct halay_log *log, const char *folder, const json_t *run, int goes_on);
/* Take away what was written of a run that saved no parameters; the folder stays. */
void tft_checkpoint_discard(const char *folder);
/* Write the parameters of the run. */
enum halay_status tft_checkpoint_save(struct halay_log *log, const char *folder, const json_t *run, long long step,
                                      const struct tft_param_table *table, const float *params);

/* Read a run's folder, or the newest good one of a folder of checkpoints. On error nothing is held. */
enum halay_status tft_checkpoint_load(struct halay_log *log, const char *folder, struct tft_checkpoint *checkpoint);
void tft_checkpoint_fini(struct tft_checkpoint *checkpoint);

/* Were these data prepared by the checkpoint's schema and scalers? If not, says what differs. */
enum halay_status tft_checkpoint_check_data(struct halay_log *log, const struct tft_checkpoint *checkpoint,
                                            const char *path, const struct tft_data *data);

#endif
