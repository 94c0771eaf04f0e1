/* SPDX-License-Identifier: Apache-2.0
 *
 * The future: what files say of known inputs behind the end of a table.
 */
#ifndef HALAY_TFT_FUTURE_H
#define HALAY_TFT_FUTURE_H

#include "tft/data/table.h"

/*
 * Give the last `rows` rows of each series, which tft_table_extend has added, the known inputs that a file (or a folder
 * of them) holds for their moments. Series of which it says nothing are taken out of the table, with a warning. An
 * error that names entity and moment if it ends too early; the table may be half done then.
 */
enum halay_status tft_future_take(struct halay_log *log, const struct tft_schema *schema, const char *path, size_t rows,
                                  struct tft_table *table);

#endif
