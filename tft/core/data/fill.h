/* SPDX-License-Identifier: Apache-2.0
 *
 * Fill: what stands for values that are missing, by `fill: forward` and `fill: interpolate`.
 *
 * A forecast must not see anything after its origin, in any form. So a value is only carried forward, never back: rows
 * before a column's first value stay empty, and no window holds them. A line drawn between two values is recorded as a
 * bridge: a window whose known rows end on it cannot know where it leads, and gets the value before it instead.
 *
 *     row           0  1  2  3  4  5  6  7
 *     measured      -  -  3  -  -  -  -  8
 *     interpolate   -  -  3  4  5  6  7  8     3 in rows 3 to 6, if a window's last known row is one of them
 */
#ifndef HALAY_TFT_FILL_H
#define HALAY_TFT_FILL_H

#include "tft/core/data/table.h"

/* Fill rows [from, to) of the table's column k, which are missing while the row before them is not; without a row
 * before them they stay missing. A bridge is added to the series' list. HALAY_ERR_NO_MEMORY, not logged. */
enum halay_status tft_fill_gap(enum tft_filling fill, size_t columns, size_t k, size_t from, size_t to,
                               struct tft_series *series);

/* The values of rows after `row` have changed: fill their gaps, and the one that leads up to them, again. */
enum halay_status tft_fill_again(enum tft_filling fill, size_t columns, size_t k, size_t row,
                                 struct tft_series *series);

/* The bridge of column k over a row; NULL: there is none. */
const struct tft_bridge *tft_series_bridge(const struct tft_series *series, size_t k, size_t row);

#endif
