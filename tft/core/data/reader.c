/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader: one row after the other, of CSV (csv.c) or of columns in memory. Cleanup: zeroed first, close accepts a
 * partly initialised object.
 */
#include "base/memory.h"
#include "base/number_text.h"
#include "tft/core/data/calendar.h"
#include "tft/core/data/table_impl.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cells of a frame ---- */

static int64_t integer_of(const struct tft_frame *f, size_t column, size_t row)
{
    return ((const int64_t *)f->columns[column].values)[row];
}

int tft_reader_is_number(const struct tft_reader *r, size_t column)
{
    return r->frame &&
           (r->frame->columns[column].kind == HALAY_TFT_REALS || r->frame->columns[column].kind == HALAY_TFT_INTEGERS);
}

int tft_reader_is_time(const struct tft_reader *r, size_t column)
{
    return r->frame && r->frame->columns[column].kind == HALAY_TFT_TIMES;
}

int64_t tft_reader_time(const struct tft_reader *r, size_t column)
{
    return integer_of(r->frame, column, r->row - 1);
}

double tft_reader_number(const struct tft_reader *r, size_t column)
{
    if (r->frame->columns[column].kind == HALAY_TFT_REALS)
        return ((const double *)r->frame->columns[column].values)[r->row - 1];
    const int64_t whole = tft_reader_time(r, column);
    return whole == INT64_MIN ? NAN : (double)whole;
}

static const char *print_number(double value, char room[TFT_READER_TEXT])
{
    *room = 0;
    for (int digits = 15; digits <= 17 && !isnan(value); digits++) {
        halay_snprintf(room, TFT_READER_TEXT, "%.*g", digits, value);
        if (halay_strtod(room, NULL) == value)
            break;
    }
    return room;
}

const char *tft_reader_frame_text(const struct tft_reader *r, size_t column)
{
    const struct halay_tft_column *c = &r->frame->columns[column];
    const size_t row = r->row - 1;
    char *room = r->rooms[column];
    const char *text;
    int32_t code;

    switch (c->kind) {
    case HALAY_TFT_REALS:
        return print_number(((const double *)c->values)[row], room);
    case HALAY_TFT_INTEGERS:
    case HALAY_TFT_TIMES:
        *room = 0;
        if (tft_reader_time(r, column) == INT64_MIN)
            return room;
        if (c->kind == HALAY_TFT_TIMES)
            tft_time_print(tft_reader_time(r, column), room, TFT_READER_TEXT);
        else
            snprintf(room, TFT_READER_TEXT, "%" PRId64, tft_reader_time(r, column));
        return room;
    case HALAY_TFT_TEXTS:
        text = ((const char *const *)c->values)[row];
        return text ? text : "";
    default:
        code = ((const int32_t *)c->values)[row];
        return code < 0 ? "" : c->texts[code];
    }
}

/* ---- check of a frame ---- */

static enum halay_status check_codes(struct halay_log *log, const struct tft_frame *f, const struct halay_tft_column *c)
{
    for (size_t i = 0; i < c->text_count; i++)
        if (!c->texts || !c->texts[i]) {
            const struct halay_error_place place = { .subject = f->name, .column = c->name, .rank = -1 };
            return halay_fail_at(log, &place, HALAY_ERR_ARGUMENT, "text %zu of its codes is missing", i);
        }
    for (size_t row = 0; row < f->rows; row++) {
        int32_t code = ((const int32_t *)c->values)[row];
        if (code >= 0 && (size_t)code >= c->text_count) {
            const struct halay_error_place place = { f->name, row + 1, c->name, -1, 0 };
            return halay_fail_at(log, &place, HALAY_ERR_ARGUMENT, "%d is not a text's number from 0 to %zu", (int)code,
                                 c->text_count - 1);
        }
    }
    return HALAY_OK;
}

static enum halay_status check_times(struct halay_log *log, const struct tft_frame *f, size_t column)
{
    const int64_t begin = tft_time_from_date(1, 1, 1, 0, 0, 0), end = tft_time_from_date(10000, 1, 1, 0, 0, 0);

    for (size_t row = 0; row < f->rows; row++) {
        const int64_t time = integer_of(f, column, row);
        if (time == INT64_MIN || (time >= begin && time < end))
            continue;
        const struct halay_error_place place = { f->name, row + 1, f->columns[column].name, -1, 0 };
        return halay_fail_at(log, &place, HALAY_ERR_ARGUMENT,
                             "%" PRId64 " is not a time in seconds since 1970, of the years 1 to 9999", time);
    }
    return HALAY_OK;
}

/* Checks names, kinds and codes, which do not depend on a row. */
static enum halay_status check_frame(struct halay_log *log, const struct tft_frame *f)
{
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < f->column_count && !status; i++) {
        const struct halay_tft_column *c = &f->columns[i];
        if (!c->name || (!c->values && f->rows) || (unsigned)c->kind > HALAY_TFT_TIMES)
            return halay_fail(log, HALAY_ERR_ARGUMENT,
                              "%s: column %zu has no name, no values or no kind that this version knows", f->name, i);
        for (size_t k = 0; k < i; k++)
            if (!strcmp(c->name, f->columns[k].name))
                return halay_fail(log, HALAY_ERR_ARGUMENT, "%s has column '%s' twice", f->name, c->name);
        if (c->kind == HALAY_TFT_CODES)
            status = check_codes(log, f, c);
        if (c->kind == HALAY_TFT_TIMES)
            status = check_times(log, f, i);
    }
    return status;
}

/* ---- the reader ---- */

enum halay_status tft_reader_open(struct halay_log *log, const struct tft_table_source *source, const char *name,
                                  char separator, struct tft_reader *reader)
{
    struct tft_reader *r = reader;
    enum halay_status status;

    *r = (struct tft_reader){ .log = log, .name = name, .frame = source->frame };
    if (!r->frame) {
        status = tft_csv_open(log, name, source->text.bytes, source->text.count, separator, &r->csv);
        r->column_count = status ? 0 : tft_csv_columns(r->csv);
        r->row = 1;
        return status;
    }
    if ((status = check_frame(log, r->frame)))
        return status;
    r->column_count = r->frame->column_count;
    r->rooms = calloc(r->column_count + 1, sizeof *r->rooms);
    return r->rooms ? HALAY_OK : halay_no_memory(log, "for the table");
}

void tft_reader_close(struct tft_reader *reader)
{
    tft_csv_close(reader->csv);
    free(reader->rooms);
    *reader = (struct tft_reader){ 0 };
}

const char *tft_reader_column(const struct tft_reader *r, size_t column)
{
    return r->frame ? r->frame->columns[column].name : tft_csv_column_name(r->csv, column);
}

size_t tft_reader_column_named(const struct tft_reader *r, const char *name)
{
    size_t i = 0;

    while (i < r->column_count && (!name || strcmp(tft_reader_column(r, i), name)))
        i++;
    return i;
}

enum halay_status tft_reader_find_column(const struct tft_reader *r, const char *pattern, size_t *column)
{
    const size_t same = tft_reader_column_named(r, pattern);
    size_t matches = 0, found = same, used = 0;
    char list[512] = "";

    for (size_t i = 0; i < r->column_count && same == r->column_count; i++, used = strlen(list)) {
        snprintf(list + used, sizeof list - used, "%s'%s'", i ? ", " : "", tft_reader_column(r, i));
        if (fnmatch(pattern, tft_reader_column(r, i), 0))
            continue;
        matches++;
        found = i;
    }
    if (same == r->column_count && matches != 1)
        return halay_fail(r->log, HALAY_ERR_FORMAT, "%s%s%s has %s column '%s' (its columns: %s)",
                          r->frame ? "" : "file '", r->name, r->frame ? "" : "'", matches ? "more than one" : "no",
                          pattern, list);
    *column = found;
    return HALAY_OK;
}

struct halay_error_place tft_reader_place(const struct tft_reader *r, const char *column)
{
    return (struct halay_error_place){ r->name, r->row, column, -1, !r->frame };
}

enum halay_status tft_reader_next(struct tft_reader *r, int *end)
{
    if (r->csv) {
        enum halay_status status = tft_csv_next(r->csv, &r->fields, end);
        r->row = tft_csv_row(r->csv);
        return status;
    }
    *end = r->row == r->frame->rows;
    r->row += !*end;
    return HALAY_OK;
}
