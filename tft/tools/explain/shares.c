/* SPDX-License-Identifier: Apache-2.0
 *
 * A bin's number is the exponent and the first six bits of the mantissa of the float.
 */
#include "tft/tools/explain/explain.h"
#include <math.h>
#include <string.h>

enum { DROPPED_BITS = 17, FIRST = (127 - 16) << 6, LAST = TFT_SHARE_BINS - 1 };

size_t tft_share_bin(float share)
{
    uint32_t bits;

    if (!(share < 1))
        return LAST;
    memcpy(&bits, &share, sizeof bits);
    bits >>= DROPPED_BITS;
    return share > 0 && bits > FIRST ? bits - FIRST : 0;
}

/* Returns the beginning of a bin. */
static double bin_begin(size_t bin)
{
    uint32_t bits = ((uint32_t)bin + FIRST) << DROPPED_BITS;
    float value;

    memcpy(&value, &bits, sizeof value);
    return bin ? (double)value : 0;
}

double tft_share_quantile(const int64_t *bins, double quantile)
{
    int64_t n = 0, before = 0;
    size_t bin = 0;

    for (size_t i = 0; i < TFT_SHARE_BINS; i++)
        n += bins[i];
    if (!n)
        return NAN;
    double rank = quantile * (double)n;
    while (bin < LAST && (!bins[bin] || (double)(before + bins[bin]) < rank))
        before += bins[bin++];
    double begin = bin_begin(bin), end = bin == LAST ? begin : bin_begin(bin + 1);
    return bins[bin] ? begin + (end - begin) * (rank - (double)before) / (double)bins[bin] : begin;
}

/* Twice the mean rank of value i, from its smaller and its equal ones. */
static double rank_of(const double *values, size_t n, size_t i)
{
    double rank = 0;

    for (size_t k = 0; k < n; k++)
        rank += values[k] < values[i] ? 2 : values[k] == values[i];
    return rank;
}

double tft_rank_correlation(const double *a, const double *b, size_t n)
{
    double middle = (double)n, both = 0, of_a = 0, of_b = 0;

    for (size_t i = 0; i < n; i++) {
        double x = rank_of(a, n, i) - middle, y = rank_of(b, n, i) - middle;
        both += x * y;
        of_a += x * x;
        of_b += y * y;
    }
    return of_a > 0 && of_b > 0 ? both / sqrt(of_a * of_b) : NAN;
}
