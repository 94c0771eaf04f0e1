/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: the last season before the origin once more, as often as the horizon asks for, a value that was
 * missing there from the season before it; the floor that a model must beat.
 *
 *     season 4, horizon 6:   ... a b c d | a b c d a b
 *
 * For a fair P10 and P90 the quantile of what this forecast missed by in training, so many seasons ahead, for that
 * entity and place in the schema's first season, is added (linear between order statistics). The plain forms, without
 * it, are kept beside.
 */
#ifndef HALAY_TFT_NAIVE_H
#define HALAY_TFT_NAIVE_H

#include "tft/data/data.h"

struct tft_naive {
    const struct tft_data *data; /* borrowed for as long as this lives */
    size_t target;               /* which one */
    size_t season;               /* steps */
    size_t ahead;                /* seasons that the horizon holds, the last one perhaps in part */
    size_t places;               /* in the schema's first season */
    size_t quantile_count;
    double *residuals;  /* owned: (entities, ahead, places, quantiles) */
    double *mean_error; /* owned: (entities) mean size of value - value of a season before; NAN without such */
};

/* Fit to the training span. Asks tft_data_check for all rows. */
enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t season,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *naive);
void tft_naive_fini(struct tft_naive *naive);

/* Forecast step h (from 0) of the horizon whose first row, of an entity, is origin: p[quantile], and the plain value.
 * Returns 0 (nothing is written) where no season before has a value. */
int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t origin, size_t h, double *p, double *plain);

/* What to call the naive forecast of a season (a number, as text) in a table. */
void tft_naive_title(const char *season, size_t horizon, char *text, size_t size);

#endif
