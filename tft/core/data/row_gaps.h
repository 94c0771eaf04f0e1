/* SPDX-License-Identifier: Apache-2.0
 *
 * Gaps between the rows of a series, which become rows that no file has.
 */
#ifndef HALAY_TFT_ROW_GAPS_H
#define HALAY_TFT_ROW_GAPS_H

#include "tft/core/data/table.h"

/* Is the gap more likely a wrong time than a pause? That is so if it is longer than all of the series' rows, or if it
 * cuts off its first or last few. missing: rows in the gap; before: rows of the series before it; rows: all of the
 * series' own. */
static inline int tft_gap_is_odd(size_t missing, size_t before, size_t rows)
{
    size_t side = before < rows - before ? before : rows - before;

    return missing > 10 && (missing > rows || (side <= 1 + rows / 1000 && missing > rows / 20));
}

/* Warns of gaps that are odd. refuse: warns of a target most of whose values are filled, too, and more added rows than
 * rows of the files are an error. Neither is so if the schema has `gaps: fill`, or says what a missing row of a target
 * means. Call it before series are moved. */
enum halay_status tft_row_gaps_check(struct halay_log *log, const struct tft_schema *schema,
                                     const struct tft_table *table, int refuse);

#endif
