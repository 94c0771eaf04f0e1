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
 * A forecast that is flat, a band (nearly) without width, as of series that are mostly 0, has no width to count: its
 * score is the distance itself, in the forecast's unit, and only such scores make its factor. So each band is
 * there twice, once for either kind of forecast; only one of the two applies to a forecast.
 *
 * Of n scores the ceil((n + 1) * level)-th smallest is the factor f: the band [low - f * width, high + f * width] holds
 * the next value with probability `level` at least, if that value is exchangeable with those n. Validation windows are
 * not quite: they have chosen the checkpoint and the blend, and share some weeks. So of a negative factor, by which a
 * band gets narrower, n / (n + 30) is kept.
 */
#ifndef HALAY_TFT_CONFORMAL_H
#define HALAY_TFT_CONFORMAL_H

#include <stddef.h>

enum { TFT_BANDS_MAX = 32 };

/* Fewer scores than this give no factor: the share that the band then holds varies by 7 points and more. */
enum { TFT_CONFORMAL_LEAST = 30 };

/* The width that counts as none, in the unit of the scaled values, whose spread is about 1. A factor of widths that are
 * next to nothing would be next to infinite. */
#define TFT_FLAT_WIDTH 1e-3

struct tft_band {
    size_t low, high;      /* quantiles; of a one-sided band one of them is the median */
    int has_low, has_high; /* does this end move? */
    int is_flat;           /* is it for forecasts without width? */
    double level;          /* the share of values that it promises to hold */
};

/* The bands of ascending quantiles, then the same for flat forecasts; how many in all. */
size_t tft_bands_of(const double *quantiles, size_t count, struct tft_band bands[TFT_BANDS_MAX]);

/* Is a forecast, p (quantiles) in order, of the band's kind? */
int tft_band_applies(const struct tft_band *band, const double *p);

/* The score of a value; p: (quantiles), in order. NAN for a band that does not apply, or of what is not finite. */
double tft_band_score(const struct tft_band *band, const double *p, double y);

/* The factor of scores, which it puts in order; those that are NAN must have been left out. NAN: they are too few. */
double tft_conformal_factor(double *scores, size_t count, double level);

/* What is kept of a factor that this many validation windows gave. */
double tft_conformal_kept(double factor, size_t count);

/* The least factor, at which the ends meet. */
double tft_band_least(const struct tft_band *band);

/* Put quantiles in order, move the ends of each band that applies by its factor (NAN: leave them), and keep the order.
 */
void tft_bands_widen(const struct tft_band *bands, size_t band_count, const double *factors, size_t median, double *p,
                     size_t count);
/* The first of these steps alone. */
void tft_quantiles_sort(double *p, size_t count);

#endif
