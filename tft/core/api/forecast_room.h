/* SPDX-License-Identifier: Apache-2.0
 *
 * Each window's result for the program: a struct halay_tft_forecast and the memory of its arrays.
 */
#ifndef HALAY_TFT_FORECAST_ROOM_H
#define HALAY_TFT_FORECAST_ROOM_H

#include "tft/core/api/model_calls.h"
#include "tft/core/score/weight_reader.h"

struct tft_forecast_room {
    const struct tft_data *data;            /* borrowed */
    const struct tft_weight_reader *reader; /* borrowed; its `all` is 0 where forecasts are not explained */
    struct halay_tft_forecast forecast;     /* its arrays are owned */
    double *numbers;                        /* owned: most of these arrays */
    int64_t *times;                         /* owned */
    const char **names;                     /* owned: targets, then inputs */
    char (*input_names)[TFT_NAME_MAX + 16]; /* owned */
};

/* Initialises a room. reader: initialised, or zero. fini accepts a room after an error. HALAY_ERR_NO_MEMORY
 * (logged). */
enum halay_status tft_forecast_room_init(struct halay_log *log, const struct tft_inference *inference,
                                         const struct tft_weight_reader *reader, struct tft_forecast_room *room);
void tft_forecast_room_fini(struct tft_forecast_room *room);
/* Fills in a window's entity and times and its forecast p; more: its (all) means and (T) lags, or NULL. */
enum halay_status tft_forecast_room_fill(struct tft_forecast_room *room, const struct tft_window *window,
                                         const float *p, const float *more);

#endif
