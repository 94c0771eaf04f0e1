/* SPDX-License-Identifier: Apache-2.0
 *
 * A forecast to draw: band and median over the actual values, in the target's unit, and what led there.
 */
#ifndef HALAY_TFT_FORECAST_CHART_H
#define HALAY_TFT_FORECAST_CHART_H

#include "tft/core/data/windows.h"
#include "tft/core/run/run_config.h"
#include <stdio.h>

struct tft_forecast_chart {
    char title[160], band[64];
    size_t history, horizon;
    double *truth;               /* owned: (history + horizon), NAN where unknown */
    double *low, *middle, *high; /* owned: (horizon) */
};

/* Of a window's forecast, p (D, O, Q), scaled, one target, with up to `history` steps of the past. fini has to be
 * called in any case. HALAY_ERR_NO_MEMORY is not logged; HALAY_ERR_FORMAT (logged): damaged data. */
enum halay_status tft_forecast_chart_init(const struct tft_data *data, const struct tft_list *quantiles,
                                          const struct tft_window *window, const float *p, size_t target,
                                          size_t history, struct tft_forecast_chart *chart);
void tft_forecast_chart_fini(struct tft_forecast_chart *chart);

/* weights: (history + horizon) shares to draw on an axis of their own, with their label; or NULL. */
void tft_forecast_chart_write(FILE *file, const struct tft_forecast_chart *chart, const double *weights,
                              const char *label);

#endif
