/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate: as a function of where the run stands (tft/run/run_length.h), and of how validation goes.
 */
#ifndef HALAY_TFT_SCHEDULE_H
#define HALAY_TFT_SCHEDULE_H

#include "tft/run/run_config.h"

/*
 * The rate of a step (from 0) of `total`.
 *   warmup  rises linearly over the first twentieth of the steps, then stays
 *   cosine  rises so, then falls along half a cosine to 0 at the end
 *   plateau stays, times 1/2 for each two evaluations in a row without improvement (`halvings`)
 */
double tft_schedule_rate(enum tft_schedule schedule, double highest, uint64_t step, uint64_t total, int halvings);

/* The highest rate for a number of ranks. */
double tft_schedule_scale(enum tft_lr_scaling scaling, double rate, int ranks);

/*
 * What to take, given what steps at growing rates brought (a finder's): the rate at which the loss, smoothed (0.9,
 * corrected for its beginning; a line through 13 of them), falls steepest against the logarithm of the rate, and at
 * most a tenth of that where it is lowest, as beyond that a step may be too far for a whole training. What comes after
 * four times the lowest, or after a loss that is not finite, does not count. steps: at most TFT_SCHEDULE_STEPS. 0 if
 * the loss never falls. Pure.
 */
enum { TFT_SCHEDULE_STEPS = 100 };
double tft_schedule_suggest(const double *rates, const double *losses, size_t steps);

#endif
