/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: from prepared data to a run's folder, on all ranks of the job.
 *
 * All ranks hold the same parameters. Of each global batch a rank computes its granules' gradients; each gradient is
 * submitted to the engine the moment backward has made it final, and is waited for where the optimizer needs it. Every
 * rank then makes the same update. Rank 0 writes the files and prints.
 */
#ifndef HALAY_TFT_TRAIN_H
#define HALAY_TFT_TRAIN_H

#include "halay.h"
#include "tft/core/data/data.h"
#include "tft/core/run/run_config.h"
#include "tft/core/train/train_options.h"

/*
 * Train on data (the same on all ranks) and leave the best parameters in the run's folder. log is this rank's. SIGTERM,
 * SIGINT and SIGUSR1 (on any rank) end it after the step, with a checkpoint: that is HALAY_OK.
 */
enum halay_status tft_train(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                            struct tft_data *data, const struct tft_train_options *options);
/* Does the same for the first member alone; the other members are already in folders of its folder (members.c). */
enum halay_status tft_train_first(struct halay_log *log, struct halay_context *ctx, const struct tft_run_config *config,
                                  struct tft_data *data, const struct tft_train_options *options);

#endif
