/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages: the model cut into segments, of which a rank computes some, for a pipeline of ranks.
 *
 *     inputs, static contexts,     |  LSTMs  |  enrichment, attention,
 *     variable selection           |         |  outputs, loss
 *              what was selected --+--> phi -+-->
 *              contexts -----------+---------+-->             forward
 *              <-------------------+---------+-- gradients    backward
 *
 * Over both cuts go as many numbers, forward and back: (T, B, H) and the three contexts that segments behind need.
 * A granule is a micro-batch. Its gradient has the bits that one rank would compute.
 */
#ifndef HALAY_TFT_STAGES_H
#define HALAY_TFT_STAGES_H

#include "tft/model/model.h"

/* Which rank of so many (TFT_SEGMENTS at most) computes a segment. */
int tft_segment_rank(int segment, int ranks);

/* The neighbours of a stage. */
enum tft_side { TFT_UP, TFT_DOWN }; /* whose segments are before, behind */

/* A stage, and how its numbers travel. */
struct tft_stage {
    int first, end; /* segments */
    /* A granule's numbers on one side: where they are to be written and read. */
    real *(*numbers)(void *arg, size_t granule, enum tft_side side);
    /* Forward they come from above and go below, backward they come from below and go above. Blocks until that is
     * done. */
    enum halay_status (*move)(void *arg, size_t granule, enum tft_side side, int is_backward);
    void *arg;
};

/* How many numbers those are, of B samples. */
size_t tft_stage_numbers(const struct tft_model *model, size_t B);

/* tft_model_gradient of a stage alone: of its own parameters, whose final callbacks alone are called. *loss: 0 unless
 * the stage has the last segment. The processor only. An error is one of move's. */
enum halay_status tft_stage_gradient(struct tft_workspace *workspace, const struct tft_pass *pass,
                                     const struct tft_stage *stage, size_t granule, real *gradients, double *loss);

#endif
