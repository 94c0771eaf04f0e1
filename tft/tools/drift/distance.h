/* SPDX-License-Identifier: Apache-2.0
 *
 * How far one distribution is from another: from counts of values in bins. Two distances:
 *
 *     ks, Kolmogorov and Smirnov's: the largest difference of the two cumulative shares; 0 to 1. Of bins it is at most
 *         as much too low as a bin holds.
 *     psi, the population stability index: sum of (p - q) log(p / q) over groups of bins, ten of about the same share
 *         of the reference, or over categories. Half a value is added to each group, so that one that only one of the
 *         two has counts, too. Credit scoring calls 0.1 some and 0.25 much.
 */
#ifndef HALAY_TFT_DRIFT_DISTANCE_H
#define HALAY_TFT_DRIFT_DISTANCE_H

#include <stddef.h>
#include <stdint.h>

enum { TFT_BINS = 100, TFT_BIN_GROUPS = 10 };

/* Edges between bins that hold about as many of the values (which are sorted by it): (bins - 1), ascending; a value
 * that is not below edge k is in a bin behind k. One that several edges equal is in the middle of their bins, so that
 * what is less, and what is more, is elsewhere. At least one value. */
void tft_bins_fit(float *values, size_t count, float edges[TFT_BINS - 1]);
size_t tft_bin_of(const float edges[TFT_BINS - 1], float value);

/* Of counts in bins, neither of which is empty. */
double tft_distance_ks(const uint64_t *reference, const uint64_t *recent, size_t bins);
/* ordered: bins of numbers, which are grouped; or categories. */
double tft_distance_psi(const uint64_t *reference, const uint64_t *recent, size_t bins, int ordered);
/* Bins as ten groups of about the same share of the reference: the group of each bin; returns how many groups. */
size_t tft_bins_group(const uint64_t *reference, size_t bins, size_t *group);

/* Which of `count` other values, the smallest being the first, a value like them in random order exceeds with at most
 * this probability: ceil((count + 1) (1 - rate)); count + 1: none of them. */
size_t tft_threshold_place(size_t count, double rate);

/*
 * The threshold that a value like the others exceeds with this probability: the ceil((n + 1) (1 - rate))-th smallest of
 * n values (which are sorted by it), whose order is random (conformal). Only so many of them are independent: if they
 * are too few for the rate, it returns 0, and the threshold is that of values whose tail above the median is
 * exponential, as the extremes of many distributions nearly are, and at least the largest. At least one value.
 */
int tft_threshold(double *values, size_t count, size_t independent, double rate, double *threshold);

#endif
