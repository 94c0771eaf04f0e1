/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings.
 */
#include "tft/tools/drift/findings.h"
#include "base/bins.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SEPARATE = 4 };

static const double customary_psi = 0.25;

enum halay_status tft_findings_init(struct halay_log *log, double rate, size_t blocks, size_t block, size_t separate,
                                    struct tft_findings *f)
{
    *f = (struct tft_findings){
        .rate = rate, .blocks = blocks, .block = block, .separate = separate, .threshold = NAN, .most = NAN
    };
    f->largest = calloc(blocks + 1, sizeof *f->largest);
    f->order = calloc(blocks + 1, sizeof *f->order);
    f->rank = calloc(blocks + 1, sizeof *f->rank);
    f->scratch = calloc(blocks + 1, sizeof *f->scratch);
    f->rows = json_array();
    for (size_t b = 0; f->largest && b < blocks; b++)
        f->largest[b] = NAN;
    if (f->largest && f->scratch && f->order && f->rank && f->rows)
        return HALAY_OK;
    halay_error(log, "no memory for %zu blocks of the past", blocks);
    return HALAY_ERR_NO_MEMORY;
}

void tft_findings_fini(struct tft_findings *f)
{
    free(f->largest);
    free(f->scratch);
    free(f->order);
    free(f->rank);
    json_decref(f->rows);
    *f = (struct tft_findings){ 0 };
}

/* ---- thresholds -------------------------------------------------------------------------------------------------- */

size_t tft_threshold_place(size_t count, double rate)
{
    double place = ceil(((double)count + 1) * (1 - rate) - 1e-9); /* what is whole but for rounding is whole */

    return place < 1 ? 1 : place > (double)count ? count + 1 : (size_t)place;
}

int tft_threshold(double *values, size_t count, size_t independent, double rate, double *threshold)
{
    size_t place = tft_threshold_place(count, rate), middle = count / 2;
    double excess = 0;

    halay_sort_doubles(values, count);
    if (place <= count && (double)(independent + 1) * rate >= 1) {
        *threshold = values[place - 1];
        return 1;
    }
    for (size_t k = middle; k < count; k++)
        excess += (values[k] - values[middle]) / (double)(count - middle);
    *threshold = fmax(values[count - 1], values[middle] - excess * log(2 * rate));
    return 0;
}

/* Returns the number of separate blocks that this number of blocks amounts to. */
static size_t count_separate(const struct tft_findings *f, size_t blocks)
{
    return f->blocks ? f->separate * blocks / f->blocks : 0;
}

/* ---- scales ------------------------------------------------------------------------------------------------------ */

static int compare_places(const void *a, const void *b, void *values)
{
    double x = ((const double *)values)[*(const size_t *)a], y = ((const double *)values)[*(const size_t *)b];

    return (x > y) - (x < y);
}

/* Copies and sorts the values that are numbers, of the blocks and then of the recent span, and finds their ranks.
 * Returns their number. */
static size_t order_values(struct tft_findings *f, const double *in_blocks, double value)
{
    size_t n = 0;

    for (size_t b = 0; b <= f->blocks; b++) {
        f->scratch[b] = b < f->blocks ? in_blocks[b] : value;
        if (!isnan(f->scratch[b]))
            f->order[n++] = b;
    }
    qsort_r(f->order, n, sizeof *f->order, compare_places, f->scratch);
    for (size_t i = 0; i < n; i++)
        f->rank[f->order[i]] = i;
    return n;
}

/* Returns how many of the numbers that a block (or the recent span) overlaps, itself among them, rank up to a place. */
static size_t count_own(const struct tft_findings *f, size_t block, size_t rank)
{
    size_t first = block + 1 > f->block ? block + 1 - f->block : 0, end = block + f->block, n = 0;

    if (block == f->blocks)
        return !isnan(f->scratch[block]) && f->rank[block] <= rank;
    for (size_t b = first; b < end && b < f->blocks; b++)
        n += !isnan(f->scratch[b]) && f->rank[b] <= rank;
    return n;
}

/* The scale of a block, or of the recent span, from the n ordered values without those that it overlaps. */
static double scale_of(const struct tft_findings *f, size_t block, size_t n)
{
    size_t others = n - count_own(f, block, n), place = tft_threshold_place(others, f->rate), at, own;

    if (!others)
        return NAN;
    at = (place < others ? place : others) - 1;
    for (own = 0; own != count_own(f, block, at + own);)
        own = count_own(f, block, at + own);
    return f->scratch[f->order[at + own]];
}

/* Sets the recent span's scale, and takes the blocks' values to their largest ones. */
static double take_scales(struct tft_findings *f, const double *in_blocks, double value, double least)
{
    size_t n = order_values(f, in_blocks, value), recent = f->blocks;
    const int is_enough = count_separate(f, n - !isnan(value)) >= LEAST_SEPARATE;

    for (size_t b = 0; b < f->blocks; b++)
        if (!isnan(in_blocks[b]))
            f->largest[b] = fmax(f->largest[b], in_blocks[b] / fmax(is_enough ? scale_of(f, b, n) : NAN, least));
    return fmax(is_enough ? scale_of(f, recent, n) : NAN, least); /* not NAN: least is a number */
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

enum halay_status tft_findings_add(struct tft_findings *f, const char *statistic, double value, const double *in_blocks,
                                   double least, json_t *row)
{
    if (!row)
        return HALAY_ERR_NO_MEMORY;
    double scale = take_scales(f, in_blocks, value, least);
    f->most = fmax(f->most, value / scale);
    if (json_object_set_new(row, "statistic", json_string(statistic)) ||
        json_object_set_new(row, "value", json_real(value)) || json_object_set_new(row, "scale", json_real(scale)) ||
        json_array_append(f->rows, row)) {
        json_decref(row);
        return HALAY_ERR_NO_MEMORY;
    }
    json_decref(row);
    return HALAY_OK;
}

/* The threshold of the largest ones. */
static double threshold_of_largest(struct tft_findings *f)
{
    double threshold;
    size_t n = 0;

    for (size_t b = 0; b < f->blocks; b++)
        if (!isnan(f->largest[b]))
            f->scratch[n++] = f->largest[b];
    f->used = count_separate(f, n);
    if (f->used < LEAST_SEPARATE)
        return NAN;
    f->is_extrapolated = !tft_threshold(f->scratch, n, f->used, f->rate, &threshold);
    return threshold;
}

void tft_findings_finish(struct tft_findings *f)
{
    json_t *row;
    size_t i;

    f->threshold = threshold_of_largest(f);
    if (f->threshold < 1) /* what is least stays least; NaN stays, too */
        f->threshold = 1;
    f->rate = isnan(f->threshold) ? NAN : f->rate;
    json_array_foreach(f->rows, i, row) {
        double value = json_number_value(json_object_get(row, "value"));
        double limit = json_number_value(json_object_get(row, "scale")) * f->threshold;
        const char *statistic = json_string_value(json_object_get(row, "statistic"));
        if (isnan(limit) && !strcmp(statistic, "psi"))
            limit = customary_psi + json_number_value(json_object_get(row, "chance"));
        json_object_del(row, "scale");
        json_object_del(row, "chance");
        json_object_set_new(row, "threshold", isfinite(limit) ? json_real(limit) : json_null());
        json_object_set_new(row, "drifted", json_boolean(value > limit));
    }
}

size_t tft_findings_drifted(const struct tft_findings *f, size_t *count)
{
    const json_t *row;
    size_t i, n = 0;

    *count = json_array_size(f->rows);
    json_array_foreach(f->rows, i, row)
        n += json_is_true(json_object_get(row, "drifted"));
    return n;
}
