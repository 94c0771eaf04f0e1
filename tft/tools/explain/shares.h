/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of shares, which are numbers from 0 to 1: percentiles in constant memory, and how alike two lists rank.
 */
#ifndef HALAY_TFT_SHARES_H
#define HALAY_TFT_SHARES_H

#include <stddef.h>
#include <stdint.h>

/* A histogram: 64 bins to each halving from 1 down to 2^-16, below which all is one bin, and a last one for 1 itself.
 * So a percentile is right to 1/64 of itself, or to 2^-16. Counts can be added in any order. */
enum { TFT_SHARE_BINS = 1025 };

size_t tft_share_bin(float share);
/* Quantile of what the bins (TFT_SHARE_BINS) counted, linear inside a bin; NAN of nothing. */
double tft_share_quantile(const int64_t *bins, double quantile);

/* A share as a whole number, so that sums do not depend on their order; exact to 2^-33. */
static inline int64_t tft_share_fixed(float share)
{
    return (int64_t)((double)share * 0x1p32 + .5);
}

static inline double tft_share_mean(int64_t sum, int64_t count)
{
    return (double)sum / 0x1p32 / (double)count;
}

/* Spearman's rank correlation, equal values sharing their mean rank; NAN for fewer than two, or where all of one list
 * are equal. */
double tft_rank_correlation(const double *a, const double *b, size_t n);

#endif
