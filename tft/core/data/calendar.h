/* SPDX-License-Identifier: Apache-2.0
 *
 * Time: moments, steps from one to the next, parsing of times, and calendar inputs.
 *
 * A moment is seconds since 1970-01-01 00:00:00 of a clock, that of UTC or the one by which the data were written (no
 * leap seconds; tft/core/data/zone.h converts between them); where a table counts in whole numbers instead, a moment is
 * that number. A step is a fixed number of seconds, calendar months, business days (Monday to Friday, the time of day
 * kept), seconds within the same hours of each day, or a whole number. All functions are pure.
 */
#ifndef HALAY_TFT_CALENDAR_H
#define HALAY_TFT_CALENDAR_H

#include "base/log.h"
#include "halay_types.h"
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct tft_date {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
    int day_of_week; /* Monday 0 */
    int day_of_year; /* from 1 */
    int week;        /* of ISO 8601, from 1 */
    int quarter;     /* from 1 */
    int is_weekend;
};

/* Calendar inputs. */
enum tft_calendar {
    TFT_CALENDAR_NONE,
    TFT_CALENDAR_MINUTE, /* of the hour */
    TFT_CALENDAR_HOUR,
    TFT_CALENDAR_DAY_OF_WEEK,
    TFT_CALENDAR_DAY_OF_MONTH,
    TFT_CALENDAR_DAY_OF_YEAR,
    TFT_CALENDAR_WEEK,
    TFT_CALENDAR_MONTH,
    TFT_CALENDAR_QUARTER,
    TFT_CALENDAR_IS_WEEKEND, /* 1 on Saturday and Sunday */
    TFT_CALENDAR_STEPS,      /* since the data set's first moment */
};

/* Names by number ("none" first), terminated by NULL. */
extern const char *const tft_calendar_names[];

int64_t tft_time_from_date(int year, int month, int day, int hour, int minute, int second);
void tft_time_to_date(int64_t time, struct tft_date *date);
/* Returns the days since 1970-01-01 (a Thursday) of a moment. */
int64_t tft_time_day(int64_t time);

/* Sets the range of a calendar input that is part of a date: [first, first + count), after which it starts again. count
 * is 0 for steps. */
void tft_calendar_range(enum tft_calendar calendar, int *first, int *count);
int tft_calendar_value(enum tft_calendar calendar, const struct tft_date *date);

/* ---- steps ---- */

enum tft_period_kind {
    TFT_PERIOD_SECONDS,
    TFT_PERIOD_MONTHS,
    TFT_PERIOD_BUSINESS_DAYS,
    TFT_PERIOD_HOURS, /* the next step after a day's last one is the next day's first */
    TFT_PERIOD_INTEGER
};

struct tft_period {
    enum tft_period_kind kind;
    int64_t count; /* seconds, months, business days, units: at least 1 */
    struct {
        int begin; /* the first step of a day, in seconds from midnight */
        int steps; /* of a day: at least 2 */
        int days;  /* of a week: 7, or 5: Monday to Friday */
    } hours;       /* of TFT_PERIOD_HOURS */
};

/* Parses a step: "30s", "15min", "1h", "1d", "1w", "1M" (calendar month), "1B" (business day), "10" (whole numbers);
 * "1h 08:00-16:00", the hours of each day from and to these, and "1h 08:00-16:00 B", of each business day.
 * HALAY_ERR_FORMAT for anything else. Never logs. */
enum halay_status tft_period_parse(const char *text, struct tft_period *step);

/* Returns the moment n steps after start, n of either sign. Months keep start's day, or the last day of a shorter
 * month; a month's last day leads to last days. Business days count from one; from a weekend, from the Friday before.
 * Hours of days count from the last of them that is not after start. */
int64_t tft_period_add(const struct tft_period *step, int64_t start, int64_t n);
/* Returns the largest n for which that is not after `time`. */
int64_t tft_period_between(const struct tft_period *step, int64_t start, int64_t time);
/* Returns the beginning of the period that contains a moment: days at midnight, weeks on Monday, months on the
 * first. */
int64_t tft_period_floor(const struct tft_period *step, int64_t time);

enum { TFT_PERIOD_SEASONS = 2 };
/* Returns the number of usual seasons of such series, in steps, ascending: for steps below a day and hours of days a
 * day and a week, for days a week, for weeks 52, for months a year, if these are whole numbers of steps; otherwise, and
 * for whole numbers, 1. */
size_t tft_period_seasons(const struct tft_period *step, size_t seasons[TFT_PERIOD_SEASONS]);

/* ---- parsing ---- */

/* Returns nonzero if the format is supported: %Y %y %m %b %d %e %j %H %I %p %M %S %f %F %T %D %s %z %Z %a %% and
 * ordinary characters, with a year or %s in it. %b and %a know English names, short and long; %f (parts of a second)
 * and %Z (a zone's name or offset) are read and ignored; %z (an offset) is subtracted; %s is seconds since 1970. */
int tft_time_format_is_valid(const char *format);
/* Reads all of text by the format; dates that do not exist are HALAY_ERR_FORMAT; 24:00:00 is the next day's midnight. A
 * NULL format is ISO 8601: a date, or a date and a time after a blank or T, to minutes, seconds or parts of seconds,
 * with or without Z or an offset at the end; or a year and a month, which is the month's first day. Slashes may replace
 * a date's hyphens. Never logs. */
enum halay_status tft_time_parse(const char *text, const char *format, int64_t *time);
/* Does the same; *is_utc: the text has an offset, Z, or seconds since 1970, so that the moment is in UTC. */
enum halay_status tft_time_parse_clock(const char *text, const char *format, int64_t *time, int *is_utc);
/* Reads a moment in a schema: a date, or date and time, as ISO 8601 without an offset. Never logs. */
enum halay_status tft_time_parse_moment(const char *text, int64_t *time);
/* Reads a whole number, which may have blanks around it. Never logs. */
enum halay_status tft_time_parse_integer(const char *text, int64_t *value);
/* Combines year, month, day, hour, minute, second; the last ones may be absent (1 to 6 parts). Never logs. */
enum halay_status tft_time_from_parts(const int *parts, size_t count, int64_t *time);
/* Prints "2017-08-01 01:00:00"; size at least 32. */
void tft_time_print(int64_t time, char *text, size_t size);
/* Prints "2017-08-01 01:00:00+02:00" of a moment in UTC and an offset in seconds; size at least 40. */
void tft_time_print_offset(int64_t utc, int offset, char *text, size_t size);

/* Formats of times that ISO 8601 does not cover: dates written as whole numbers (20240131), and texts whose parts are
 * in another order (01/31/2020). A table counts in whole numbers only if they do not look like dates. */

/* Formats of whole numbers, by number; some cannot be read by any format string. */
enum { TFT_TIME_FORMS = 13 };

struct tft_time_form {
    const char *name;   /* for messages: "dates like 20240131" */
    const char *format; /* NULL: unreadable */
    size_t digits;
    int64_t in_second; /* of numbers since 1970, how many a second has; 0: it is a date */
};
extern const struct tft_time_form tft_time_forms[TFT_TIME_FORMS];

/* Statistics of a column of whole numbers. Zero-initialise. */
struct tft_time_look {
    size_t rows, fits[TFT_TIME_FORMS];
    int64_t first_month[TFT_TIME_FORMS], last_month[TFT_TIME_FORMS]; /* since year 0 */
    int64_t last;                                                    /* the newest */
    size_t changes, ones;                                            /* from one to the next; changes by 1 */
    size_t first_other[TFT_TIME_FORMS]; /* the first row that does not fit, counted from 1 */
};

/* Parses a whole number of at most TFT_COUNT_MAX in magnitude: the difference of two is an int64_t. Returns 0 if the
 * text is anything else. */
#define TFT_COUNT_MAX (INT64_MAX / 2)
int tft_time_read_digits(const char *text, int64_t *value);
void tft_time_look_add(struct tft_time_look *look, int64_t value);
/* Returns the format that all rows have or, with *fits_all 0, nine tenths of at least ten rows; -1: the numbers are
 * counts. */
int tft_time_look_form(const struct tft_time_look *look, int *fits_all);
/* Returns nonzero if the numbers are counts that might be seconds since 1970 as well. */
int tft_time_look_is_either(const struct tft_time_look *look);

/* Errors for the first time of the other kind, where a column has times with and without an offset and the clock of the
 * latter is unknown. */
#define TFT_TIME_HAS_OFFSET \
    "has an offset from UTC, and the times before it have none; a zone (--zone, 'zone') gives the clock of those"
#define TFT_TIME_LACKS_OFFSET \
    "has no offset from UTC, and the times before it have one; a zone (--zone, 'zone') gives its clock"

/* Returns nonzero if a text of eight digits, the first of them 0, is a date whose year is last, and so not a number. */
int tft_time_is_reversed(const char *text);

/* Returns nonzero if the text of a time ends with an offset from UTC that is not 0. */
int tft_time_is_moved(const char *text);

/* Suggests a format for a text that is not a time of ISO 8601, as the end of a message: " (set 'format', here
 * \"%m/%d/%Y\")". */
void tft_time_advise(const char *text, char *advice, size_t size);

/* Holidays: named days.
 *
 * They are read from a CSV file: its column `date` (or the first one) has days like 2017-12-25, its column `name` (or
 * the second) their names. In a schema's document they are a list of keys and values, day to name: the contents of a
 * file are put into the document when the schema is loaded, so that a run does not need the file. */

struct tft_holiday {
    int64_t day; /* since 1970-01-01 */
    int code;    /* of its name, from 1 */
};

struct tft_holidays {
    size_t count;
    struct tft_holiday *list; /* owned, in order of day */
    int names;                /* different names; codes go up to it, in order of name */
};

/* Reads a file into a list of keys and values; the caller's reference. */
enum halay_status tft_holidays_load(struct halay_log *log, const char *path, json_t **document);
/* Reads them from a list of keys and values. where: for messages. */
enum halay_status tft_holidays_init(struct halay_log *log, const char *where, const json_t *document,
                                    struct tft_holidays *holidays);
void tft_holidays_fini(struct tft_holidays *holidays);

/* Returns the code of the day that contains a moment, or 0 on other days. */
int tft_holidays_code(const struct tft_holidays *holidays, int64_t time);

enum tft_holiday_days { TFT_DAYS_NONE, TFT_DAYS_UNTIL, TFT_DAYS_SINCE };
/* Returns the days from a moment's day until the next holiday, or since the last one: 0 on a holiday, at most
 * `most`. */
int64_t tft_holidays_days(const struct tft_holidays *holidays, int64_t time, enum tft_holiday_days which, int64_t most);

#endif
