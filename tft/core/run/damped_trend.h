/* SPDX-License-Identifier: Apache-2.0
 *
 * Damped trend exponential smoothing (E. S. Gardner, E. McKenzie, "Forecasting trends in time series", Management
 * Science 31, 1985), in its form with errors:
 *
 *     error = x(t) - (level + phi trend)
 *     level = level + phi trend + alpha error        trend = phi trend + alpha beta error
 *     forecast(h) = level + (phi + phi^2 + ... + phi^h) trend
 *
 * It begins at the least squares line through all values. alpha, beta and phi, of a few each, have the lowest squared
 * errors one step ahead.
 */
#ifndef HALAY_TFT_DAMPED_TREND_H
#define HALAY_TFT_DAMPED_TREND_H

#include <stddef.h>

/* Forecast steps 1 to `horizon` after n >= 1 values without a season. */
void tft_damped_trend_forecast(const double *x, size_t n, size_t horizon, double *to);

#endif
