/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: from prepared data to a run's folder, on all ranks of the job.
 *
 * All ranks hold the same parameters. Of each global batch a rank computes its granules' gradients; each gradient is
 * submitted to the engine the moment backward has made it final, and is waited for where the optimizer needs it. Every
 * rank then makes the same update. Rank 0 writes the files and talks.
 */
#ifndef HALAY_TFT_TRAIN_H
#define HALAY_TFT_TRAIN_H

#include "halay.h"
#include "tft/data.h"
#include "tft/run_config.h"

/* Train on data (the same on all ranks) and leave the best parameters in folder. log is this rank's. */
enum halay_status tft_train(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                            const struct tft_data *data, const char *folder);

#endif
