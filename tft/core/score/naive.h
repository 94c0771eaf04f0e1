/* SPDX-License-Identifier: Apache-2.0
 *
 * Naive forecasts, the floor that a model must beat: for each season of the schema the last one before the origin,
 * repeated over the horizon; the last value, which is a season of one step; and the last value with drift, the line
 * through the first and the last value of the entity before the origin (Hyndman and Athanasopoulos, Forecasting:
 * Principles and Practice, 3rd edition, 5.2: seasonal naive, naive and drift method). A missing value is
 * replaced by the one a season before it.
 *
 *     season 4, horizon 6:   ... a b c d | a b c d a b
 *     drift:                 a ... b c d | d + (d - a) / n, d + 2 (d - a) / n, ...      d is n steps after a
 *
 * For a fair P10 and P90 a quantile of this forecast's errors in training is added: of those as many steps ahead (in
 * whole seasons), of that entity and, for seasons of several steps, of that phase in the schema's first season (linear
 * between order statistics). The plain forecasts, without it, are kept too.
 */
#ifndef HALAY_TFT_NAIVE_H
#define HALAY_TFT_NAIVE_H

#include "base/memory.h"
#include "tft/core/data/data.h"

/* The key of drift among seasons; the most naive forecasts that a schema has. */
enum { TFT_NAIVE_DRIFT = 0, TFT_NAIVE_MAX = TFT_SEASONS_MAX + 2 };

struct tft_naive {
    const struct tft_data *data; /* borrowed for as long as this lives */
    size_t target;               /* which one */
    size_t season;               /* steps, or TFT_NAIVE_DRIFT */
    size_t step;                 /* the season; 1 for drift */
    size_t ahead;                /* such steps in the horizon, rounded up */
    size_t phases;               /* in the schema's first season; 1 where residuals are of all */
    size_t residuals_max;        /* of an entity, a phase and so far ahead that are taken, spread over training */
    size_t quantile_count;
    size_t *first;              /* (entities) the first measured row; SIZE_MAX: none */
    double *residuals;          /* (entities, ahead, phases, quantiles) */
    struct halay_region memory; /* owned: of both */
};

/* The best of several naive forecasts of some values. */
struct tft_naive_best {
    size_t season;
    int is_plain;  /* without residuals */
    double q_risk; /* of the median; infinite: unknown */
};

/* The seasons of a schema's naive forecasts: its own, a single step if none of them is, and drift; how many. */
size_t tft_naive_seasons(const struct tft_schema *schema, size_t seasons[TFT_NAIVE_MAX]);

/* Fit to the training span. Calls tft_data_check for all rows. */
enum halay_status tft_naive_init(struct halay_log *log, const struct tft_data *data, size_t target, size_t season,
                                 const double *quantiles, size_t quantile_count, struct tft_naive *naive);
void tft_naive_fini(struct tft_naive *naive);

/* Forecast step h (from 0) of the horizon whose first row, of an entity, is origin: p[quantile], and the plain value.
 * Returns 0 (nothing is written) where no season before has a value, or for drift fewer than two have. */
int tft_naive_forecast(const struct tft_naive *naive, size_t entity, size_t origin, size_t h, double *p, double *plain);

/* The key of a season in documents: a number, or "drift". */
void tft_naive_key(size_t season, char *text, size_t size);
/* Prints the title of the naive forecast of such a key in a table. */
void tft_naive_title(const char *key, size_t horizon, char *text, size_t size);

/* Returns nonzero if forecasts with this q-risk do not beat naive ones: it is not below theirs by 1 % at least. */
int tft_naive_wins(double q_risk, const struct tft_naive_best *best);

/* Prints the sentence for a target's forecasts (of all: target_count) if tft_naive_wins for their median's q-risk;
 * otherwise returns 0. It names the keys for levels that move which the target does not have. */
int tft_naive_warning(const struct tft_schema *schema, size_t target, double median, double q_risk,
                      const struct tft_naive_best *best, char *text, size_t size);

#endif
