/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's checkpoints: rank 0 writes them, since every rank has the same state.
 */
#include "tft/core/train/trainer.h"

enum halay_status tft_trainer_save(struct tft_trainer *t)
{
    const float *const blocks[TFT_CHECKPOINT_BLOCKS] = { t->params, t->moments[0], t->moments[1], t->average };

    if (!t->config->keep)
        return HALAY_OK;
    enum halay_status status = tft_trainer_bring(t);
    if (!status && t->rank == 0) {
        status = tft_checkpoints_save(&t->checkpoints, t->run, &t->state, t->table, blocks);
        t->saved |= !status;
        if (!status) /* for whoever watches the job */
            halay_gauge_set(t->ctx, "checkpoint_step", (double)t->state.step);
    }
    return status;
}
