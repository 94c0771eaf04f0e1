/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows: what a training notes for other programs to draw, whatever the format.
 */
#ifndef HALAY_TFT_ROW_H
#define HALAY_TFT_ROW_H

#include <stddef.h>
#include <stdint.h>

/* A format makes a table of each: all its rows have the same names in the same order. */
enum tft_row_table { TFT_ROW_STEP, TFT_ROW_EVALUATION, TFT_ROW_TABLES };

struct tft_number {
    const char *name; /* letters, digits, '_' */
    double value;     /* may be NaN or infinite */
};

struct tft_row {
    enum tft_row_table table;
    uint64_t step;  /* optimizer's, from 1 */
    double seconds; /* of the clock, since 1970 */
    const struct tft_number *numbers;
    size_t count;
};

/* A tensor whose values are counted in buckets. */
struct tft_values {
    const char *group, *name; /* "gradients", "output.quantiles.kernel" */
    const float *values;
    size_t count;
};

#endif
