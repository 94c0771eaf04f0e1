/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts: the value of so many steps before; the floor that a model must beat.
 *
 * For a fair P10 and P90 the quantile of what this forecast missed by in training, for that entity and hour of day, is
 * added (linear between order statistics). The plain forms, without it, are kept beside.
 */
#ifndef HALAY_TFT_NAIVE_H
#define HALAY_TFT_NAIVE_H

#include "tft/data.h"

enum { TFT_NAIVE_HOURS = 24 };

struct tft_naive {
    const struct tft_data *data; /* borrowed for as long as this lives */
    size_t target;               /* which one */
    size_t lag;                  /* steps */
    size_t quantile_count;
    double *residuals;  /* owned: (entities, hours, quantiles) */
    double *mean_error; /* owned: (entities) mean |value - value of lag before| in training */
};

enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t lag,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *naive);
void tft_naive_fini(struct tft_naive *naive);

/* Forecast a row of the block that belongs to an entity: p[quantile], and the plain value. Returns 0 (nothing is
 * written) where the entity has no value so many steps before. */
int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t row, double *p, double *plain);

#endif
