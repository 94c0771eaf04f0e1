/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate finder (Smith 2017, arXiv 1506.01186): steps at a rate that grows exponentially;
 * tft_learning_rate_suggest finds the rate to train with from their losses.
 */
#ifndef HALAY_TFT_RATE_FINDER_H
#define HALAY_TFT_RATE_FINDER_H

#include "tft/core/train/trainer.h"

/* Train from 1e-6 to 1 in TFT_RATE_FINDER_STEPS steps; rank 0 writes a table and the suggestion to report. *rate: the
 * suggestion; 0: none. The trainer serves for nothing else afterwards. */
enum halay_status tft_find_learning_rate(struct tft_trainer *trainer, FILE *report, double *rate);

#endif
