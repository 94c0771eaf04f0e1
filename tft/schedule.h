/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate: as a function of the step, and of how validation goes.
 */
#ifndef HALAY_TFT_SCHEDULE_H
#define HALAY_TFT_SCHEDULE_H

#include "tft/run_config.h"

/*
 * The rate of a step (from 0) of `total`.
 *   warmup  rises linearly over the first twentieth of the steps, then stays
 *   cosine  rises so, then falls along half a cosine to 0 at the end
 *   plateau stays, times 1/2 for each two evaluations in a row without improvement (`halvings`)
 */
double tft_schedule_rate(enum tft_schedule schedule, double highest, uint64_t step, uint64_t total, int halvings);

/* The highest rate for a number of ranks. */
double tft_schedule_scale(enum tft_lr_scaling scaling, double rate, int ranks);

#endif
