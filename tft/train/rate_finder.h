/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate finder (Smith 2017, arXiv 1506.01186): steps at a rate that grows evenly in its logarithm;
 * tft_schedule_suggest says what follows from their losses.
 */
#ifndef HALAY_TFT_RATE_FINDER_H
#define HALAY_TFT_RATE_FINDER_H

#include "tft/train/trainer.h"

/* Train from 1e-6 to 1 in TFT_SCHEDULE_STEPS steps on a trainer of its own; rank 0 writes a table and the suggestion to
 * report. The trainer is of no use afterwards. */
enum halay_status tft_find_learning_rate(struct tft_trainer *trainer, FILE *report);

#endif
