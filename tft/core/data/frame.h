/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame: a table's columns in memory, as a program has them, read in place of files.
 */
#ifndef HALAY_TFT_FRAME_H
#define HALAY_TFT_FRAME_H

#include "base/log.h"
#include "halay_tft.h"

/* All borrowed while the frame is read. */
struct tft_frame {
    const char *name; /* for messages: "table" */
    const struct halay_tft_column *columns;
    size_t column_count, rows;
    int times_are_utc;
};

/* The column whose name is the pattern or, if none is, matches it (as in a shell); exactly one must, otherwise the
 * error lists the columns. */
enum halay_status tft_frame_find_column(struct halay_log *log, const struct tft_frame *frame, const char *pattern,
                                        size_t *column);

/* Does a column hold numbers? */
static inline int tft_frame_is_number(const struct tft_frame *frame, size_t column)
{
    return frame->columns[column].kind == HALAY_TFT_REALS || frame->columns[column].kind == HALAY_TFT_INTEGERS;
}

/* A cell of a column of numbers; NAN: no value. */
double tft_frame_number(const struct tft_frame *frame, size_t column, size_t row);
/* A cell of HALAY_TFT_INTEGERS or HALAY_TFT_TIMES; INT64_MIN: no value. */
static inline int64_t tft_frame_integer(const struct tft_frame *frame, size_t column, size_t row)
{
    return ((const int64_t *)frame->columns[column].values)[row];
}

/* A cell as a file would have it: a number in the shortest form that is this number, "" for no value. Borrowed from the
 * frame, or in `room`. */
enum { TFT_FRAME_TEXT = 32 };
const char *tft_frame_text(const struct tft_frame *frame, size_t column, size_t row, char room[TFT_FRAME_TEXT]);

/* Check what no row says: names, kinds, codes. HALAY_ERR_ARGUMENT (logged). */
enum halay_status tft_frame_check(struct halay_log *log, const struct tft_frame *frame);

#endif
