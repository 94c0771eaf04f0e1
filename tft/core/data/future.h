/* SPDX-License-Identifier: Apache-2.0
 *
 * The future: known inputs after the end of a table, from files.
 */
#ifndef HALAY_TFT_FUTURE_H
#define HALAY_TFT_FUTURE_H

#include "tft/core/data/table.h"

/*
 * Give the last `rows` rows of each series, which tft_table_extend has added, the known inputs that files, or a frame,
 * hold for their moments. Series that it does not mention are removed from the table, with a warning. If they
 * end too early, the error names entity and moment; the table may then be half done.
 */
enum halay_status tft_future_take(struct halay_log *log, const struct tft_schema *schema,
                                  const struct tft_table_source *source, size_t rows, struct tft_table *table);

#endif
