/* SPDX-License-Identifier: Apache-2.0
 *
 * Holidays: a sorted list of days. Several names for one day are joined ("a; b") where the file is read.
 */
#include "tft/core/data/calendar.h"
#include "tft/core/data/csv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the column of that name, or the one at `otherwise`; columns if it does not exist. */
static size_t column_named(const struct tft_csv *csv, const char *name, size_t otherwise)
{
    for (size_t i = 0; i < tft_csv_columns(csv); i++)
        if (!strcmp(tft_csv_column_name(csv, i), name))
            return i;
    return otherwise;
}

static enum halay_status add_day(struct halay_log *log, json_t *document, const char *day, const char *name)
{
    const char *before = json_string_value(json_object_get(document, day));
    json_t *text = before && strcmp(before, name) ? json_sprintf("%s; %s", before, name) : json_string(name);

    if (text && !json_object_set_new(document, day, text))
        return HALAY_OK;
    return halay_fail(log, HALAY_ERR_FORMAT, "holiday '%s' cannot be kept (not UTF-8, or no memory)", day);
}

static enum halay_status read_days(struct halay_log *log, const char *path, struct tft_csv *csv, json_t *document)
{
    size_t date = column_named(csv, "date", 0), name = column_named(csv, "name", date == 0 ? 1 : 0);
    char **fields;
    int end = 0;

    for (;;) {
        int64_t time;
        enum halay_status status = tft_csv_next(csv, &fields, &end);
        if (status || end)
            return status;
        if (tft_time_parse(fields[date], "%Y-%m-%d", &time)) {
            const struct halay_error_place place = { path, tft_csv_row(csv), tft_csv_column_name(csv, date), -1, 1 };
            return halay_fail_at(log, &place, HALAY_ERR_FORMAT, "'%.64s' is not a day like 2017-12-25", fields[date]);
        }
        status = add_day(log, document, fields[date],
                         name < tft_csv_columns(csv) && *fields[name] ? fields[name] : "holiday");
        if (status)
            return status;
    }
}

enum halay_status tft_holidays_load(struct halay_log *log, const char *path, json_t **document)
{
    struct tft_csv *csv;
    json_t *object = json_object();
    enum halay_status status = tft_csv_open(log, path, NULL, 0, ',', &csv);

    if (!status) {
        status = object ? read_days(log, path, csv, object) : HALAY_ERR_NO_MEMORY;
        tft_csv_close(csv);
    }
    if (status)
        json_decref(object);
    else
        *document = object;
    return status;
}

static int compare_days(const void *a, const void *b)
{
    const struct tft_holiday *x = a, *y = b;
    return (x->day > y->day) - (x->day < y->day);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the names in place and removes duplicates; returns their number. */
static int sort_names(const char **names, size_t count)
{
    size_t n = 0;

    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (!n || strcmp(names[n - 1], names[i]))
            names[n++] = names[i];
    return (int)n;
}

enum halay_status tft_holidays_init(struct halay_log *log, const char *where, const json_t *document,
                                    struct tft_holidays *holidays)
{
    struct tft_holidays h = { .count = json_object_size(document) };
    const char **names = calloc(h.count + 1, sizeof *names), *day;
    enum halay_status status = HALAY_ERR_CONFIG;
    size_t n = 0;
    json_t *value;

    h.list = calloc(h.count + 1, sizeof *h.list);
    if (!names || !h.list) {
        halay_error(log, "no memory for holidays");
        status = HALAY_ERR_NO_MEMORY;
        goto err_free;
    }
    json_object_foreach((json_t *)document, day, value) {
        int64_t time;
        names[n++] = json_string_value(value);
        if (!names[n - 1] || tft_time_parse(day, "%Y-%m-%d", &time)) {
            halay_error(log, "%s: a holiday is like \"2017-12-25\": \"Christmas\"", where);
            goto err_free;
        }
    }
    h.names = sort_names(names, n);
    n = 0;
    json_object_foreach((json_t *)document, day, value) {
        int64_t time = 0;
        const char *name = json_string_value(value);
        const char **found = bsearch(&name, names, (size_t)h.names, sizeof *names, compare_names);
        (void)tft_time_parse(day, "%Y-%m-%d", &time); /* checked above */
        h.list[n++] = (struct tft_holiday){ .day = tft_time_day(time), .code = (int)(found - names) + 1 };
    }
    qsort(h.list, h.count, sizeof *h.list, compare_days);
    free(names);
    *holidays = h;
    return HALAY_OK;

err_free:
    free(names);
    free(h.list);
    return status;
}

void tft_holidays_fini(struct tft_holidays *holidays)
{
    free(holidays->list);
    *holidays = (struct tft_holidays){ 0 };
}

int tft_holidays_code(const struct tft_holidays *holidays, int64_t time)
{
    const struct tft_holiday key = { .day = tft_time_day(time) };
    const struct tft_holiday *found =
        holidays->count ? bsearch(&key, holidays->list, holidays->count, sizeof key, compare_days) : NULL;

    return found ? found->code : 0;
}

int64_t tft_holidays_days(const struct tft_holidays *holidays, int64_t time, enum tft_holiday_days which, int64_t most)
{
    int64_t day = tft_time_day(time), distance = most;
    size_t low = 0, high = holidays->count; /* holidays before low are before the day */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (holidays->list[middle].day < day)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < holidays->count && (which == TFT_DAYS_UNTIL || holidays->list[low].day == day))
        distance = holidays->list[low].day - day;
    else if (low && which == TFT_DAYS_SINCE)
        distance = day - holidays->list[low - 1].day;
    return distance < most ? distance : most;
}
