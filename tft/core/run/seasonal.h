/* SPDX-License-Identifier: Apache-2.0
 *
 * Additive season of a series: for each phase the mean distance from a centred moving average of a whole season, if
 * the values' autocorrelation a season apart is above what chance gives in one of ten (the test of the Theta method's
 * authors, with Bartlett's variance).
 */
#ifndef HALAY_TFT_SEASONAL_H
#define HALAY_TFT_SEASONAL_H

#include <stddef.h>

/* The distance of each phase, index[season], whose sum is 0; phase p has values p, p + season, ... Returns 0 (index is
 * zero) if n values show no such season. */
int tft_seasonal_fit(const double *x, size_t n, size_t season, double *index);

#endif
