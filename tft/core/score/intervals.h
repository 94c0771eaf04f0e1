/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals between quantiles: which there are, and the scores that follow from the quantile losses L(q), where
 * L(q) = q (y - p) above the forecast p and (1 - q) (p - y) below. All are in the target's unit; lower is better.
 *
 *     interval score (Winkler) of a central interval that leaves out a share a:
 *         width + 2/a * what y is below or above it      =  2/a * (L(a/2) + L(1 - a/2))
 *     weighted interval score (WIS) of K central intervals and the median:
 *         (|y - median| / 2 + sum of a/2 * interval score) / (K + 1/2)   =  sum of their L / (K + 1/2)
 *     CRPS: 2 * integral of L(q) over q from 0 to 1, here 2 * sum of w(q) L(q). w is how much of [0, 1] is nearer to q
 *         than to any other quantile: .3, .4, .3 for .1, .5, .9.
 */
#ifndef HALAY_TFT_INTERVALS_H
#define HALAY_TFT_INTERVALS_H

#include <stddef.h>

/* The quantile that makes a central interval with this one; NO_PARTNER if there is none. */
enum { TFT_NO_PARTNER = -1 };
int tft_interval_partner(const double *quantiles, size_t count, size_t quantile);

/* Of quantile losses, or of sums or means of them: (count). NAN where the quantiles hold no central interval (of the
 * outermost two; for WIS, of any two). */
double tft_interval_score(const double *quantiles, size_t count, const double *losses);
double tft_weighted_interval_score(const double *quantiles, size_t count, const double *losses);
double tft_crps(const double *quantiles, size_t count, const double *losses);

#endif
