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

/* Opens the file or, unless it is NULL, the text of that name, and reads the header. Both are borrowed until close; a
 * text is not compressed. HALAY_ERR_SYSTEM, HALAY_ERR_FORMAT (empty file, no header, a column's name twice),
 * HALAY_ERR_NO_MEMORY. */
enum halay_status tft_csv_open(struct halay_log *log, const char *path, const char *text, size_t bytes, char separator,
                               struct tft_csv **csv);
void tft_csv_close(struct tft_csv *csv);

size_t tft_csv_columns(const struct tft_csv *csv);
const char *tft_csv_column_name(const struct tft_csv *csv, size_t column); /* borrowed until close */

/* Reads the next row: fields[column], borrowed until the next call. *end is set to 1 after the last row. */
enum halay_status tft_csv_next(struct tft_csv *csv, char ***fields, int *end);
size_t tft_csv_row(const struct tft_csv *csv); /* number of the row last read; the header is 1 */

/* Inflate: the bytes of a file, plain or gzip-compressed, read ahead of their reader.
 *
 * A file of more than one block is read and inflated on a separate thread, at most eight blocks (1 MiB) ahead; a
 * smaller one by the reader. Bytes and errors are the same either way. A text in memory is read in the same way but
 * never inflated: its sender could make it expand without limit. */

#define TFT_INFLATE_BLOCK ((size_t)1 << 17)

struct tft_inflate;

/* Opens a file or, unless it is NULL, a text in memory; both are borrowed until close. HALAY_ERR_SYSTEM,
 * HALAY_ERR_FORMAT (the name ends in .gz, and it is not compressed), HALAY_ERR_NO_MEMORY; all are logged. */
enum halay_status tft_inflate_open(struct halay_log *log, const char *path, const char *text, size_t bytes,
                                   struct tft_inflate **inflate);
/* Ends the thread in any state; NULL is allowed. */
void tft_inflate_close(struct tft_inflate *inflate);

/* Reads the next bytes, at most TFT_INFLATE_BLOCK: *got of them, 0 at the end. Blocks until the thread has read a
 * block. A compressed file whose end is missing, or whose checksum is wrong, is an error (HALAY_ERR_FORMAT), never a
 * shorter file. */
enum halay_status tft_inflate_read(struct tft_inflate *inflate, char *to, size_t *got);

/* Numbers in texts. */

/* Parses a decimal number with nothing but blanks around it; the value equals that of strtod bit for bit; infinite if
 * it is too large. decimal is '.' or ','. Returns 0 if the text is not a number. */
int tft_number_parse(const char *text, char decimal, double *value);

/* Returns nonzero if the text is one that programs write for a missing number: empty, or one of those that
 * pandas.read_csv accepts, with nothing but blanks around it. */
int tft_number_is_missing(const char *text);

#endif
