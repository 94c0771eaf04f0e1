/* SPDX-License-Identifier: Apache-2.0
 *
 * Distances.
 */
#include "tft/tools/drift/distance.h"
#include <math.h>
#include <stdlib.h>

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

void tft_bins_fit(float *values, size_t count, float edges[TFT_BINS - 1])
{
    qsort(values, count, sizeof *values, compare_floats);
    for (size_t k = 0; k < TFT_BINS - 1; k++)
        edges[k] = values[(k + 1) * count / TFT_BINS];
}

/* How many edges are below a value, or (or_equal) not above it. */
static size_t edges_below(const float edges[TFT_BINS - 1], float value, int or_equal)
{
    size_t low = 0, high = TFT_BINS - 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (or_equal ? value < edges[middle] : value <= edges[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

size_t tft_bin_of(const float edges[TFT_BINS - 1], float value)
{
    size_t high = edges_below(edges, value, 1), low = edges_below(edges, value, 0);

    return high - low > 1 ? low + (high - low) / 2 : high;
}

static double sum_of(const uint64_t *counts, size_t bins)
{
    double sum = 0;

    for (size_t k = 0; k < bins; k++)
        sum += (double)counts[k];
    return sum;
}

double tft_distance_ks(const uint64_t *reference, const uint64_t *recent, size_t bins)
{
    double n = sum_of(reference, bins), m = sum_of(recent, bins), a = 0, b = 0, most = 0;

    for (size_t k = 0; k < bins; k++) {
        a += (double)reference[k];
        b += (double)recent[k];
        most = fmax(most, fabs(a / n - b / m));
    }
    return most;
}

size_t tft_bins_group(const uint64_t *reference, size_t bins, size_t *group)
{
    double all = sum_of(reference, bins), before = 0;
    size_t groups = 0, last = TFT_BIN_GROUPS;

    for (size_t k = 0; k < bins; k++) {
        /* by the middle of its share, so that empty bins go with their neighbours */
        size_t place = all > 0 ? (size_t)((before + (double)reference[k] / 2) / all * TFT_BIN_GROUPS) : 0;
        place = place < TFT_BIN_GROUPS ? place : TFT_BIN_GROUPS - 1;
        if (place != last) {
            last = place;
            groups++;
        }
        group[k] = groups - 1;
        before += (double)reference[k];
    }
    return groups;
}

double tft_distance_psi(const uint64_t *reference, const uint64_t *recent, size_t bins, int ordered)
{
    double p[TFT_BIN_GROUPS + 1] = { 0 }, q[TFT_BIN_GROUPS + 1] = { 0 }, n = 0, m = 0, psi = 0;
    size_t group[TFT_BINS], groups = bins;

    if (ordered) {
        groups = tft_bins_group(reference, bins, group);
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

size_t tft_threshold_place(size_t count, double rate)
{
    double place = ceil(((double)count + 1) * (1 - rate) - 1e-9); /* what is whole but for rounding is whole */

    return place < 1 ? 1 : place > (double)count ? count + 1 : (size_t)place;
}

int tft_threshold(double *values, size_t count, size_t independent, double rate, double *threshold)
{
    size_t place = tft_threshold_place(count, rate), middle = count / 2;
    double excess = 0;

    qsort(values, count, sizeof *values, compare_doubles);
    if (place <= count && (double)(independent + 1) * rate >= 1) {
        *threshold = values[place - 1];
        return 1;
    }
    for (size_t k = middle; k < count; k++)
        excess += (values[k] - values[middle]) / (double)(count - middle);
    *threshold = fmax(values[count - 1], values[middle] - excess * log(2 * rate));
    return 0;
}
