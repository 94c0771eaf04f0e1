/* SPDX-License-Identifier: Apache-2.0
 *
 * Single forecasts that are kept while all windows pass by: with what they weighed, where they looked, and what is
 * usual of their entity.
 */
#ifndef HALAY_TFT_SINGLES_H
#define HALAY_TFT_SINGLES_H

#include "tft/tools/explain/weight_sums.h"

/* The numbers that follow a window's forecast, a forecaster's `more`. */
struct tft_single_layout {
    size_t forecast; /* numbers of the forecast itself: (D, O, Q), scaled */
    size_t means;    /* where the numbers begin: (all) of tft_weight_means */
    size_t distance; /* (1) of its attention from its entity's mean */
    size_t lags;     /* (T) of tft_weight_lags */
    size_t places;   /* (T) of tft_weight_places */
    size_t end;
};

struct tft_single_layout tft_single_layout_of(const struct tft_weight_reader *reader, size_t forecast);
/* Write the numbers after the forecast of a granule's sample b. Its entity's batch has ended (tft_weight_sums_end). */
void tft_single_measure(const struct tft_single_layout *layout, const struct tft_weight_sums *sums,
                        const struct tft_weights *weights, const struct tft_forecast_granule *granule, size_t b);

/* The window with the largest value of something, so far. */
struct tft_single {
    int has_window;
    double value;
    struct tft_window window;
    float *numbers; /* owned: (layout.end) */
    float *usual;   /* owned: (T) mean attention of its entity by lag */
};

/* HALAY_ERR_NO_MEMORY is not logged; fini accepts a single that is zero or half-built. */
enum halay_status tft_single_init(const struct tft_single_layout *layout, const struct tft_weight_reader *reader,
                                  struct tft_single *single);
void tft_single_fini(struct tft_single *single);
/* Keep a window if nothing is kept yet, or if its value is larger; a NaN value is not kept. */
void tft_single_offer(struct tft_single *single, const struct tft_single_layout *layout,
                      const struct tft_weight_sums *sums, const struct tft_window *window, const float *numbers,
                      double value);

/* Returns the distance of a forecast's median from the measured targets, scaled, as their mean; NAN without any. */
double tft_single_error(const struct tft_data *data, const struct tft_list *quantiles, const struct tft_window *window,
                        const float *forecast);
/* Returns the same for one target, in its unit. */
double tft_single_mae(const struct tft_data *data, const struct tft_list *quantiles, const struct tft_window *window,
                      const float *forecast, size_t target);

/* Finds the number of the window that "ENTITY,TIME" names: by its entity and its origin, the last moment that it has
 * seen, or the beginning of that, up to the end of a word. HALAY_ERR_CONFIG (logged) if no window matches. */
enum halay_status tft_single_find(struct halay_log *log, const struct tft_windows *windows, const char *text,
                                  size_t *number);

#endif
