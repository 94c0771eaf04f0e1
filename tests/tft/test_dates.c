/* SPDX-License-Identifier: Apache-2.0
 *
 * Times as people write them, and steps as their rows have them: from a table of stamps and frequencies, what the
 * preset makes of each, and which error names what no step or format can be right for. Rows that are wrong are named:
 * one date of another century, one row off the grid, a time with an offset among times without, a series of another
 * step; and a table most of whose rows would be made up is refused.
 */
#include "tests/tft/files.h"
#include "tft/core/data/calendar.h"
#include "tft/core/data/table.h"
#include <math.h>

enum { ROWS = 400 };

static char warnings[2000];

static void record_warning(void *arg, enum halay_log_level level, const char *line)
{
    size_t used = strlen(warnings);

    (void)arg;
    (void)level;
    snprintf(warnings + used, sizeof warnings - used, "%s\n", line);
}

/* ---- stamps ---- */

enum stamp {
    ISO,
    ISO_DAY,
    ISO_MONTH,
    SLASHES,
    SLASHES_TIME,
    SLASHES_MONTH,
    T_Z,
    DAY_NUMBER,
    MONTH_NUMBER,
    HOUR_NUMBER,
    MINUTE_NUMBER,
    SECOND_NUMBER,
    YEAR_DAY,
    SHORT_DAY,
    WEEK_NUMBER,
    QUARTER_NUMBER,
    EPOCH,
    EPOCH_MS,
    EPOCH_US,
    EPOCH_NS,
    YEAR,
    COUNT,
    AMERICAN,
    EUROPEAN,
    DOTS_TIME,
    QUARTER,
    QUARTER_FIRST,
    ISO_WEEK,
    MONTH_NAME,
    DAY_NAME,
};

static void print_number(enum stamp stamp, int64_t time, const struct tft_date *d, char *text, size_t size)
{
    const long long day = d->year * 10000LL + d->month * 100 + d->day;

    switch (stamp) {
    case MONTH_NUMBER:
        snprintf(text, size, "%lld", day / 100);
        break;
    case HOUR_NUMBER:
        snprintf(text, size, "%lld%02d", day, d->hour);
        break;
    case MINUTE_NUMBER:
        snprintf(text, size, "%lld%02d%02d", day, d->hour, d->minute);
        break;
    case SECOND_NUMBER:
        snprintf(text, size, "%lld%02d%02d%02d", day, d->hour, d->minute, d->second);
        break;
    case YEAR_DAY:
        snprintf(text, size, "%d%03d", d->year, d->day_of_year);
        break;
    case SHORT_DAY:
        snprintf(text, size, "%06lld", day % 1000000);
        break;
    case WEEK_NUMBER:
        snprintf(text, size, "%d%02d", d->year, d->week);
        break;
    case QUARTER_NUMBER:
        snprintf(text, size, "%d%d", d->year, (d->month + 2) / 3);
        break;
    case YEAR:
        snprintf(text, size, "%d", d->year);
        break;
    case DAY_NUMBER:
        snprintf(text, size, "%lld", day);
        break;
    default:
        snprintf(text, size, "%lld%s", (long long)time,
                 stamp == EPOCH_MS   ? "000"
                 : stamp == EPOCH_US ? "000000"
                 : stamp == EPOCH_NS ? "000000000"
                                     : "");
    }
}

/* Quarters, weeks that begin on time, and names of months; returns 0 if the stamp is none of them. */
static int print_named(enum stamp stamp, int64_t time, const struct tft_date *d, char *text, size_t size)
{
    static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "June",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "December" };
    struct tft_date thursday;

    tft_time_to_date(time + 3 * 86400, &thursday);
    switch (stamp) {
    case QUARTER:
        snprintf(text, size, "%dQ%d", d->year, (d->month + 2) / 3);
        break;
    case QUARTER_FIRST:
        snprintf(text, size, "Q%d %d", (d->month + 2) / 3, d->year);
        break;
    case ISO_WEEK:
        snprintf(text, size, "%d-W%02d", thursday.year, d->week);
        break;
    case MONTH_NAME:
        snprintf(text, size, "%s %d", months[d->month - 1], d->year);
        break;
    case DAY_NAME:
        snprintf(text, size, "%d-%s-%d", d->day, months[d->month - 1], d->year);
        break;
    default:
        return 0;
    }
    return 1;
}

static void print_stamp(enum stamp stamp, int64_t time, char *text, size_t size)
{
    struct tft_date d;

    tft_time_to_date(time, &d);
    switch (stamp) {
    case ISO:
        tft_time_print(time, text, size);
        break;
    case ISO_DAY:
        snprintf(text, size, "%04d-%02d-%02d", d.year, d.month, d.day);
        break;
    case ISO_MONTH:
        snprintf(text, size, "%04d-%02d", d.year, d.month);
        break;
    case SLASHES:
        snprintf(text, size, "%04d/%02d/%02d", d.year, d.month, d.day);
        break;
    case SLASHES_TIME:
        snprintf(text, size, "%04d/%02d/%02d %02d:%02d", d.year, d.month, d.day, d.hour, d.minute);
        break;
    case SLASHES_MONTH:
        snprintf(text, size, "%04d/%02d", d.year, d.month);
        break;
    case T_Z:
        snprintf(text, size, "%04d-%02d-%02dT%02d:%02d:%02dZ", d.year, d.month, d.day, d.hour, d.minute, d.second);
        break;
    case AMERICAN:
        snprintf(text, size, "%02d/%02d/%04d", d.month, d.day, d.year);
        break;
    case EUROPEAN:
        snprintf(text, size, "%02d.%02d.%02d", d.day, d.month, d.year % 100);
        break;
    case DOTS_TIME:
        snprintf(text, size, "%02d.%02d.%04d %02d:%02d", d.day, d.month, d.year, d.hour, d.minute);
        break;
    default:
        if (!print_named(stamp, time, &d, text, size))
            print_number(stamp, time, &d, text, size);
    }
}

/* ---- files ---- */

struct file {
    char *text;
    size_t used, size;
};

static void add(struct file *f, const char *id, const char *time, double y)
{
    if (f->used + 200 > f->size) {
        f->size = 2 * f->size + 4096;
        f->text = realloc(f->text, f->size);
        REQUIRE(f->text);
    }
    if (!f->used)
        f->used = (size_t)sprintf(f->text, "unique_id,ds,y\n");
    f->used += (size_t)sprintf(f->text + f->used, "%s,%s,%.12g\n", id, time, y);
}

/* A series of rows from a moment on, without every `skip`-th one where skip is above 0. */
static void add_series(struct file *f, const char *id, enum stamp stamp, const char *every, int64_t start, int skip)
{
    struct tft_period step;
    char text[64];

    REQUIRE(!tft_period_parse(every, &step));
    for (int i = 0; i < ROWS; i++)
        if (!skip || i % skip != skip - 1) {
            print_stamp(stamp, tft_period_add(&step, start, i), text, sizeof text);
            add(f, id, text, i % 7);
        }
}

/* Reads what is in the file, as `prepare` does; frees it. schema: NULL, or what differs from the preset. */
static enum halay_status read_file(struct file *f, const char *schema_text, char *every, char *format,
                                   struct tft_table *table)
{
    const char *path = write_text("rows.csv", f->text);
    const struct tft_schema_source given = { .text = schema_text };
    const struct tft_table_source tables = { .paths = &path, .path_count = 1 };
    const struct tft_preset preset = { .encoder = 4, .horizon = 2 };
    struct tft_schema schema;
    int found;
    enum halay_status status = tft_preset_read(&test_log, &given, &tables, &preset, &schema, &found);

    free(f->text);
    *f = (struct file){ 0 };
    if (status)
        return status;
    const char *text = json_string_value(json_object_get(schema.document, "every"));
    const char *read_by = json_string_value(json_object_get(json_object_get(schema.document, "time"), "format"));
    snprintf(every, 32, "%s", text ? text : "");
    snprintf(format, 32, "%s", read_by ? read_by : "");
    status = tft_table_read(&test_log, &schema, &path, 1, table);
    if (!status && (status = tft_row_gaps_check(&test_log, &schema, table, 1)))
        tft_table_fini(table);
    tft_schema_fini(&schema);
    return status;
}

static int refuses_with(struct file *f, const char *schema_text, const char *error)
{
    char every[32], format[32];
    struct tft_table table;
    enum halay_status status = read_file(f, schema_text, every, format, &table);

    if (status)
        return error_says(error);
    tft_table_fini(&table);
    return 0;
}

/* ---- what is read ---- */

/* error: NULL, or what it says instead. */
static const struct {
    enum stamp stamp;
    const char *step; /* of the rows */
    int month_day;
    const char *every, *format, *error;
} cases[] = {
    { ISO, "1s", 1, "1s", "", NULL },
    { ISO, "7s", 1, "7s", "", NULL },
    { ISO, "1min", 1, "1min", "", NULL },
    { ISO, "15min", 1, "15min", "", NULL },
    { ISO, "1h", 1, "1h", "", NULL },
    { ISO, "6h", 1, "6h", "", NULL },
    { T_Z, "1h", 1, "1h", "", NULL },
    { ISO_DAY, "1d", 1, "1d", "", NULL },
    { ISO_DAY, "1B", 2, "1B", "", NULL },
    { ISO, "1h 08:00-16:00", 2, "1h 08:00-16:00", "", NULL },
    { ISO, "30min 09:30-16:00 B", 2, "30min 09:30-16:00 B", "", NULL },
    { ISO, "1h 06:05-23:05", 2, "1h 06:05-23:05", "", NULL },
    { T_Z, "2h 00:00-16:00", 2, "2h 00:00-16:00", "", NULL },
    { EPOCH, "1h 08:00-16:00 B", 2, "1h 08:00-16:00 B", "%s", NULL },
    { ISO_DAY, "1w", 3, "1w", "", NULL },
    { ISO_DAY, "4w", 3, "4w", "", NULL },
    { ISO_DAY, "30d", 3, "30d", "", NULL },
    { ISO_DAY, "1M", 1, "1M", "", NULL },
    { ISO_DAY, "1M", 15, "1M", "", NULL },
    { ISO_DAY, "1M", 31, "1M", "", NULL },
    { ISO_DAY, "1M", 30, "1M", "", NULL },
    { ISO_DAY, "3M", 31, "3M", "", NULL },
    { ISO_DAY, "12M", 1, "12M", "", NULL },
    { ISO_MONTH, "1M", 1, "1M", "", NULL },
    { SLASHES, "1d", 1, "1d", "", NULL },
    { SLASHES_TIME, "1h", 1, "1h", "", NULL },
    { SLASHES_MONTH, "1M", 1, "1M", "", NULL },
    { QUARTER, "3M", 1, "3M", "", NULL },
    { QUARTER_FIRST, "3M", 1, "3M", "", NULL },
    { ISO_WEEK, "1w", 7, "1w", "", NULL },
    { MONTH_NAME, "1M", 1, "1M", "", NULL },
    { DAY_NAME, "1d", 1, "1d", "", NULL },
    { DAY_NUMBER, "1d", 1, "1d", "%Y%m%d", NULL },
    { DAY_NUMBER, "1B", 2, "1B", "%Y%m%d", NULL },
    { DAY_NUMBER, "1w", 1, "1w", "%Y%m%d", NULL },
    { DAY_NUMBER, "1M", 31, "1M", "%Y%m%d", NULL },
    { MONTH_NUMBER, "1M", 1, "1M", "%Y%m", NULL },
    { MONTH_NUMBER, "3M", 1, "3M", "%Y%m", NULL },
    { HOUR_NUMBER, "1h", 1, "1h", "%Y%m%d%H", NULL },
    { MINUTE_NUMBER, "5min", 1, "5min", "%Y%m%d%H%M", NULL },
    { SECOND_NUMBER, "10s", 1, "10s", "%Y%m%d%H%M%S", NULL },
    { YEAR_DAY, "1d", 1, "1d", "%Y%j", NULL },
    { SHORT_DAY, "1d", 1, "1d", "%y%m%d", NULL },
    { EPOCH, "1h", 1, "1h", "%s", NULL },
    { EPOCH, "10s", 1, "10s", "%s", NULL },
    { EPOCH, "2s", 1, "2s", "%s", NULL },
    { EPOCH, "1s", 1, "1", "", NULL }, /* or counts: that is warned of */
    { EPOCH_MS, "1h", 1, "", "", "look like milliseconds since 1970" },
    { EPOCH_US, "1h", 1, "", "",
      "look like microseconds since 1970 like 1706706300000000, which no format reads; write" },
    { EPOCH_NS, "1h", 1, "", "", "look like nanoseconds since 1970 like 1706706300000000000, which no format reads" },
    { EPOCH_NS, "1s", 1, "", "", "write seconds since 1970, or times like 2017-08-01 01:00:00" },
    { WEEK_NUMBER, "1w", 3, "", "", "look like weeks of years like 202405" },
    { QUARTER_NUMBER, "3M", 1, "", "", "look like quarters like 20241" },
    { YEAR, "12M", 1, "1", "", NULL },
    { AMERICAN, "1d", 1, "", "",
      "'01/01/2019' is not a time like 2017-08-01 01:00:00 (set 'format': \"%d/%m/%Y\" if "
      "the day is first, \"%m/%d/%Y\" if the month is)" },
    { AMERICAN, "1d", 20, "", "", "(set 'format', here \"%m/%d/%Y\")" },
    { EUROPEAN, "1d", 20, "", "", "(set 'format', here \"%d.%m.%y\")" },
    { DOTS_TIME, "1h", 31, "", "", "(set 'format', here \"%d.%m.%Y %H:%M\")" },
};

/* Quarters, weeks and names of months, each in all of its forms, and what is none. */
static void names_of_days(void)
{
    static const struct {
        const char *text, *day; /* NULL: there is none */
    } texts[] = {
        { "2000Q1", "2000-01-01" },
        { "2000-Q4", "2000-10-01" },
        { "2000 q2", "2000-04-01" },
        { "Q3-2000", "2000-07-01" },
        { "2000Q5", NULL },
        { "2000Q0", NULL },
        { "Q1 00", NULL },
        { "2000Q11", NULL },
        { "2018-W01", "2018-01-01" },
        { "2021-W01", "2021-01-04" },
        { "2020W53", "2020-12-28" },
        { "2020-W53-7", "2021-01-03" },
        { "2019-W01-1", "2018-12-31" },
        { "2021-W53", NULL },
        { "2018-W00", NULL },
        { "2018-W01-8", NULL },
        { "2018-W1", NULL },
        { "Jan 2010", "2010-01-01" },
        { "OCT-2010", "2010-10-01" },
        { "2010 march", "2010-03-01" },
        { "2010-Jan", "2010-01-01" },
        { "15 Jan 2010", "2010-01-15" },
        { "15-Jan-2010", "2010-01-15" },
        { "2010-Jan-15", "2010-01-15" },
        { "Jan 5, 2010", "2010-01-05" },
        { "Jan 5 2010", "2010-01-05" },
        { "30 Feb 2010", NULL },
        { "Jan 10", NULL },
        { "Jan-10", NULL },
        { "15 Jan", NULL },
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t time, day = 0;
        const int is_time = !tft_time_parse(texts[i].text, NULL, &time);
        REQUIRE(!texts[i].day || !tft_time_parse(texts[i].day, "%F", &day));
        CHECK(is_time == (texts[i].day != NULL) && (!is_time || time == day) && !tft_time_is_moved(texts[i].text), "%s",
              texts[i].text);
    }
}

static void stamps(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f = { 0 };
        struct tft_table t;
        char every[32], format[32];
        int64_t start = tft_time_from_date(2019, 1, cases[i].month_day, 0, 0, 0);

        add_series(&f, "a", cases[i].stamp, cases[i].step, start, 0);
        add_series(&f, "b", cases[i].stamp, cases[i].step, start, 5);
        enum halay_status status = read_file(&f, NULL, every, format, &t);
        if (cases[i].error) {
            CHECK(status && error_says(cases[i].error), "case %zu: status %d", i, (int)status);
            continue;
        }
        CHECK(!status && !strcmp(every, cases[i].every) && !strcmp(format, cases[i].format),
              "case %zu: status %d, every '%s', format '%s'", i, (int)status, status ? "" : every, format);
        if (status)
            continue;
        CHECK(t.series_count == 2 && t.series[0].rows == ROWS && t.summary.rows_missing == ROWS / 5 - 1,
              "case %zu: %zu rows, %zu missing", i, t.series[0].rows, t.summary.rows_missing);
        tft_table_fini(&t);
    }
}

/* Counts stay counts, whatever they begin with, and where the schema says so. */
static void counts(void)
{
    static const int64_t starts[] = { 0,        1,       101,      1950,       19990,      202401,    240101,
                                      20240101, 2024001, 99999999, 1000000000, 1700000000, 4200000000 };
    char every[32], format[32], text[32];
    struct tft_table t;

    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
        struct file f = { 0 };
        for (int i = 0; i < ROWS; i++) {
            snprintf(text, sizeof text, "%lld", (long long)(starts[k] + i));
            add(&f, "a", text, i);
        }
        enum halay_status status = read_file(&f, NULL, every, format, &t);
        CHECK(!status && !strcmp(every, "1") && !*format, "from %lld: %d", (long long)starts[k], (int)status);
        if (!status)
            tft_table_fini(&t);
    }
    int64_t most;
    CHECK(tft_time_read_digits("-4611686018427387899", &most) && most == -4611686018427387899);
    CHECK(!tft_time_read_digits("4611686018427387900", &most) && !tft_time_read_digits("-9000000000000000000", &most),
          "the difference of two is an int64_t");
    struct file f = { 0 };
    test_log.write = record_warning;
    add_series(&f, "a", EPOCH, "1s", 1700000000, 0);
    CHECK(!read_file(&f, NULL, every, format, &t) && strstr(warnings, "if they are seconds since 1970, set 'format"));
    tft_table_fini(&t);
    add_series(&f, "a", EPOCH, "1s", 1700000000, 0);
    CHECK(!read_file(&f, "preset: long\ntime: {column: ds, format: \"%s\"}\n", every, format, &t) &&
          !strcmp(every, "1s"));
    tft_table_fini(&t);
    add_series(&f, "a", EPOCH, "1h", 1700000000, 0);
    CHECK(!read_file(&f, NULL, every, format, &t) && strstr(warnings, "if they are counts, set 'integer: true'"));
    tft_table_fini(&t);
    test_log.write = ignore_line;
    add_series(&f, "a", DAY_NUMBER, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    CHECK(refuses_with(&f, "preset: long\ntime: {column: ds, integer: true}\n", "rows would be added to the 400"));
    add_series(&f, "a", DOTS_TIME, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    CHECK(!read_file(&f, "preset: long\ntime: {column: ds, format: \"%d.%m.%Y %H:%M\"}\n", every, format, &t) &&
          !strcmp(every, "1d"));
    tft_table_fini(&t);
    add_series(&f, "a", DAY_NUMBER, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    add(&f, "a", "20190231", 1);
    CHECK(refuses_with(&f, NULL,
                       "row 402: column 'ds' has whole numbers that look like dates like 20240131, but this "
                       "one, 20190231, does not"));
}

/* ---- rows that are wrong ---- */

/* One row of a series of days has another time. Whatever that is, the step stays, and the row is named. */
static void wrong_rows(void)
{
    static const struct {
        const char *time, *error;
    } wrong[] = {
        { "2204-05-01", "'a' has no row between 2020-02-04 00:00:00 and 2204-05-01 00:00:00, where 67290 steps of 1d" },
        { "1970-01-01", "'a' has no row between 1970-01-01 00:00:00 and 2019-01-01 00:00:00, where 17896 steps of 1d" },
        { "0001-01-01", "between 0001-01-01 00:00:00 and 2019-01-01" },
        { "2019-06-01 00:30:00", "row 402: 2019-06-01 00:30:00 is not a whole number of steps after" },
        { "2018-12-31 23:00:00", "row 402: 2018-12-31 23:00:00 is not a whole number of steps before" },
        { "2019-06-01 00:00:00+02:00", "row 402, column 'ds': '2019-06-01 00:00:00+02:00' has an offset from UTC" },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct file f = { 0 };
        add_series(&f, "a", ISO_DAY, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
        add(&f, "a", wrong[i].time, 1);
        add_series(&f, "b", ISO_DAY, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
        CHECK(refuses_with(&f, NULL, wrong[i].error), "'%s'", wrong[i].time);
    }
    struct file f = { 0 };
    struct tft_table t;
    char every[32], format[32];
    add_series(&f, "a", T_Z, "1h", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    add(&f, "a", "2020-01-01 00:00:00", 1);
    CHECK(refuses_with(&f, NULL, "row 402, column 'ds': '2020-01-01 00:00:00' has no offset from UTC"));
    add_series(&f, "a", ISO_DAY, "1B", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    add(&f, "a", "2019-01-05", 1);
    CHECK(refuses_with(&f, NULL,
                       "row 402: 2019-01-05 00:00:00 is not a whole number of steps after the first moment "
                       "of 'a', 2019-01-01 00:00:00; it is on a weekend, which business days leave out: set "
                       "'every: 1d' in the schema"));
    add_series(&f, "a", ISO_DAY, "1B", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    add(&f, "a", "2019-01-05", 1);
    CHECK(!read_file(&f, "preset: long\nevery: 1d\n", every, format, &t) && !strcmp(every, "1d"));
    tft_table_fini(&t);
    add_series(&f, "a", ISO_DAY, "1B", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    add(&f, "a", "2019-01-08 12:00", 1);
    CHECK(refuses_with(&f, NULL, "'resample' combines rows of a step"));
}

/* At night, on a Saturday, between two steps of hours of days; unless the schema says otherwise. */
static void outside_hours(void)
{
    struct tft_table t;
    char every[32], format[32];
    struct file f = { 0 };

    static const char *const outside[] = { "2019-01-08 22:00:00", "2019-01-12 12:00:00", "2019-01-08 12:30:00" };
    for (size_t i = 0; i <= 3; i++) {
        add_series(&f, "a", ISO, "1h 08:00-16:00 B", tft_time_from_date(2019, 1, 1, 8, 0, 0), 0);
        add(&f, "a", outside[i % 3], 1);
        if (i == 3) {
            CHECK(!read_file(&f, "preset: long\nevery: 1h\ngaps: fill\n", every, format, &t) && !strcmp(every, "1h"));
            tft_table_fini(&t);
            break;
        }
        char error[200];
        snprintf(error, sizeof error,
                 "row 402: %s is not a whole number of steps after the first moment of 'a', 2019-01-01 08:00:00; the "
                 "hours of 'every' leave it out",
                 outside[i]);
        CHECK(refuses_with(&f, NULL, error), "'%s'", outside[i]);
    }
    add_series(&f, "a", ISO, "1h 08:00-16:00", tft_time_from_date(2019, 1, 1, 8, 0, 0), 0);
    CHECK(refuses_with(&f, "preset: long\nevery: 1h 08:00-16:00\nzone: Europe/Berlin\n",
                       "a step without hours of the day where there is a zone"));
    add_series(&f, "a", ISO, "1h 08:00-16:00", tft_time_from_date(2019, 1, 1, 8, 0, 0), 0);
    CHECK(!read_file(&f, "preset: long\nzone: Europe/Berlin\n", every, format, &t) && !strcmp(every, "1h"));
    tft_table_fini(&t);
}

/* The one row of another series is far from the rest, and would move the splits. */
static void lonely_rows(void)
{
    static const struct {
        enum stamp stamp;
        const char *every, *time, *error; /* NULL: it is not refused */
    } lonely[] = {
        { ISO_DAY, "1d", "2204-05-01",
          "'b' has a row at 2204-05-01 00:00:00, and the last of all others is at 2020-02-04" },
        { ISO_DAY, "1d", "1970-01-01",
          "'b' has a row at 1970-01-01 00:00:00, and the first of all others is at 2019-01-01" },
        { ISO, "1h", "2019-03-01 00:00:00", "'b' has a row at 2019-03-01 00:00:00, and the last" },
        { ISO_DAY, "1M", "2204-05-01", "'b' has a row at 2204-05-01" },
        { ISO_DAY, "1B", "2024-05-01", "'b' has a row at 2024-05-01" },
        { COUNT, "1", "9999999999", "'b' has a row at 9999999999, and the last of all others is at " },
        { ISO_DAY, "1d", "2020-02-20", NULL },
        { ISO_DAY, "1d", "2018-12-24", NULL },
        { ISO_DAY, "1d", "2019-06-01", NULL },
    };
    struct tft_table t;
    char every[32], format[32];

    for (size_t i = 0; i < 2 * sizeof lonely / sizeof *lonely; i++) {
        const char *schema = i % 2 ? "preset: long\ngaps: fill\n" : NULL;
        struct file f = { 0 };
        add_series(&f, "a", lonely[i / 2].stamp, lonely[i / 2].every, tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
        add(&f, "b", lonely[i / 2].time, 1);
        if (!schema && lonely[i / 2].error) {
            CHECK(refuses_with(&f, NULL, lonely[i / 2].error), "'%s'", lonely[i / 2].time);
            continue;
        }
        CHECK(!read_file(&f, schema, every, format, &t), "'%s'", lonely[i / 2].time);
        tft_table_fini(&t);
    }
}

/* With a zone, times with and without an offset are of one clock. */
static void one_zone(void)
{
    struct file f = { 0 };
    struct tft_table t;
    char every[32], format[32];

    add(&f, "a", "2024-01-01 01:00:00", 1);
    add(&f, "a", "2024-01-01T01:00:00Z", 2);
    for (int i = 3; i < 20; i++) {
        char text[40];
        snprintf(text, sizeof text, "2024-01-01 %02d:00:00+01:00", i);
        add(&f, "a", text, i);
    }
    CHECK(!read_file(&f, "preset: long\nzone: Europe/Berlin\n", every, format, &t) && t.series[0].rows == 19 &&
          !t.summary.rows_missing && !strcmp(every, "1h"));
    tft_table_fini(&t);
}

/* Made-up rows must be the fewer, unless the schema says otherwise, or rows skip the same hours of each day or week. */
static void made_up(void)
{
    struct tft_table t;
    char every[32], format[32], text[40];
    struct file f = { 0 };

    test_log.write = record_warning;
    for (int round = 0; round < 3; round++) { /* three days of each week, random half hours, those that are allowed */
        for (int day = 0; day < 40; day++)
            for (int i = 0; day % 7 < (round ? 5 : 3) && i < (round ? 13 : 48); i++) {
                const int slot = round ? (i + day * 17) % 48 : i;
                tft_time_print(tft_time_from_date(2024, 1, 1, 9, 30, 0) + day * 86400 + slot * 1800, text, sizeof text);
                add(&f, "x", text, i);
            }
        if (round == 1) {
            CHECK(refuses_with(&f, NULL, "rows would be added to the 390 that there are, and filled; of 'x' "));
            continue;
        }
        *warnings = 0;
        CHECK(!read_file(&f, round ? "preset: long\ngaps: fill\n" : NULL, every, format, &t) &&
              !strcmp(every, "30min"));
        CHECK((strstr(warnings, "skip the same hours") != NULL) == !round, "%s", warnings);
        tft_table_fini(&t);
    }
    /* A day's series beside one of weeks: enough rows are there, but of one series most are made up. */
    for (int i = 0; i < 9; i++) {
        snprintf(text, sizeof text, "d%d", i);
        add_series(&f, text, ISO_DAY, "1d", tft_time_from_date(2012, 1, 1, 0, 0, 0), 0);
    }
    add_series(&f, "w", ISO_DAY, "1w", tft_time_from_date(2012, 1, 1, 0, 0, 0), 0);
    CHECK(!read_file(&f, NULL, every, format, &t) && !strcmp(every, "1d"));
    CHECK(strstr(warnings, "1 of 10 series have another step than 1d: 'w' has a row every 7 of them"), "%s", warnings);
    tft_table_fini(&t);
    /* Rows without values are there, and their values are made up. */
    for (int i = 0; i < 6; i++) {
        const int is_allowed = i == 5;
        *warnings = 0;
        for (int row = 0; row < 100; row++) {
            snprintf(text, sizeof text, "%d", row);
            add(&f, "a", text, row && row % 5 >= i % 5 ? NAN : row);
        }
        CHECK(!read_file(&f, is_allowed ? "preset: long\ngaps: fill\n" : NULL, every, format, &t));
        CHECK((strstr(warnings, " of 100 values were not measured, and are filled") != NULL) == (i < 3 && !is_allowed),
              "%d of 5: %s", i, warnings);
        tft_table_fini(&t);
    }
    test_log.write = ignore_line;
}

/* Rows of the same series and time are one, with the mean of what they say, unless the schema says otherwise. */
static void doubled_rows(void)
{
    static const double seconds[] = { 2, 2, NAN, 8 }; /* of rows whose first value is 2 */
    static const size_t differing[] = { 0, 0, 1, 1 };
    char every[32], format[32];
    struct tft_table t;

    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
        struct file f = { 0 };
        add_series(&f, "a", ISO_DAY, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
        add_series(&f, "b", ISO_DAY, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
        add(&f, "b", "2019-01-10", seconds[i]); /* the tenth: 9 % 7 */
        REQUIRE(!read_file(&f, NULL, every, format, &t));
        CHECK(t.series[1].rows == ROWS && t.series[1].values[9] == (i == 3 ? 5 : 2) && t.summary.rows_duplicated == 1 &&
                  t.rows_differing == differing[i],
              "case %zu: %g", i, t.series[1].values[9]);
        CHECK(strcmp(t.first_differing, differing[i] ? "'b' has a second row for 2019-01-10 00:00:00" : "") == 0);
        tft_table_fini(&t);
    }
    struct file f = { 0 };
    add_series(&f, "a", ISO_DAY, "1d", tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    add(&f, "a", "2019-06-01", 1);
    CHECK(refuses_with(&f, "preset: long\nduplicates: error\n", "row 402: 'a' has a second row for 2019-06-01"));
}

/* The last business days of months are months; two days of each have no step. */
static void month_ends(void)
{
    char every[32], format[32], text[40];
    struct tft_table t;
    struct tft_date date;
    struct file f = { 0 };

    for (int i = 0; i < 2 * 60; i++) {
        int64_t day = tft_time_from_date(2010 + i % 60 / 12 + (i % 60 % 12 == 11), (i % 12 + 1) % 12 + 1, 1, 0, 0, 0);
        do {
            day -= 86400;
            tft_time_to_date(day, &date);
        } while (date.day_of_week >= 5);
        tft_time_print(day, text, sizeof text);
        add(&f, i < 60 ? "a" : "b", text, i % 60);
    }
    REQUIRE(!read_file(&f, NULL, every, format, &t));
    CHECK(!strcmp(every, "1M") && t.series_count == 2 && t.series[1].rows == 60 && !t.summary.rows_missing &&
          t.series[1].start == tft_time_from_date(2010, 1, 1, 0, 0, 0) && t.series[1].values[59] == 59);
    tft_table_fini(&t);
    for (int i = 0; i < 60; i++) {
        snprintf(text, sizeof text, "%d-%02d-%s", 2010 + i / 24, i / 2 % 12 + 1, i % 2 ? "15" : "01");
        add(&f, "a", text, i);
    }
    CHECK(refuses_with(&f, NULL, "'ds' has two rows a month, on the same days"));
}

/* Rows at any times become those of a step. */
static void resampled(void)
{
    static const char *const schemas[] = { "preset: long\nresample: {every: 1h, how: mean}\n",
                                           "preset: long\nevery: 1h\nresample: {how: mean}\n" };
    char every[32], format[32], text[40];
    struct tft_table t;

    for (size_t k = 0; k < 3; k++) {
        struct file f = { 0 };
        for (int i = 0; i < 200; i++) {
            snprintf(text, sizeof text, "2024-01-%02d %02d:%02d:00", 1 + i / 48, i / 2 % 24, i * 37 % 30 + i % 2 * 30);
            add(&f, "a", text, i % 2 ? 3 : 1);
        }
        if (k == 2) {
            CHECK(refuses_with(&f, NULL, "or a schema with 'resample' for irregular rows"));
            break;
        }
        REQUIRE(!read_file(&f, schemas[k], every, format, &t));
        CHECK(t.series[0].rows == 100 && t.series[0].start == tft_time_from_date(2024, 1, 1, 0, 0, 0) &&
              t.series[0].values[0] == 2 && t.series[0].values[99] == 2);
        tft_table_fini(&t);
    }
}

/* What is said of texts that no format reads as they are. */
static void advice(void)
{
    static const struct {
        const char *time, *advice;
    } advised[] = {
        { "01022024", " (set 'format': \"%d%m%Y\" if the day is first, \"%m%d%Y\" if the month is)" },
        { "00000017", " (or set 'format')" },
        { "20240131.0", " (write 20240131)" },
        { "2020.000", " (write 2020)" },
        { "1706706300.", " (write 1706706300)" },
        { "2020.5", " (or set 'format')" },
        { "01/31/2024 12:30 PM", " (set 'format', here \"%m/%d/%Y %I:%M %p\")" },
        { "31.01.2024 01:30:00 am", " (set 'format', here \"%d.%m.%Y %I:%M:%S %p\")" },
    };
    static const char *const moved[] = { "2024-01-01T00:00:00+01:00",  "2024-01-01 00:00:00-0530",
                                         "2024-01-01 00:00+00:15",     "10:00+01:00",
                                         "2018-01-01 00:00:00 +02:00", "01:00 PM-05:00" },
                             *const not_moved[] = { "2024-01-01T00:00:00Z",
                                                    "2024-01-01 00:00:00+00:00",
                                                    "2024-01-01",
                                                    "2024-01-01 00:00:00",
                                                    "-1700000",
                                                    "10:00 05-11-2024 +0000",
                                                    "Tue 05-Nov-2024 10:00 +0000" };
    char text[200];

    for (size_t i = 0; i < sizeof advised / sizeof *advised; i++) {
        tft_time_advise(advised[i].time, text, sizeof text);
        CHECK(!strcmp(text, advised[i].advice), "'%s':%s", advised[i].time, text);
    }
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
        CHECK(tft_time_is_moved(moved[i]), "%s", moved[i]);
    for (size_t i = 0; i < sizeof not_moved / sizeof *not_moved; i++)
        CHECK(!tft_time_is_moved(not_moved[i]), "%s", not_moved[i]);
}

/* Days of a spreadsheet may be counts, and days of dates whose year is last are not. */
static void odd_numbers(void)
{
    static const int starts[] = { 36526, 45000, 0, 36000, 54700, 60000 };
    struct file f = { 0 };
    struct tft_table t;
    char every[32], format[32], text[16];

    test_log.write = record_warning;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (int row = 0; row < 100; row++) {
            snprintf(text, sizeof text, "%d", starts[i] + row);
            add(&f, "a", text, row);
        }
        *warnings = 0;
        CHECK(!read_file(&f, NULL, every, format, &t) && !strcmp(every, "1"));
        CHECK((strstr(warnings, "if they are days of a spreadsheet") != NULL) == (i < 2), "%d: %s", starts[i],
              warnings);
        tft_table_fini(&t);
    }
    test_log.write = ignore_line;
    for (int row = 25; row < 80; row++) {
        snprintf(text, sizeof text, "%02d%02d2024", 1 + row % 28, 1 + row / 28);
        add(&f, "a", text, row);
    }
    CHECK(
        refuses_with(&f, NULL, "row 5, column 'ds': '01022024' is not a time like 2017-08-01 01:00:00 (set 'format'"));
    for (int sign = 0; sign < 2; sign++)
        for (int is_given = 0; is_given < 2; is_given++) {
            add(&f, "a", sign ? "-1234567890123" : "1234567890123", 1);
            add(&f, "a", "17", 1);
            CHECK(refuses_with(&f, is_given ? "preset: long\ntime: {column: ds, integer: true}\n" : NULL,
                               "1234567890123 is not a whole number of at most 12 digits; count from"));
        }
    add(&f, "a", "00000017", 1);
    add(&f, "a", "00000018", 1);
    CHECK(refuses_with(&f, NULL, "the table's longest series has 2 steps (1 each)"));
}

/* An hour that a clock passes twice, and rows of UTC that a reader may take for the clock's. */
static void clocks(void)
{
    struct file f = { 0 };
    struct tft_table t;
    char every[32], format[32];

    add_series(&f, "a", ISO, "1h", tft_time_from_date(2019, 10, 20, 0, 0, 0), 0);
    add(&f, "a", "2019-10-27 02:00:00", 1);
    CHECK(refuses_with(&f, "preset: long\nduplicates: error\n",
                       "if a clock was set back, give its zone (--zone, 'zone'); otherwise set"));
    add_series(&f, "a", ISO, "1h", tft_time_from_date(2019, 10, 20, 0, 0, 0), 0);
    add(&f, "a", "2019-10-24 02:00:00", 1);
    CHECK(refuses_with(&f, "preset: long\nduplicates: error\n", "(the first: file ") && !error_says("clock"));
    test_log.write = record_warning;
    for (int is_moved = 0; is_moved < 2; is_moved++) {
        for (int i = 0; i < 40; i++) {
            const int hours = i && is_moved;
            char text[64];
            snprintf(text, sizeof text, "2024-01-%02dT0%d:00:00+0%d:00", 1 + i % 31, hours, hours);
            add(&f, i < 31 ? "a" : "b", text, i);
        }
        *warnings = 0;
        CHECK(!read_file(&f, NULL, every, format, &t));
        CHECK((strstr(warnings, "row 3, column 'ds': times have an offset from UTC; without a zone") != NULL) ==
                  is_moved,
              "%s", warnings);
        tft_table_fini(&t);
    }
    test_log.write = ignore_line;
}

/* ---- inputs of the preset and of the table ---- */

/* Inputs of the schema, and which of them come from the calendar or the id; a name that both have is the table's. */
static const struct {
    const char *schema, *names; /* or what is refused, after '!' */
    const char *warning;
} own[] = {
    { "", "y=y unique_id=@id day_of_week=@day_of_week day_of_month=@day_of_month", NULL },
    { "  day_of_week: {column: y, role: known}\n",
      "y=y day_of_week=y unique_id=@id preset_day_of_week=@day_of_week day_of_month=@day_of_month",
      "input 'day_of_week' is the table's; the preset's own input of that name is 'preset_day_of_week'" },
    { "  steps: {column: y, role: observed}\n",
      "y=y steps=y unique_id=@id day_of_week=@day_of_week day_of_month=@day_of_month", NULL },
    { "  day_of_week: {column: y, role: target}\n",
      "day_of_week=y unique_id=@id preset_day_of_week=@day_of_week day_of_month=@day_of_month",
      "'preset_day_of_week'" },
    { "  unique_id: {column: y, role: observed}\n",
      "y=y unique_id=y preset_unique_id=@id day_of_week=@day_of_week day_of_month=@day_of_month",
      "'preset_unique_id'" },
    { "  day_of_month: {from: id, role: static, type: category}\n",
      "y=y day_of_month=@id day_of_week=@day_of_week preset_day_of_month=@day_of_month", "'preset_day_of_month'" },
    /* Another form of the same is what the schema changes of it. */
    { "  day_of_month: {calendar: day_of_month, role: known, type: category}\n  unique_id: {column: unique_id, role: "
      "static, type: category}\n",
      "y=y day_of_month=@day_of_month unique_id=unique_id day_of_week=@day_of_week", NULL },
    { "  day_of_month: {column: y, role: known}\n  preset_day_of_month: {column: y, role: known}\n",
      "!the preset has an input 'day_of_month' of its own; rename the schema's 'day_of_month' or "
      "'preset_day_of_month'",
      NULL },
    { "  y: {column: y, role: known}\n", "!input 'y' has the target's name; rename it, or set 'role: target'", NULL },
};

/* Reads a series of a step; text: the schema. */
static enum halay_status read_series(enum stamp stamp, const char *every, const char *text, struct tft_schema *schema)
{
    struct file f = { 0 };
    int found;

    add_series(&f, "a", stamp, every, tft_time_from_date(2019, 1, 1, 0, 0, 0), 0);
    const char *path = write_text("rows.csv", f.text);
    free(f.text);
    const struct tft_schema_source given = { .text = text };
    const struct tft_table_source tables = { .paths = &path, .path_count = 1 };
    const struct tft_preset preset = { .encoder = 4, .horizon = 2 };
    *warnings = 0;
    return tft_preset_read(&test_log, &given, &tables, &preset, schema, &found);
}

static enum halay_status read_own(const char *inputs, struct tft_schema *schema)
{
    char text[600];

    snprintf(text, sizeof text, "preset: long\n%s%s", *inputs ? "inputs:\n" : "", inputs);
    return read_series(ISO_DAY, "1d", text, schema);
}

/* "NAME=COLUMN" or, of what is no column, "NAME=@calendar" or "NAME=@id" of each input; frees the schema. */
static void list_inputs(struct tft_schema *schema, char names[600])
{
    *names = 0;
    for (size_t k = 0; k < schema->input_count; k++) {
        const struct tft_input *x = &schema->inputs[k];
        const char *from = x->source == TFT_FROM_ID     ? "id"
                           : x->source == TFT_FROM_WAVE ? "wave"
                                                        : tft_calendar_names[x->calendar];
        CHECK(x->source != TFT_FROM_CALENDAR || x->is_category || x->per == TFT_PER_ALL, "%s", x->name);
        snprintf(names + strlen(names), 600 - strlen(names), "%s%s=%s%s", k ? " " : "", x->name, x->column ? "" : "@",
                 x->column ? x->column : from);
    }
    tft_schema_fini(schema);
}

/* Of the calendar the model is given what training has two whole cycles of, 90 % of 400 rows here; without any, waves
 * of the season, and where training does not hold two of that either, a constant. */
static void calendars(void)
{
    static const struct {
        enum stamp stamp;
        const char *every, *schema, *names;
    } spans[] = {
        { ISO, "10min", "", "minute=@minute hour=@hour" },
        { ISO, "30min", "", "minute=@minute hour=@hour" },
        { ISO, "1h", "", "hour=@hour day_of_week=@day_of_week" },
        { ISO, "1h", "split: {train: \"< 2019-01-14\"}\n", "hour=@hour" },
        { ISO, "6h", "", "hour=@hour day_of_week=@day_of_week" },
        { ISO_DAY, "1d", "split: {train: \"< 2019-02-28\"}\n", "day_of_week=@day_of_week" },
        { ISO_DAY, "1d", "split: {train: \"< 2019-01-15\"}\n", "day_of_week=@day_of_week" },
        { ISO_DAY, "1d", "split: {train: \"< 2019-01-14\"}\n", "season_cos1=@wave" },
        { ISO_DAY, "1d", "season: 4\nsplit: {train: \"< 2019-01-14\"}\n",
          "season_sin1=@wave season_cos1=@wave season_sin2=@wave season_cos2=@wave" },
        { ISO_DAY, "1B", "", "day_of_week=@day_of_week day_of_month=@day_of_month" },
        { ISO_DAY, "1w", "", "week=@week" },
        { ISO_DAY, "1w", "split: {train: \"< 2020-11-01\"}\n", "season_cos1=@wave" },
        { ISO_MONTH, "1M", "", "month=@month" },
        { ISO_MONTH, "1M", "split: {train: \"< 2021-01-01\"}\n", "month=@month" },
        { ISO_MONTH, "1M", "split: {train: \"< 2020-12-01\"}\n", "season_cos1=@wave" },
        { ISO_MONTH, "3M", "", "month=@month" },
        { ISO_DAY, "12M", "", "season_cos1=@wave" },
        { COUNT, "1", "season: 24\n",
          "season_sin1=@wave season_cos1=@wave season_sin2=@wave season_cos2=@wave season_sin3=@wave "
          "season_cos3=@wave" },
    };

    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        struct tft_schema schema;
        char text[200], names[600], expected[600];
        snprintf(text, sizeof text, "preset: long\nevery: %s\n%s", spans[i].every, spans[i].schema);
        REQUIRE(!read_series(spans[i].stamp, spans[i].every, text, &schema));
        CHECK(schema.inputs[0].per == TFT_PER_WINDOW && schema.inputs[0].blend && schema.inputs[1].unknown);
        list_inputs(&schema, names);
        snprintf(expected, sizeof expected, "y=y unique_id=@id %s", spans[i].names);
        CHECK(!strcmp(names, expected), "case %zu: %s", i, names);
    }
}

static void own_inputs(void)
{
    struct tft_schema schema;

    test_log.write = record_warning;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        char names[600];
        enum halay_status status = read_own(own[i].schema, &schema);
        if (*own[i].names == '!') {
            CHECK(status && error_says(own[i].names + 1), "case %zu", i);
            continue;
        }
        REQUIRE(!status);
        list_inputs(&schema, names);
        CHECK(!strcmp(names, own[i].names), "case %zu: %s", i, names);
        CHECK(own[i].warning ? strstr(warnings, own[i].warning) != NULL : !*warnings, "case %zu: %s", i, warnings);
    }
    test_log.write = ignore_line;
}

/* ---- seasons of whole numbers ---- */

/* What series of these kinds have at a row, beside noise. */
enum kind { NOISE, WALK, TREND, FAR_TREND, WAVE, SHAPE, DAY_AND_WEEK };

static double value_of(enum kind kind, int row, int season, double noise, double *walk)
{
    *walk += noise;
    switch (kind) {
    case NOISE:
        return noise;
    case WALK:
        return *walk;
    case TREND:
        return .2 * row + noise;
    case FAR_TREND: /* of steps that float does not tell from each other */
        return 1e7 + .3 * row;
    case WAVE:
        return .2 * row + 9 * sin(2 * acos(-1) * row / season) + noise;
    case SHAPE: /* changes of level beside it, and a wrong value */
        return *walk + (row % season == 0 ? 9 : 0) + (row == 77 ? 1000 : 0);
    default:
        return 9 * sin(2 * acos(-1) * row / season) + (row / season % 7 < 5 ? 5 * (row % season > season / 2) : 0) +
               .2 * noise;
    }
}

/* Writes series whose times count from 1; `missing` above 0: the last of each `missing` rows is left out. */
static const char *write_counts(enum kind kind, int season, int rows, int series, int missing)
{
    struct file f = { 0 };
    char id[32], time[32];
    uint64_t state = 1;

    for (int k = 0; k < series; k++) {
        double walk = 0;
        for (int i = 0; i < rows; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            const double y = value_of(kind, i, season, (double)(state >> 33) / 2147483648.0 - .5, &walk);
            snprintf(id, sizeof id, "s%d", k);
            snprintf(time, sizeof time, "%d", 1 + i);
            if (!missing || i % missing != missing - 1)
                add(&f, id, time, y);
        }
    }
    const char *path = write_text("rows.csv", f.text);
    free(f.text);
    return path;
}

static void read_counts(const char *path, const char *differs, struct tft_schema *schema)
{
    char text[200];

    snprintf(text, sizeof text, "preset: long\n%s", differs);
    const struct tft_schema_source given = { .text = text };
    const struct tft_table_source tables = { .paths = &path, .path_count = 1 };
    const struct tft_preset preset = { .horizon = 4 };
    int found;
    *warnings = 0;
    REQUIRE(!tft_preset_read(&test_log, &given, &tables, &preset, schema, &found));
}

/* Found: seasons and the past, where the schema says nothing: a third of the rows before two horizons of four, or two
 * and a half of these. The kinds without a season have none. */
static void seasons(void)
{
    static const struct {
        enum kind kind;
        int season, rows, series, missing;
        const char *schema, *seasons;
        size_t encoder;
    } tables[] = {
        { WAVE, 24, 300, 3, 0, "", "24", 168 },
        { WAVE, 7, 100, 3, 0, "", "7", 30 },
        { WAVE, 12, 90, 20, 0, "", "12", 27 },
        { WAVE, 4, 60, 1, 0, "", "4", 17 },
        { SHAPE, 2, 60, 3, 0, "", "2", 17 },
        { SHAPE, 24, 400, 2, 0, "", "24", 168 },
        { SHAPE, 13, 200, 100, 0, "", "13", 48 },
        { WAVE, 96, 600, 5, 0, "", "96", 192 },
        { WAVE, 24, 400, 3, 10, "gaps: fill\n", "24", 168 },
        { DAY_AND_WEEK, 24, 1200, 2, 0, "", "24 168", 168 },
        { WAVE, 24, 60, 3, 0, "", "1", 17 },                            /* fewer than three cycles */
        { WAVE, 24, 300, 3, 0, "split: {train: \"< 70\"}\n", "1", 48 }, /* in training */
        { WAVE, 24, 300, 3, 0, "season: 1\n", "1", 48 },
        { WAVE, 24, 300, 3, 0, "season: [30, 60]\n", "30 60", 168 },
        { WAVE, 24, 300, 3, 0, "window: {encoder: 30}\n", "24", 30 },
        { NOISE, 1, 100, 1, 0, "", "1", 30 },
        { NOISE, 1, 500, 3, 0, "", "1", 48 },
        { WALK, 1, 100, 1, 0, "", "1", 30 },
        { WALK, 1, 500, 3, 0, "", "1", 48 },
        { TREND, 1, 100, 1, 0, "", "1", 30 },
        { TREND, 1, 25, 300, 0, "", "1", 10 },
        { FAR_TREND, 1, 100, 1, 0, "", "1", 30 },
    };

    test_log.write = record_warning;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const char *path =
            write_counts(tables[i].kind, tables[i].season, tables[i].rows, tables[i].series, tables[i].missing);
        char found[100] = "";
        struct tft_schema schema;
        read_counts(path, tables[i].schema, &schema);
        for (size_t k = 0; k < schema.season_count; k++)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%zu", k ? " " : "", schema.seasons[k]);
        CHECK(!strcmp(found, tables[i].seasons) && schema.encoder == tables[i].encoder,
              "case %zu: seasons %s, past %zu", i, found, schema.encoder);
        CHECK(!strstr(warnings, "found in the rows") ==
                  (!strcmp(found, "1") || strstr(tables[i].schema, "season") != NULL),
              "case %zu: %s", i, warnings);
        tft_schema_fini(&schema);
    }
    test_log.write = ignore_line;
}

int main(void)
{
    begin_scratch();
    seasons();
    names_of_days();
    stamps();
    counts();
    wrong_rows();
    outside_hours();
    lonely_rows();
    one_zone();
    made_up();
    doubled_rows();
    month_ends();
    resampled();
    advice();
    odd_numbers();
    clocks();
    own_inputs();
    calendars();
    end_scratch();
    return test_end();
}
