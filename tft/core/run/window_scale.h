/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling per window: where the level of a series moves away from that of the training span, each window is scaled by
 * what its own past shows.
 *
 * Under `per: window` a real input x, scaled by its entity's or all values already, becomes (x - mean) / spread,
 * with the mean and the deviation of the input's plain values in the window's encoder; spread is at least 1/20 of
 * the training span's, or of an unseen entity's own rows', so that a flat past does not blow up its noise. Lags go
 * with their input. A target y at step h becomes (y - offset[h]) / unit: unit is the target's spread, and offset its
 * mean. Only rows before the origin are read. Distributions (tft/core/kernels/loss.h) are of y itself; offset and unit
 * say what the model's numbers mean for them, in the target's own unit if they are not scaled.
 */
#ifndef HALAY_TFT_WINDOW_SCALE_H
#define HALAY_TFT_WINDOW_SCALE_H

#include "tft/core/data/windows.h"
#include "tft/core/model/model.h"

/* Scale sample b of a batch, which holds a window's rows and targets; offsets and units say how to undo it. */
void tft_window_scale(const struct tft_data *data, const struct tft_window *window, struct tft_batch *batch, size_t b);

/* How the data's columns (reals) are scaled by their windows, as struct windows_run (tft/core/kernels/kernels.h) has
 * it. Returns whether one is. */
int tft_window_scaling(const struct tft_data *data, int32_t *scaled_by);

/* The least spread, of 1 for the training span's. */
extern const double tft_spread_least;

#endif
