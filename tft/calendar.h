/* SPDX-License-Identifier: Apache-2.0
 *
 * Time: seconds since 1970-01-01 00:00:00 of whatever clock the data were written by (no time zone, no leap seconds).
 */
#ifndef HALAY_TFT_CALENDAR_H
#define HALAY_TFT_CALENDAR_H

#include "halay_types.h"
#include <stddef.h>
#include <stdint.h>

struct tft_date {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
    int day_of_week; /* Monday 0 */
    int day_of_year; /* from 1 */
    int week;        /* of ISO 8601, from 1 */
};

/* Calendar inputs. */
enum tft_calendar {
    TFT_CALENDAR_NONE,
    TFT_CALENDAR_HOUR,
    TFT_CALENDAR_DAY_OF_WEEK,
    TFT_CALENDAR_DAY_OF_MONTH,
    TFT_CALENDAR_DAY_OF_YEAR,
    TFT_CALENDAR_WEEK,
    TFT_CALENDAR_MONTH,
    TFT_CALENDAR_STEPS, /* rows since the data set's first */
};

/* Names by number ("none" first), ended by NULL. */
extern const char *const tft_calendar_names[];

int64_t tft_time_from_date(int year, int month, int day, int hour, int minute, int second);
void tft_time_to_date(int64_t time, struct tft_date *date);
double tft_calendar_value(enum tft_calendar calendar, int64_t time, int64_t origin, int64_t every);

/* Is the format one we read: %Y %m %d %H %M %S %F %T %% and ordinary characters, with at least %Y, or %F? */
int tft_time_format_is_valid(const char *format);
/* Read all of text by the format; dates that do not exist are HALAY_ERR_FORMAT. Never logs. */
enum halay_status tft_time_parse(const char *text, const char *format, int64_t *time);
/* A moment in a schema: "2017-08-01", "2017-08-01 01:00" or "2017-08-01 01:00:00" (also with T). Never logs. */
enum halay_status tft_time_parse_moment(const char *text, int64_t *time);
/* "2017-08-01 01:00:00"; size at least 32. */
void tft_time_print(int64_t time, char *text, size_t size);

/* "1h", "15min", "1d", "1w", "30s": seconds of a fixed step. HALAY_ERR_UNSUPPORTED for 1M and 1B (calendar months,
 * business days), HALAY_ERR_FORMAT for what is no step. Never logs. */
enum halay_status tft_time_parse_every(const char *text, int64_t *seconds);

#endif
