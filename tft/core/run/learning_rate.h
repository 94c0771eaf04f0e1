/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rate: a function of where the run stands (tft/core/run/run_length.h).
 */
#ifndef HALAY_TFT_LEARNING_RATE_H
#define HALAY_TFT_LEARNING_RATE_H

#include "tft/core/kernels/loss.h"
#include "tft/core/run/run_config.h"

/*
 * The rate of a step (from 0) of `total`.
 *   warmup   rises linearly over the first twentieth of the steps, then stays
 *   cosine   rises likewise, then falls along half a cosine to 0 at the end
 */
double tft_learning_rate_at(enum tft_lr_schedule schedule, double highest, uint64_t step, uint64_t total);

/*
 * The rate to train with, given the losses of steps at growing rates: where the smoothed loss falls most steeply
 * against the logarithm of the rate, but at most a tenth of the rate where it is lowest, since larger steps may be too
 * large for a whole training. Smoothing is exponential (0.9, bias-corrected); slopes are those of lines fitted to 13
 * points. Everything after four times the lowest loss, or after a loss that is not finite, is ignored. steps: at most
 * TFT_RATE_FINDER_STEPS. 0 if the loss never falls. Pure.
 */
enum { TFT_RATE_FINDER_STEPS = 100 };
double tft_learning_rate_suggest(enum tft_loss kind, const double *rates, const double *losses, size_t steps);

#endif
