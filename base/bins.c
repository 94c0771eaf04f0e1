/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bins.h"
#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void halay_sort_doubles(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
}

void halay_bins_fit(double *values, size_t count, size_t bins, double *edges)
{
    halay_sort_doubles(values, count);
    for (size_t k = 0; k + 1 < bins; k++)
        edges[k] = values[(k + 1) * count / bins];
}

/* Returns how many edges are below a value, or (or_equal) not above it. */
static size_t edges_below(const double *edges, size_t count, double value, int or_equal)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (or_equal ? value < edges[middle] : value <= edges[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

size_t halay_bins_find(const double *edges, size_t bins, double value)
{
    size_t high = edges_below(edges, bins - 1, value, 1), low = edges_below(edges, bins - 1, value, 0);

    return high - low > 1 ? low + (high - low) / 2 : high;
}

static double sum_of(const uint64_t *counts, size_t bins)
{
    double sum = 0;

    for (size_t k = 0; k < bins; k++)
        sum += (double)counts[k];
    return sum;
}

double halay_bins_ks(const uint64_t *reference, const uint64_t *recent, size_t bins)
{
    double n = sum_of(reference, bins), m = sum_of(recent, bins), a = 0, b = 0, most = 0;

    for (size_t k = 0; k < bins; k++) {
        a += (double)reference[k];
        b += (double)recent[k];
        most = fmax(most, fabs(a / n - b / m));
    }
    return most;
}

size_t halay_bins_group(const uint64_t *reference, size_t bins, size_t *group)
{
    double all = sum_of(reference, bins), before = 0;
    size_t groups = 0, last = HALAY_BIN_GROUPS;

    for (size_t k = 0; k < bins; k++) {
        /* by the middle of its share, so that empty bins go with their neighbours */
        size_t place = all > 0 ? (size_t)((before + (double)reference[k] / 2) / all * HALAY_BIN_GROUPS) : 0;
        place = place < HALAY_BIN_GROUPS ? place : HALAY_BIN_GROUPS - 1;
        if (place != last) {
            last = place;
            groups++;
        }
        group[k] = groups - 1;
        before += (double)reference[k];
    }
    return groups;
}

double halay_bins_psi(const uint64_t *reference, const uint64_t *recent, size_t bins, int ordered)
{
    double p[HALAY_BIN_GROUPS + 1] = { 0 }, q[HALAY_BIN_GROUPS + 1] = { 0 }, n = 0, m = 0, psi = 0;
    size_t group[HALAY_BINS_MAX], groups = bins;

    if (ordered) {
        groups = halay_bins_group(reference, bins, group);
        for (size_t k = 0; k < bins; k++) {
            p[group[k]] += (double)reference[k];
            q[group[k]] += (double)recent[k];
        }
    }
    n = sum_of(reference, bins) + 0.5 * (double)groups;
    m = sum_of(recent, bins) + 0.5 * (double)groups;
    for (size_t k = 0; k < groups; k++) {
        double a = ((ordered ? p[k] : (double)reference[k]) + 0.5) / n;
        double b = ((ordered ? q[k] : (double)recent[k]) + 0.5) / m;
        psi += (a - b) * log(a / b);
    }
    return psi;
}
