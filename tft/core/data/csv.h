/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV: a table in a text file, plain or gzip-compressed, read row by row in bounded memory.
 *
 * The first row holds the columns' names. Fields may be quoted ("a ""quoted"" one", separators and line ends inside it
 * are text); lines end in \n or \r\n; empty lines are skipped; a byte order mark is skipped. Every row must have as
 * many fields as the first. A compressed file whose end is missing, or whose checksum is wrong, is an error, never a
 * shorter table. Errors name file and row; rows are counted as in an editor, the header being row 1.
 */
#ifndef HALAY_TFT_CSV_H
#define HALAY_TFT_CSV_H

#include "base/log.h"
#include <stddef.h>

struct tft_csv;

/* Opens the file and reads its header. path is borrowed until close. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT (empty file, no
 * header, a column's name twice), HALAY_ERR_NO_MEMORY. */
enum halay_status tft_csv_open(struct halay_log *log, const char *path, char separator, struct tft_csv **csv);
/* The same of a text in memory, borrowed like its name until close; it is not compressed. */
enum halay_status tft_csv_open_text(struct halay_log *log, const char *name, const char *text, size_t bytes,
                                    char separator, struct tft_csv **csv);
void tft_csv_close(struct tft_csv *csv);

size_t tft_csv_columns(const struct tft_csv *csv);
const char *tft_csv_column_name(const struct tft_csv *csv, size_t column); /* borrowed until close */

/* The column whose name matches the pattern (as in a shell: *, ?, [a-z]); exactly one must, otherwise the error lists
 * the columns. */
enum halay_status tft_csv_find_column(struct tft_csv *csv, const char *pattern, size_t *column);

/* The next row: fields[column], borrowed until the next call. *end is set to 1 after the last row. */
enum halay_status tft_csv_next(struct tft_csv *csv, char ***fields, int *end);
size_t tft_csv_row(const struct tft_csv *csv); /* number of the row last read; the header is 1 */

#endif
