/* SPDX-License-Identifier: Apache-2.0
 *
 * The Electricity configuration with synthetic samples: the shapes of the published benchmark without its data.
 */
#ifndef TFT_SYNTHETIC_H
#define TFT_SYNTHETIC_H

#include "tft/core/model/model.h"

/* 369 ids, hour, day of week, hours from start, power usage; 168 steps and 24. */
void tft_synthetic_electricity(struct tft_model_config *config);

/* Fill a batch of any model (struct tft_model as arg): values depend on the sample's position and the column alone. The
 * target is a daily wave that depends on the id, so that training has something to learn. */
enum halay_status tft_synthetic_fill(void *model, int thread, struct tft_batch *batch);
/* The same for windows: neighbouring samples are one step apart in one series. */
enum halay_status tft_synthetic_fill_windows(void *model, int thread, struct tft_batch *batch);

#endif
