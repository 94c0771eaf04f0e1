/* SPDX-License-Identifier: Apache-2.0
 *
 * Baselines: forecasts that need no training, of a target's measured values before the origin.
 *
 *     last value
 *     season S        the value a whole number of seasons before, for each season of the schema
 *     mean of S       the mean of the last five such values
 *     drift           the line through the first and the last value
 *     theta           \  of the values without their season, the schema's first one, which is added again
 *     damped trend    /
 *
 * Of a past of fewer than six rows the last three are the last value: two or three rows show no trend. They see at most
 * tft_baselines_rows rows before the origin, also of a longer series, so that forecasts do not depend on how much of it
 * is given beyond that. For theta and the damped trend, missing values are interpolated between those before the
 * origin, and the latest 512 rows count: some 30 microseconds for 100 rows.
 */
#ifndef HALAY_TFT_BASELINES_H
#define HALAY_TFT_BASELINES_H

#include "base/memory.h"
#include "tft/core/data/windows.h"

enum tft_baseline_kind {
    TFT_BASE_LAST,
    TFT_BASE_SEASON,
    TFT_BASE_MEAN,
    TFT_BASE_DRIFT,
    TFT_BASE_THETA,
    TFT_BASE_DAMPED
};

struct tft_baseline {
    enum tft_baseline_kind kind;
    size_t season; /* steps, of SEASON and MEAN */
};

enum { TFT_BASELINES_MAX = 2 * TFT_SEASONS_MAX + 4 };

/* A schema's baselines; how many. */
size_t tft_baselines_of(const struct tft_schema *schema, struct tft_baseline all[TFT_BASELINES_MAX]);
/* The most rows before an origin that they see. */
size_t tft_baselines_rows(const struct tft_schema *schema);
/* Prints a baseline's title. */
void tft_baseline_title(const struct tft_baseline *baseline, char *text, size_t size);

/* The past of a target before an origin. */
struct tft_history {
    size_t season; /* the schema's first */
    size_t max;    /* rows that there is room for */
    size_t rows;   /* before the origin, of those that count */
    double unit;   /* mean distance of values a season apart, or a step where the past is shorter; 0: unknown */
    double *x;     /* (tft_baselines_rows) the last `rows`; NAN: not measured */
    double *z;     /* the last z_rows without missing values and season; made when needed */
    double *index; /* (season) what was taken away */
    size_t z_rows;
    int has_z;
};

/* Takes its memory from the region, which has failed if its memory is used up. */
void tft_history_init(const struct tft_schema *schema, struct halay_region *memory, struct tft_history *history);
/* Reads a window's. HALAY_ERR_FORMAT (logged): damaged data. */
enum halay_status tft_history_read(struct tft_history *history, const struct tft_data *data,
                                   const struct tft_window *window, size_t target);

/* Forecast steps 1 to `horizon`, scaled as forecasts are; NAN where there is nothing to forecast from. */
void tft_baseline_forecast(const struct tft_baseline *baseline, struct tft_history *history, size_t horizon,
                           double *to);

/* ---- the methods, each of n >= 1 values without gaps ---- */

/*
 * Theta method (V. Assimakopoulos, K. Nikolopoulos, "The theta model: a decomposition approach to forecasting",
 * International Journal of Forecasting 16, 2000), as R. J. Hyndman and B. Billah showed it to be ("Unmasking the Theta
 * method", 19, 2003): simple exponential smoothing with a drift of half the slope b of the line through all n values,
 *
 *     forecast(h) = level + b / 2 * (h - 1 + (1 - (1 - alpha)^n) / alpha)        h = 1, 2, ...
 *
 * whose alpha, of a few, has the lowest squared errors one step ahead. Forecasts steps 1 to `horizon` of values without
 * a season.
 */
void tft_theta_forecast(const double *x, size_t n, size_t horizon, double *to);

/*
 * Damped trend exponential smoothing (E. S. Gardner, E. McKenzie, "Forecasting trends in time series", Management
 * Science 31, 1985), in its form with errors:
 *
 *     error = x(t) - (level + phi trend)
 *     level = level + phi trend + alpha error        trend = phi trend + alpha beta error
 *     forecast(h) = level + (phi + phi^2 + ... + phi^h) trend
 *
 * It begins at the least squares line through all values. alpha, beta and phi, of a few each, have the lowest squared
 * errors one step ahead. Forecasts as tft_theta_forecast does.
 */
void tft_damped_trend_forecast(const double *x, size_t n, size_t horizon, double *to);

/*
 * Additive season: for each phase the mean distance from a centred moving average of a whole season, if the values'
 * autocorrelation a season apart is above what chance gives in one of ten (the test of the Theta method's authors, with
 * Bartlett's variance). index[season] has the distance of each phase, whose sum is 0; phase p has values p, p + season,
 * ... Returns 0 (index is zero) if the values show no such season.
 */
int tft_seasonal_fit(const double *x, size_t n, size_t season, double *index);

#endif
