/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints to resume from: a folder of them, the newest few.
 *
 *   step-0000001200.params.safetensors    blocks of the model's table: parameters, both moments of Adam, the moving
 *   step-0000001200.moment1.safetensors   average of the parameters if there is one
 *   step-0000001200.moment2.safetensors
 *   step-0000001200.moment1.rank-00001.safetensors   instead of these two where optimizer state is dealt out
 *                                                    (tft/train/shards.h): a file a rank, with its tensors, written by
 *                                                    it
 *   manifest-0000001200.json              written last: the run's description, where training stands, and each file
 *                                         with its length and CRC-32; the CRC-32 of the manifest itself
 *
 * A checkpoint is what its manifest says; files that no manifest names are nothing. Everything is written in a folder
 * beside this one (".NAME.stage", where it is on the same file system; else here), synced and renamed, so that whoever
 * copies this folder elsewhere never sees half a file. The best parameters so far are a file of the step that they are
 * of: manifests name it, and it stays as long as one does.
 *
 * A process may die at any moment: the newest manifest whose files are all there and unharmed is what to go on from. A
 * block is read whole, from one file or from those of any number of ranks, so that a run may go on with others.
 */
#ifndef HALAY_TFT_RESUME_H
#define HALAY_TFT_RESUME_H

#include "base/log.h"
#include "tft/model/params.h"
#include "tft/run/run_length.h"
#include <jansson.h>
#include <stdint.h>

/* Where training stands. One struct of plain numbers, so that rank 0 can send it as it is. */
struct tft_resume_state {
    uint64_t step, samples;   /* done since the beginning */
    uint64_t epoch, position; /* the next window's: epoch from 0, place in its order */
    uint64_t windows;         /* that there are for training, in the data that the run began with */
    uint64_t loss_steps;      /* since the last evaluation, */
    double loss_sum;          /* the sum of their losses */
    double lowest, mark;      /* validation losses: the lowest, and the last that counted as an improvement */
    double seconds;           /* of training, those of earlier processes too; to the last step's end */
    struct tft_plan plan;
    int32_t judged, in_vain, halvings;
    int32_t pending; /* an evaluation is due at this step and not in this state */
};

/* A file of a block, as a manifest names it. */
enum tft_resume_block {
    TFT_RESUME_PARAMS,
    TFT_RESUME_MOMENT1,
    TFT_RESUME_MOMENT2,
    TFT_RESUME_AVERAGE,
    TFT_RESUME_BLOCKS
};

/* A rank's file of a block, as it goes from the rank to the manifest. */
struct tft_resume_part {
    uint64_t bytes;
    uint32_t crc;
};

/* A folder of checkpoints. One run writes into it. */
struct tft_resume {
    struct halay_log *log; /* borrowed */
    char *folder, *stage;  /* owned; stage: "" until something is written */
    size_t keep;           /* newest checkpoints that stay */
    json_t *files;         /* owned: entries of the checkpoint that was written or taken over last; NULL: none yet */
    json_t *best;          /* owned: the entry of the best parameters' file; NULL: none yet */
};

/* Nothing is touched yet; the folder need not be there. */
enum halay_status tft_resume_init(struct halay_log *log, const char *folder, size_t keep, struct tft_resume *resume);
/* Takes the folder beside away. */
void tft_resume_fini(struct tft_resume *resume);

/* Is there a manifest? */
int tft_resume_has_any(const struct tft_resume *resume);

/*
 * The newest good checkpoint: its manifest as a new reference, NULL if the folder has no manifest at all. What is
 * damaged is said in a warning, and the one before is looked at; if none is good that is an error: HALAY_ERR_FORMAT.
 */
enum halay_status tft_resume_find(const struct tft_resume *resume, json_t **manifest);
/* What a manifest of tft_resume_find says. run: borrowed from it. */
enum halay_status tft_resume_state_of(const struct tft_resume *resume, const json_t *manifest, const json_t **run,
                                      struct tft_resume_state *state);
/* Read a block, from one file or from the ranks' (then dead tensors are left as they are); HALAY_ERR_FORMAT if the
 * manifest does not name one, or not all of it. */
enum halay_status tft_resume_read(const struct tft_resume *resume, const json_t *manifest, enum tft_resume_block block,
                                  const struct tft_param_table *table, float *values);
/* Go on behind this manifest. Reads the best parameters; *step: of which step, -1 if there are none yet. */
enum halay_status tft_resume_take_over(struct tft_resume *resume, const json_t *manifest,
                                       const struct tft_param_table *table, float *best, long long *step);

/* Make the folders to write into; nothing if that has been done. cleans: takes away what a process that was killed left
 * half written; by one rank, before any other writes. tft_resume_save does it too. */
enum halay_status tft_resume_make_folders(struct tft_resume *resume, int cleans);
/* Write this rank's file of a block: the tensors of `table`, which lie in values. Any rank, once the folders are
 * made. */
enum halay_status tft_resume_save_part(const struct tft_resume *resume, uint64_t step, enum tft_resume_block block,
                                       int rank, const struct tft_param_table *table, const float *values,
                                       struct tft_resume_part *part);
/* The entry of a file that some rank wrote, behind those in files. HALAY_ERR_SYSTEM if it is not to be seen here. */
enum halay_status tft_resume_add_part(const struct tft_resume *resume, uint64_t step, enum tft_resume_block block,
                                      int rank, const struct tft_resume_part *part, json_t *files);

/* Write a checkpoint, then delete those beyond keep. run: the run's description. blocks: NULL for those there are none
 * of, or that the ranks have written. parts (may be NULL): the entries of their files. On error the checkpoints before
 * are as they were. */
enum halay_status tft_resume_save(struct tft_resume *resume, const json_t *run, const struct tft_resume_state *state,
                                  const struct tft_param_table *table, const float *const blocks[TFT_RESUME_BLOCKS],
                                  const json_t *parts);
/* The best parameters are this block of the checkpoint that was written or taken over last: later ones name its
 * file. */
void tft_resume_set_best(struct tft_resume *resume, enum tft_resume_block block);

#endif
