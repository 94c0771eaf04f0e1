/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings.
 */
#include "tft/drift/findings.h"
#include "tft/drift/distance.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_SEPARATE = 4 };

static const double customary_psi = 0.25;

enum halay_status tft_findings_init(struct halay_log *log, double rate, size_t blocks, size_t separate,
                                    struct tft_findings *f)
{
    *f = (struct tft_findings){ .rate = rate, .blocks = blocks, .separate = separate, .threshold = NAN, .most = NAN };
    f->largest = calloc(blocks + 1, sizeof *f->largest);
    f->scratch = calloc(blocks + 1, sizeof *f->scratch);
    f->rows = json_array();
    for (size_t b = 0; f->largest && b < blocks; b++)
        f->largest[b] = NAN;
    if (f->largest && f->scratch && f->rows)
        return HALAY_OK;
    halay_error(log, "no memory for %zu blocks of the past", blocks);
    return HALAY_ERR_NO_MEMORY;
}

void tft_findings_fini(struct tft_findings *f)
{
    free(f->largest);
    free(f->scratch);
    json_decref(f->rows);
    *f = (struct tft_findings){ 0 };
}

/* The threshold of those values that are numbers; NAN: too few. *used: how many of the separate ones they are worth. */
static double threshold_of(const struct tft_findings *f, const double *values, size_t *used, int *is_extrapolated)
{
    double threshold;
    size_t n = 0;

    for (size_t b = 0; b < f->blocks; b++)
        if (!isnan(values[b]))
            f->scratch[n++] = values[b];
    *used = f->blocks ? f->separate * n / f->blocks : 0;
    if (*used < LEAST_SEPARATE)
        return NAN;
    *is_extrapolated = !tft_threshold(f->scratch, n, *used, f->rate, &threshold);
    return threshold;
}

enum halay_status tft_findings_add(struct tft_findings *f, const char *statistic, double value, const double *in_blocks,
                                   double least, json_t *row)
{
    size_t used;
    int is_extrapolated;
    double scale = fmax(threshold_of(f, in_blocks, &used, &is_extrapolated), least); /* not NAN: least is a number */

    if (!row)
        return HALAY_ERR_NO_MEMORY;
    for (size_t b = 0; b < f->blocks; b++)
        f->largest[b] = fmax(f->largest[b], in_blocks[b] / scale);
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

void tft_findings_finish(struct tft_findings *f)
{
    json_t *row;
    size_t i;

    f->threshold = threshold_of(f, f->largest, &f->used, &f->is_extrapolated);
    f->rate = isnan(f->threshold) ? NAN : f->rate;
    json_array_foreach(f->rows, i, row) {
        double value = json_number_value(json_object_get(row, "value"));
        double limit = json_number_value(json_object_get(row, "scale")) * f->threshold;
        const char *statistic = json_string_value(json_object_get(row, "statistic"));
        if (isnan(limit) && !strcmp(statistic, "psi"))
            limit = customary_psi;
        json_object_del(row, "scale");
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
