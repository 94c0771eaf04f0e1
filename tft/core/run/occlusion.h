/* SPDX-License-Identifier: Apache-2.0
 *
 * Occlusion: an input is taken away from a model by giving it the same ordinary value at every step of a window: the
 * median of the entity's values in the training span, a category's most frequent one; of a static input, that of all
 * entities. How much worse the forecasts become shows how much the model relies on it.
 *
 * The targets to forecast and a window's scale stay as they are. Where a target's forecast is blended with baselines,
 * its values are hidden from them as well.
 */
#ifndef HALAY_TFT_OCCLUSION_H
#define HALAY_TFT_OCCLUSION_H

#include "base/memory.h"
#include "tft/core/data/windows.h"
#include "tft/core/model/model.h"

struct tft_occlusion {
    size_t input;               /* the schema's */
    float *values;              /* (entities) of a real, scaled */
    int32_t *codes;             /* (entities) of a category */
    struct halay_region memory; /* owned: of both */
};

/* Finds the values that take the place of an input, of at most 4,096 rows of an entity, spread over its training span
 * (all its rows, if that holds none). Errors are logged; nothing is held then. */
enum halay_status tft_occlusion_init(struct halay_log *log, const struct tft_data *data, size_t input,
                                     struct tft_occlusion *occlusion);
void tft_occlusion_fini(struct tft_occlusion *occlusion);

/* Returns the value in place of a target's in a window, scaled as forecasts are; NAN if it is not taken away. The
 * window's rows have been checked (tft_data_check). */
double tft_occlusion_target(const struct tft_occlusion *occlusion, const struct tft_data *data,
                            const struct tft_window *window, size_t target);
/* Take the input away from sample b of a batch, which holds a window. */
void tft_occlusion_apply(const struct tft_occlusion *occlusion, const struct tft_data *data,
                         const struct tft_window *window, struct tft_batch *batch, size_t b);

#endif
