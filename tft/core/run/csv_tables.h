/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows as CSV: RUN/steps.csv and RUN/evaluations.csv, with a heading: step, seconds since 1970, then the row's names.
 */
#ifndef HALAY_TFT_CSV_TABLES_H
#define HALAY_TFT_CSV_TABLES_H

#include "base/log.h"
#include "tft/core/run/row.h"
#include <stdio.h>

struct tft_csv_tables {
    struct halay_log *log; /* borrowed */
    FILE *files[TFT_ROW_TABLES];
};

/* last: the last step whose rows stay, of each table (lines.h). On error fini still has to be called. */
enum halay_status tft_csv_tables_init(struct halay_log *log, const char *folder, const uint64_t last[TFT_ROW_TABLES],
                                      struct tft_csv_tables *tables);
enum halay_status tft_csv_tables_add(struct tft_csv_tables *tables, const struct tft_row *row);
void tft_csv_tables_fini(struct tft_csv_tables *tables);

#endif
