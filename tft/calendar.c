/* SPDX-License-Identifier: Apache-2.0
 *
 * Time: civil dates, strict parsing, calendar inputs. Pure functions; no library calls that depend on the locale or
 * zone.
 *
 * Days are counted by the proleptic Gregorian calendar from eras of 400 years (146,097 days), years beginning in March
 * so that the leap day is the last.
 */
#include "tft/calendar.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DAY_SECONDS = 86400 };

const char *const tft_calendar_names[] = { "none",  "hour",  "day_of_week", "day_of_month", "day_of_year", "week",
                                           "month", "steps", NULL };

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days since 1970-01-01. */
static int64_t days_from_date(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = floor_div(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[month - 1] + (month == 2 && is_leap(year));
}

int64_t tft_time_from_date(int year, int month, int day, int hour, int minute, int second)
{
    return days_from_date(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
}

/* Number of ISO weeks in a year: 53 if it begins or (leap) ends on a Thursday. */
static int weeks_of_year(int year)
{
    int64_t first = days_from_date(year, 1, 1);
    int weekday = (int)(((first + 3) % 7 + 7) % 7);
    return 52 + (weekday == 3 || (weekday == 2 && is_leap(year)));
}

void tft_time_to_date(int64_t time, struct tft_date *date)
{
    int64_t days = floor_div(time, DAY_SECONDS);
    int in_day = (int)(time - days * DAY_SECONDS);
    int64_t shifted = days + 719468;
    int64_t era = floor_div(shifted, 146097);
    int64_t day_of_era = shifted - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int month_from_march = (int)((5 * from_march + 2) / 153);

    date->day = (int)(from_march - (153 * month_from_march + 2) / 5 + 1);
    date->month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    date->year = (int)(year_of_era + era * 400 + (date->month <= 2));
    date->hour = in_day / 3600;
    date->minute = in_day / 60 % 60;
    date->second = in_day % 60;
    date->day_of_week = (int)(((days + 3) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    date->day_of_year = (int)(days - days_from_date(date->year, 1, 1)) + 1;
    date->week = (date->day_of_year - date->day_of_week + 9) / 7;
    if (date->week < 1)
        date->week = weeks_of_year(date->year - 1);
    else if (date->week > weeks_of_year(date->year))
        date->week = 1;
}

double tft_calendar_value(enum tft_calendar calendar, int64_t time, int64_t origin, int64_t every)
{
    struct tft_date date;

    if (calendar == TFT_CALENDAR_STEPS)
        return (double)(time - origin) / (double)every;
    tft_time_to_date(time, &date);
    switch (calendar) {
    case TFT_CALENDAR_HOUR:
        return date.hour;
    case TFT_CALENDAR_DAY_OF_WEEK:
        return date.day_of_week;
    case TFT_CALENDAR_DAY_OF_MONTH:
        return date.day;
    case TFT_CALENDAR_DAY_OF_YEAR:
        return date.day_of_year;
    case TFT_CALENDAR_WEEK:
        return date.week;
    case TFT_CALENDAR_MONTH:
        return date.month;
    default:
        return 0;
    }
}

int tft_time_format_is_valid(const char *format)
{
    int year = 0;

    for (; *format; format++) {
        if (*format != '%')
            continue;
        if (!*++format || !strchr("YmdHMSFT%", *format))
            return 0;
        year |= *format == 'Y' || *format == 'F';
    }
    return year;
}

/* Up to `most` digits, at least `least`; NULL if there are none. */
static const char *read_digits(const char *text, int least, int most, int *value)
{
    int n = 0, sum = 0;

    while (n < most && text[n] >= '0' && text[n] <= '9')
        sum = sum * 10 + (text[n++] - '0');
    if (n < least)
        return NULL;
    *value = sum;
    return text + n;
}

static const char *read_field(const char *text, char field, struct tft_date *date)
{
    switch (field) {
    case 'Y':
        return read_digits(text, 4, 4, &date->year);
    case 'm':
        return read_digits(text, 1, 2, &date->month);
    case 'd':
        return read_digits(text, 1, 2, &date->day);
    case 'H':
        return read_digits(text, 1, 2, &date->hour);
    case 'M':
        return read_digits(text, 1, 2, &date->minute);
    case 'S':
        return read_digits(text, 1, 2, &date->second);
    default:
        return *text == field ? text + 1 : NULL;
    }
}

/* Replaces the two fields that stand for several. */
static const char *read_fields(const char *text, const char *format, struct tft_date *date)
{
    for (; *format && text; format++) {
        if (*format != '%')
            text = *text == *format ? text + 1 : NULL;
        else if (*++format == 'F')
            text = read_fields(text, "%Y-%m-%d", date);
        else if (*format == 'T')
            text = read_fields(text, "%H:%M:%S", date);
        else
            text = read_field(text, *format, date);
    }
    return text;
}

enum halay_status tft_time_parse(const char *text, const char *format, int64_t *time)
{
    struct tft_date d = { .month = 1, .day = 1 };
    const char *end = read_fields(text, format, &d);

    if (!end || *end || d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_of_month(d.year, d.month) ||
        d.hour > 23 || d.minute > 59 || d.second > 59)
        return HALAY_ERR_FORMAT;
    *time = tft_time_from_date(d.year, d.month, d.day, d.hour, d.minute, d.second);
    return HALAY_OK;
}

enum halay_status tft_time_parse_moment(const char *text, int64_t *time)
{
    static const char *const formats[] = { "%F", "%F %H:%M", "%F %T", "%FT%H:%M", "%FT%T" };

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!tft_time_parse(text, formats[i], time))
            return HALAY_OK;
    return HALAY_ERR_FORMAT;
}

void tft_time_print(int64_t time, char *text, size_t size)
{
    struct tft_date d;

    tft_time_to_date(time, &d);
    snprintf(text, size, "%04d-%02d-%02d %02d:%02d:%02d", d.year, d.month, d.day, d.hour, d.minute, d.second);
}

enum halay_status tft_time_parse_every(const char *text, int64_t *seconds)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = { { "s", 1 }, { "min", 60 }, { "h", 3600 }, { "d", DAY_SECONDS }, { "w", 7 * DAY_SECONDS } };
    int number;
    const char *unit = read_digits(text, 1, 6, &number);

    if (!unit || !number)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name)) {
            *seconds = number * units[i].seconds;
            return HALAY_OK;
        }
    return !strcmp(unit, "M") || !strcmp(unit, "B") ? HALAY_ERR_UNSUPPORTED : HALAY_ERR_FORMAT;
}
