/* SPDX-License-Identifier: Apache-2.0
 *
 * Fill: what stands for values that are missing, by `fill: forward` and `fill: interpolate`.
 *
 * A forecast must not see what lies behind its origin, in no guise. So a value is only carried forward, never back:
 * rows before a column's first value stay without one, and no window holds them. A line that is drawn between two
 * values is noted as a bridge: who stands before its end does not know that end, and has the value before it instead.
 *
 *     row           0  1  2  3  4  5  6  7
 *     measured      -  -  3  -  -  -  -  8
 *     interpolate   -  -  3  4  5  6  7  8     3 in rows 3 to 6, if one of them is the last that a window has seen
 */
#ifndef HALAY_TFT_FILL_H
#define HALAY_TFT_FILL_H

#include "tft/data/table.h"

/* Rows [from, to) of the table's column k are missing, the row before them is not; without one before they stay as they
 * are. A bridge is added to the series' list. HALAY_ERR_NO_MEMORY, not logged. */
enum halay_status tft_fill_gap(enum tft_filling fill, size_t columns, size_t k, size_t from, size_t to,
                               struct tft_series *series);

/* Rows behind `row` have got other values: fill their gaps, and the one that leads up to them, anew. */
enum halay_status tft_fill_again(enum tft_filling fill, size_t columns, size_t k, size_t row,
                                 struct tft_series *series);

/* The bridge of column k over a row; NULL: there is none. */
const struct tft_bridge *tft_series_bridge(const struct tft_series *series, size_t k, size_t row);

#endif
