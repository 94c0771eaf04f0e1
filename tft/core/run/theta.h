/* SPDX-License-Identifier: Apache-2.0
 *
 * Theta method (V. Assimakopoulos, K. Nikolopoulos, "The theta model: a decomposition approach to forecasting",
 * International Journal of Forecasting 16, 2000), as R. J. Hyndman and B. Billah showed it to be ("Unmasking the Theta
 * method", 19, 2003): simple exponential smoothing with a drift of half the slope b of the line through all n values,
 *
 *     forecast(h) = level + b / 2 * (h - 1 + (1 - (1 - alpha)^n) / alpha)        h = 1, 2, ...
 *
 * whose alpha, of a few, has the lowest squared errors one step ahead.
 */
#ifndef HALAY_TFT_THETA_H
#define HALAY_TFT_THETA_H

#include <stddef.h>

/* Forecast steps 1 to `horizon` after n >= 1 values without a season. */
void tft_theta_forecast(const double *x, size_t n, size_t horizon, double *to);

#endif
