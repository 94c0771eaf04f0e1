/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformal bands: how far the ends of intervals have to move so that they hold what they promise (conformalised
 * quantile regression, with errors relative to the width).
 *
 * A band is a central interval of two quantiles, or, where a quantile has no partner, its one side: from it to the
 * median. The median stays. The score of a value y is how far it lies outside, in widths, negative inside:
 *
 *     score = max(low - y, y - high) / (high - low)
 *
 * Of n scores the ceil((n + 1) * level)-th smallest is the factor f: the band [low - f * width, high + f * width] holds
 * the next value with probability `level` at least, if that value is exchangeable with those n.
 */
#ifndef HALAY_TFT_CONFORMAL_H
#define HALAY_TFT_CONFORMAL_H

#include <stddef.h>

enum { TFT_BANDS_MAX = 16 };

/* Fewer scores than this give no factor: the share that the band then holds varies by 7 points and more. */
enum { TFT_CONFORMAL_LEAST = 30 };

struct tft_band {
    size_t low, high;      /* quantiles; of a one-sided band one of them is the median */
    int has_low, has_high; /* does this end move? */
    double level;          /* the share of values that it promises to hold */
};

/* The bands of ascending quantiles; how many. */
size_t tft_bands_of(const double *quantiles, size_t count, struct tft_band bands[TFT_BANDS_MAX]);

/* The score of a value; p: (quantiles), in order. NAN for a band without width, or of what is not finite. */
double tft_band_score(const struct tft_band *band, const double *p, double y);

/* The factor of scores, which it puts in order; those that are NAN must have been left out. NAN: they are too few. */
double tft_conformal_factor(double *scores, size_t count, double level);

/* Put quantiles in order, move the ends of each band by its factor (NAN: leave them), and keep the order. */
void tft_bands_widen(const struct tft_band *bands, size_t band_count, const double *factors, size_t median, double *p,
                     size_t count);
/* The first of these steps alone. */
void tft_quantiles_sort(double *p, size_t count);

#endif
