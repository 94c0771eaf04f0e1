/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts, the floor that a model must beat: the last season before the origin, repeated over the horizon; a
 * value that is missing there comes from the season before it.
 *
 *     season 4, horizon 6:   ... a b c d | a b c d a b
 *
 * For a fair P10 and P90 a quantile of this forecast's errors in training is added: of those as many seasons ahead, of
 * that entity and that phase in the schema's first season (linear between order statistics). The plain forecasts,
 * without it, are kept too.
 */
#ifndef HALAY_TFT_NAIVE_H
#define HALAY_TFT_NAIVE_H

#include "tft/data/data.h"

struct tft_naive {
    const struct tft_data *data; /* borrowed for as long as this lives */
    size_t target;               /* which one */
    size_t season;               /* steps */
    size_t ahead;                /* seasons in the horizon, rounded up */
    size_t phases;               /* in the schema's first season */
    size_t quantile_count;
    double *residuals;  /* owned: (entities, ahead, phases, quantiles) */
    double *mean_error; /* owned: (entities) mean |value - value a season before|; NAN if there are none */
};

/* Fit to the training span. Calls tft_data_check for all rows. */
enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t season,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *naive);
void tft_naive_fini(struct tft_naive *naive);

/* Forecast step h (from 0) of the horizon whose first row, of an entity, is origin: p[quantile], and the plain value.
 * Returns 0 (nothing is written) where no season before has a value. */
int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t origin, size_t h, double *p, double *plain);

/* What to call the naive forecast of a season (a number, as text) in a table. */
void tft_naive_title(const char *season, size_t horizon, char *text, size_t size);

/* The sentence for a target's forecasts (of all: target_count) whose median's q-risk is not below that of a season's
 * naive forecasts. It names the keys for levels that move which the target does not have. */
void tft_naive_warning(const struct tft_schema *schema, size_t target, const char *median, double q_risk, size_t season,
                       double naive_q_risk, char *text, size_t size);

#endif
