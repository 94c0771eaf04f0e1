/* SPDX-License-Identifier: Apache-2.0
 *
 * The weights of a granule's forecasts, in each thread's own memory, and their means over a window.
 */
#ifndef HALAY_TFT_WEIGHT_READER_H
#define HALAY_TFT_WEIGHT_READER_H

#include "tft/core/score/forecast.h"

struct tft_weight_reader {
    const struct tft_model *model; /* borrowed */
    size_t E, D, T, heads;
    size_t V[TFT_CHOICES];                            /* variables of each selection */
    size_t variables[TFT_CHOICES][TFT_VARIABLES_MAX]; /* their numbers in the model */
    size_t all;                                       /* V of the three together */
    struct tft_weights *threads;                      /* (threads) */
    struct halay_region memory;                       /* owned: of these and their arrays */
};

/* "static", "past", "future" */
extern const char *const tft_part_names[TFT_CHOICES];
/* The name of a selection's variable j. */
const char *tft_weight_name(const struct tft_weight_reader *reader, int choice, size_t j);
/* Steps of a window that a selection (an enum tft_choice) has. */
size_t tft_weight_steps(const struct tft_weight_reader *reader, int choice);

/* Returns the count of a window's numbers: its (all) means, then its (T) lags. */
static inline size_t tft_weight_numbers(const struct tft_weight_reader *reader)
{
    return reader->all + reader->T;
}

/* Errors are logged; fini has to be called. */
enum halay_status tft_weight_reader_init(struct halay_log *log, const struct tft_model *model, size_t threads,
                                         struct tft_weight_reader *reader);
void tft_weight_reader_fini(struct tft_weight_reader *reader);

/* Copy a granule's weights; valid until the thread's next call. */
const struct tft_weights *tft_weight_reader_read(const struct tft_weight_reader *reader,
                                                 const struct tft_forecast_granule *granule);
/* Sample b's mean weight of each variable over its steps: (all), static, past, future. */
void tft_weight_means(const struct tft_weight_reader *reader, const struct tft_weights *weights,
                      const struct tft_batch *batch, size_t b, float *means);
/* Computes sample b's attention by lag, (T): to the step this number of steps before the forecast step, mean over the
 * heads and the steps of the horizon that see that far back; 0 at lags that its window does not reach. */
void tft_weight_lags(const struct tft_weight_reader *reader, const struct tft_weights *weights,
                     const struct tft_batch *batch, size_t b, float *lags);
/* Sample b's attention to each step of the window, (T), mean over the heads and the horizon. */
void tft_weight_places(const struct tft_weight_reader *reader, const struct tft_weights *weights, size_t b,
                       float *places);
/* Sample b's attention of step h of the horizon to step t of the window, mean over the heads. */
static inline double tft_weight_attention(const struct tft_weight_reader *reader, const struct tft_weights *weights,
                                          size_t b, size_t h, size_t t)
{
    double sum = 0;

    for (size_t head = 0; head < reader->heads; head++)
        sum += (double)weights->attention[((b * reader->heads + head) * reader->D + h) * reader->T + t];
    return sum / (double)reader->heads;
}

#endif
