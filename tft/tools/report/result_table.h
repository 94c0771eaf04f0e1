/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of results, by the columns of columns.def. A table is named "kind.table"; its rows are an array of JSON
 * objects, borrowed. What memory is short for is left out. None looks at the stream's errors: its owner does, at the
 * end.
 */
#ifndef HALAY_TFT_RESULT_TABLE_H
#define HALAY_TFT_RESULT_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* Sorts by the member "order", a number, ascending; rows without it are last. */
void tft_rows_sort(json_t *rows);

/* Prints the first count_max rows, and how many are left out, under headings if any column has one. */
void tft_table_print(FILE *to, const char *table, const json_t *rows, size_t count_max);
void tft_table_write_csv(FILE *to, const char *table, const json_t *rows);
/* Returns the columns of the CSV, with all digits: {"columns": [name, ...], "rows": [[value, ...], ...]}. */
json_t *tft_table_json(const char *table, const json_t *rows);
/* Returns the columns of the page, with texts for values. */
json_t *tft_table_page(const char *table, const json_t *rows);

#endif
