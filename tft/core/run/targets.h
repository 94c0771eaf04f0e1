/* SPDX-License-Identifier: Apache-2.0
 *
 * Can a loss be of these targets?
 */
#ifndef HALAY_TFT_TARGETS_H
#define HALAY_TFT_TARGETS_H

#include "tft/core/data/data.h"

/* Check the measured targets of all splits for data->loss. HALAY_ERR_FORMAT (logged: the entity, the moment, what would
 * be right): poisson and negative-binomial need whole numbers from 0 on, tweedie numbers from 0 on, and these three
 * targets that are not scaled by their logarithm. Reads all rows for those three, none for others. */
enum halay_status tft_targets_check(struct halay_log *log, const struct tft_data *data);

/* Warn of each target whose changes between an entity's last rows (SIZE_MAX: all) are lost in the floats that
 * data->loss takes. Returns nonzero if it did. Rows of a damaged file are left to what reads them next. */
int tft_targets_warn(struct halay_log *log, const struct tft_data *data, size_t rows);

#endif
