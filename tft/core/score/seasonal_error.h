/* SPDX-License-Identifier: Apache-2.0
 *
 * The unit of MASE: the mean absolute error of repeating the value a season before, over all of an entity's rows before
 * a window's first target (Hyndman and Koehler 2006, with the rows that GluonTS, Monash and the M competitions take).
 * An entity with no more rows than a season has is measured by the row before. Only measured values count.
 */
#ifndef HALAY_TFT_SEASONAL_ERROR_H
#define HALAY_TFT_SEASONAL_ERROR_H

#include "tft/core/data/data.h"
#include "tft/core/data/windows.h"

/* Of one target: what the rows so far add up to, with a season between two values and with one step. */
struct tft_seasonal_sum {
    double by_season, by_step;
    size_t season_count, step_count;
    int found; /* a window had such rows before it, whether they differed or not */
};

struct tft_seasonal_error {
    const struct tft_data *data;   /* borrowed */
    size_t entity, rows;           /* sums are of that many rows of this entity */
    struct tft_seasonal_sum *sums; /* owned: (targets) */
    double *errors;                /* owned: (targets) */
};

enum halay_status tft_seasonal_error_init(struct halay_log *log, const struct tft_data *data,
                                          struct tft_seasonal_error *error);
void tft_seasonal_error_fini(struct tft_seasonal_error *error);

/* The errors (targets) in the rows before a window's first target; 0: there is none. Valid until the next call. Cheap
 * for windows of an entity in ascending order. The rows have been checked by tft_data_check. */
const double *tft_seasonal_error_before(struct tft_seasonal_error *error, const struct tft_window *window);

#endif
