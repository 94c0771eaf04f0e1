/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts of many windows, by all ranks together, in bounded memory.
 *
 * Windows are forecast in chunks; each rank computes its share of a chunk, the shares are put together by a sum
 * (everything that is not a rank's own is zero in its part, so that no bit depends on who computed what), and every
 * rank gets all forecasts in order of window.
 */
#ifndef HALAY_TFT_FORECAST_H
#define HALAY_TFT_FORECAST_H

#include "halay.h"
#include "tft/run/batches.h"

struct tft_forecaster {
    struct halay_log *log;     /* borrowed, as all pointers of the first group */
    struct halay_context *ctx; /* NULL: this process alone */
    const struct tft_model *model;
    struct tft_workers *workers;
    struct tft_gather gather; /* which windows */
    const float *params;
    float *chunk; /* owned: (windows of a chunk, D, O, Q), scaled, and a number that is summed with them */
};

/* Windows forecast at a time. */
enum { TFT_FORECAST_CHUNK = 2048 };
/* The most granules that a step of a rank's workers has in a forecast, for tft_workers_create. */
size_t tft_forecast_granules(const struct tft_model *model);

enum halay_status tft_forecaster_init(struct tft_forecaster *forecaster);
void tft_forecaster_fini(struct tft_forecaster *forecaster);

/*
 * Forecast positions [0, count) of the gather. HALAY_ERR_CANCELED (not logged), on all ranks at the same chunk: a
 * signal that is watched (tft/run/interrupt.h) came on one of them, which all then know; a granule later that rank
 * computes no more. take is called on this thread, in order, with each window's forecast: p is (D, O, Q) in scaled
 * units.
 */
enum halay_status tft_forecast(struct tft_forecaster *forecaster, size_t count,
                               enum halay_status (*take)(void *arg, size_t position, const struct tft_window *window,
                                                         const float *p),
                               void *arg);

#endif
