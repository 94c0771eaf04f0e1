/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributions as counts of values in bins, and how far one is from another. Two distances:
 *
 *     ks, Kolmogorov and Smirnov's: the largest difference of the two cumulative shares; 0 to 1. Of bins it is at most
 *         as much too low as a bin holds.
 *     psi, the population stability index: sum of (p - q) log(p / q) over groups of bins, ten of about the same share
 *         of the reference, or over categories. Half a value is added to each group, so that one that only one of the
 *         two has counts, too. Credit scoring calls 0.1 some and 0.25 much.
 */
#ifndef HALAY_BINS_H
#define HALAY_BINS_H

#include <stddef.h>
#include <stdint.h>

enum { HALAY_BINS_MAX = 100, HALAY_BIN_GROUPS = 10 };

/* Sorts values, ascending. */
void halay_sort_doubles(double *values, size_t count);

/* Sorts the values, of which there is at least one, and sets the edges between bins that hold about as many of them:
 * (bins - 1), ascending. A value that is not below edge k is in a bin after k. */
void halay_bins_fit(double *values, size_t count, size_t bins, double *edges);
/* Returns the bin of a value. One that several edges equal is in the middle of their bins, so that what is less, and
 * what is more, is elsewhere. */
size_t halay_bins_find(const double *edges, size_t bins, double value);

/* Distances of counts in bins, neither of which is empty. */
double halay_bins_ks(const uint64_t *reference, const uint64_t *recent, size_t bins);
/* ordered: at most HALAY_BINS_MAX bins of numbers, which are grouped; otherwise categories. */
double halay_bins_psi(const uint64_t *reference, const uint64_t *recent, size_t bins, int ordered);
/* Sets the group of each bin: ten groups of about the same share of the reference. Returns the number of groups. */
size_t halay_bins_group(const uint64_t *reference, size_t bins, size_t *group);

#endif
