/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame: cells of columns in memory, as numbers and as texts.
 */
#include "base/number_text.h"
#include "tft/core/data/calendar.h"
#include "tft/core/data/table.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum halay_status tft_frame_find_column(struct halay_log *log, const struct tft_frame *f, const char *pattern,
                                        size_t *column)
{
    size_t matches = 0, found = 0;
    char list[512] = "";

    for (size_t i = 0; i < f->column_count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s'%s'", i ? ", " : "", f->columns[i].name);
        if (!strcmp(pattern, f->columns[i].name)) {
            *column = i;
            return HALAY_OK;
        }
        if (!fnmatch(pattern, f->columns[i].name, 0)) {
            matches++;
            found = i;
        }
    }
    if (matches == 1) {
        *column = found;
        return HALAY_OK;
    }
    return halay_fail(log, HALAY_ERR_FORMAT, "%s has %s column '%s' (its columns: %s)", f->name,
                      matches ? "more than one" : "no", pattern, list);
}

double tft_frame_number(const struct tft_frame *f, size_t column, size_t row)
{
    if (f->columns[column].kind == HALAY_TFT_REALS)
        return ((const double *)f->columns[column].values)[row];
    const int64_t whole = tft_frame_integer(f, column, row);
    return whole == INT64_MIN ? NAN : (double)whole;
}

static const char *print_number(double value, char room[TFT_FRAME_TEXT])
{
    *room = 0;
    for (int digits = 15; digits <= 17 && !isnan(value); digits++) {
        halay_snprintf(room, TFT_FRAME_TEXT, "%.*g", digits, value);
        if (halay_strtod(room, NULL) == value)
            break;
    }
    return room;
}

const char *tft_frame_text(const struct tft_frame *f, size_t column, size_t row, char room[TFT_FRAME_TEXT])
{
    const struct halay_tft_column *c = &f->columns[column];
    const char *text;
    int32_t code;

    switch (c->kind) {
    case HALAY_TFT_REALS:
        return print_number(((const double *)c->values)[row], room);
    case HALAY_TFT_INTEGERS:
        *room = 0;
        if (tft_frame_integer(f, column, row) != INT64_MIN)
            snprintf(room, TFT_FRAME_TEXT, "%" PRId64, tft_frame_integer(f, column, row));
        return room;
    case HALAY_TFT_TIMES:
        *room = 0;
        if (tft_frame_integer(f, column, row) != INT64_MIN)
            tft_time_print(tft_frame_integer(f, column, row), room, TFT_FRAME_TEXT);
        return room;
    case HALAY_TFT_TEXTS:
        text = ((const char *const *)c->values)[row];
        return text ? text : "";
    default:
        code = ((const int32_t *)c->values)[row];
        return code < 0 ? "" : c->texts[code];
    }
}

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
        const int64_t time = tft_frame_integer(f, column, row);
        if (time == INT64_MIN || (time >= begin && time < end))
            continue;
        const struct halay_error_place place = { f->name, row + 1, f->columns[column].name, -1, 0 };
        return halay_fail_at(log, &place, HALAY_ERR_ARGUMENT,
                             "%" PRId64 " is not a time in seconds since 1970, of the years 1 to 9999", time);
    }
    return HALAY_OK;
}

enum halay_status tft_frame_check(struct halay_log *log, const struct tft_frame *f)
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
