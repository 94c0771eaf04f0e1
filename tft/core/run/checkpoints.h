/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: what training resumes from. A folder keeps the newest few.
 *
 *   step-0000001200.params.safetensors    blocks of the model's table: parameters, both moments of Adam, the moving
 *   step-0000001200.moment1.safetensors   average of the parameters if there is one
 *   step-0000001200.moment2.safetensors
 *   manifest-0000001200.json              written last: the run's description, the state of training, each file with
 *                                         its length and CRC-32, and the CRC-32 of the manifest itself
 *
 * A checkpoint is the files that its manifest names; a file that no manifest names belongs to none. Each file is
 * written in a folder beside this one (".NAME.stage"; in this one if that would be on another file system), synced and
 * renamed, so that a program that copies this folder never sees half a file. The best weights so far are a block of the
 * checkpoint of their step: later manifests name that file, and it stays as long as one of them does.
 *
 * A process may die at any moment: training resumes from the newest manifest whose files are all there and undamaged,
 * on any number of ranks.
 */
#ifndef HALAY_TFT_CHECKPOINTS_H
#define HALAY_TFT_CHECKPOINTS_H

#include "base/log.h"
#include "tft/core/model/params.h"
#include "tft/core/run/run_length.h"
#include <jansson.h>
#include <stdint.h>

/* The state of a training: plain numbers, so that rank 0 can send them as they are. */
struct tft_training_state {
    uint64_t step, samples;   /* done since the beginning */
    uint64_t epoch, position; /* of the next window: epoch from 0, position in its order */
    uint64_t windows;         /* training windows in the data that the run began with */
    uint64_t loss_steps;      /* steps since the last evaluation */
    double loss_sum;          /* of their losses */
    double lowest, mark;      /* validation losses: the lowest, and the last that counted as an improvement */
    double window_seconds;    /* that a validation takes for a window; 0: not measured, for want of a limit of time */
    double seconds;           /* of training to the end of the last step, in earlier processes too */
    struct tft_run_length length;
    int64_t judged, in_vain;
    int32_t pending; /* this step's evaluation is still due */
    uint64_t data;   /* tft_htd_digest, of an elastic job; in no file */
};

/* Contents of a file. */
enum tft_checkpoint_block {
    TFT_CHECKPOINT_PARAMS,
    TFT_CHECKPOINT_MOMENT1,
    TFT_CHECKPOINT_MOMENT2,
    TFT_CHECKPOINT_AVERAGE,
    TFT_CHECKPOINT_BLOCKS
};

/* A folder of checkpoints. One run writes into it. */
struct tft_checkpoints {
    struct halay_log *log; /* borrowed */
    char *folder, *stage;  /* owned; stage: "" until something is written */
    size_t keep;           /* how many stay */
    json_t *files;         /* owned: entries of the checkpoint last written or resumed from; NULL: none yet */
    json_t *best;          /* owned: entry of the best weights' file; NULL: none yet */
};

/* Touches no file; the folder need not exist. */
enum halay_status tft_checkpoints_init(struct halay_log *log, const char *folder, size_t keep,
                                       struct tft_checkpoints *c);
/* Removes the stage. */
void tft_checkpoints_fini(struct tft_checkpoints *c);

/* Returns nonzero if there is a manifest. */
int tft_checkpoints_has_any(const struct tft_checkpoints *c);

/* The newest good checkpoint: its manifest as a new reference, NULL without any checkpoint. A damaged one is
 * a warning, and the one before it is tried; HALAY_ERR_FORMAT if all are damaged. */
enum halay_status tft_checkpoints_find(const struct tft_checkpoints *c, json_t **manifest);
/* Reads a manifest's state. run: borrowed from it. HALAY_ERR_UNSUPPORTED: each rank wrote a file of its own, as older
 * versions could. */
enum halay_status tft_checkpoints_state(const struct tft_checkpoints *c, const json_t *manifest, const json_t **run,
                                        struct tft_training_state *state);
/* Read a block. HALAY_ERR_FORMAT if the manifest does not name it. */
enum halay_status tft_checkpoints_read(const struct tft_checkpoints *c, const json_t *manifest,
                                       enum tft_checkpoint_block block, const struct tft_param_table *table,
                                       float *values);
/* Resume from this manifest: the checkpoints written from now on follow it. Reads the best weights; *step: theirs, -1
 * without best weights. */
enum halay_status tft_checkpoints_resume(struct tft_checkpoints *c, const json_t *manifest,
                                         const struct tft_param_table *table, float *best, long long *step);

/* Write a checkpoint, then delete those beyond keep. run: the run's description. blocks: NULL where a block is absent.
 * On error earlier checkpoints are untouched. */
enum halay_status tft_checkpoints_save(struct tft_checkpoints *c, const json_t *run,
                                       const struct tft_training_state *state, const struct tft_param_table *table,
                                       const float *const blocks[TFT_CHECKPOINT_BLOCKS]);
/* The best weights are this block of the checkpoint last written or resumed from; later ones name its file. */
void tft_checkpoints_set_best(struct tft_checkpoints *c, enum tft_checkpoint_block block);

#endif
