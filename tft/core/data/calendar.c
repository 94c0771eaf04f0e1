/* SPDX-License-Identifier: Apache-2.0
 *
 * Time: civil dates, steps, strict parsing, calendar inputs. No library calls that depend on the locale or zone.
 *
 * Days are counted by the proleptic Gregorian calendar from eras of 400 years (146,097 days), years beginning in March
 * so that the leap day is the last.
 */
#include "tft/core/data/calendar.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DAY_SECONDS = 86400 };

const char *const tft_calendar_names[] = { "none", "minute", "hour",    "day_of_week", "day_of_month", "day_of_year",
                                           "week", "month",  "quarter", "is_weekend",  "steps",        NULL };

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int64_t tft_time_day(int64_t time)
{
    return floor_div(time, DAY_SECONDS);
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
    date->quarter = (date->month + 2) / 3;
    date->is_weekend = date->day_of_week >= 5;
    date->week = (date->day_of_year - date->day_of_week + 9) / 7;
    if (date->week < 1)
        date->week = weeks_of_year(date->year - 1);
    else if (date->week > weeks_of_year(date->year))
        date->week = 1;
}

/* Calendar inputs that are part of a date: the member, and its range. */
static const struct {
    int first, count;
    size_t at;
} calendars[] = {
    [TFT_CALENDAR_MINUTE] = { 0, 60, offsetof(struct tft_date, minute) },
    [TFT_CALENDAR_HOUR] = { 0, 24, offsetof(struct tft_date, hour) },
    [TFT_CALENDAR_DAY_OF_WEEK] = { 0, 7, offsetof(struct tft_date, day_of_week) },
    [TFT_CALENDAR_DAY_OF_MONTH] = { 1, 31, offsetof(struct tft_date, day) },
    [TFT_CALENDAR_DAY_OF_YEAR] = { 1, 366, offsetof(struct tft_date, day_of_year) },
    [TFT_CALENDAR_WEEK] = { 1, 53, offsetof(struct tft_date, week) },
    [TFT_CALENDAR_MONTH] = { 1, 12, offsetof(struct tft_date, month) },
    [TFT_CALENDAR_QUARTER] = { 1, 4, offsetof(struct tft_date, quarter) },
    [TFT_CALENDAR_IS_WEEKEND] = { 0, 2, offsetof(struct tft_date, is_weekend) },
    [TFT_CALENDAR_STEPS] = { 0, 0, 0 },
};

void tft_calendar_range(enum tft_calendar calendar, int *first, int *count)
{
    *first = calendars[calendar].first;
    *count = calendars[calendar].count;
}

int tft_calendar_value(enum tft_calendar calendar, const struct tft_date *date)
{
    return calendars[calendar].count ? *(const int *)(const void *)((const char *)date + calendars[calendar].at) : 0;
}

/* ---- steps ---- */

/* Reads up to `most` digits; NULL if there are fewer than `least`. */
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

/* Reads "08:00" as seconds from midnight. */
static const char *read_clock(const char *text, int *seconds)
{
    int hour, minute;
    const char *end = read_digits(text, 2, 2, &hour);

    end = end && *end == ':' ? read_digits(end + 1, 2, 2, &minute) : NULL;
    if (!end || hour > 23 || minute > 59)
        return NULL;
    *seconds = hour * 3600 + minute * 60;
    return end;
}

/* Reads the clock times of a day's steps: "08:00-16:00", or "08:00-16:00 B". */
static enum halay_status read_hours(const char *text, struct tft_period *step)
{
    int begin, end;

    text = read_clock(text, &begin);
    text = text && *text == '-' ? read_clock(text + 1, &end) : NULL;
    if (!text || (*text && strcmp(text, " B")) || step->kind != TFT_PERIOD_SECONDS || end <= begin ||
        (end - begin) % step->count)
        return HALAY_ERR_FORMAT;
    step->kind = TFT_PERIOD_HOURS;
    step->hours.begin = begin;
    step->hours.steps = 1 + (int)((end - begin) / step->count);
    step->hours.days = *text ? 5 : 7;
    return HALAY_OK;
}

enum halay_status tft_period_parse(const char *text, struct tft_period *step)
{
    static const struct {
        const char *name;
        enum tft_period_kind kind;
        int count;
    } units[] = { { "s", TFT_PERIOD_SECONDS, 1 },
                  { "min", TFT_PERIOD_SECONDS, 60 },
                  { "h", TFT_PERIOD_SECONDS, 3600 },
                  { "d", TFT_PERIOD_SECONDS, DAY_SECONDS },
                  { "w", TFT_PERIOD_SECONDS, 7 * DAY_SECONDS },
                  { "M", TFT_PERIOD_MONTHS, 1 },
                  { "B", TFT_PERIOD_BUSINESS_DAYS, 1 },
                  { "", TFT_PERIOD_INTEGER, 1 } };
    int number;
    const char *unit = read_digits(text, 1, 6, &number);

    if (!unit || !number)
        return HALAY_ERR_FORMAT;
    const size_t length = strcspn(unit, " ");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (length == strlen(units[i].name) && !strncmp(unit, units[i].name, length)) {
            struct tft_period found = { .kind = units[i].kind, .count = (int64_t)units[i].count * number };
            enum halay_status status = unit[length] ? read_hours(unit + length + 1, &found) : HALAY_OK;
            if (!status)
                *step = found;
            return status;
        }
    return HALAY_ERR_FORMAT;
}

/* Adds a season that is a whole number of steps. */
static size_t add_season(int64_t cycle, const struct tft_period *step, size_t count, size_t *seasons)
{
    if (cycle % step->count)
        return count;
    seasons[count] = (size_t)(cycle / step->count);
    return count + 1;
}

size_t tft_period_seasons(const struct tft_period *step, size_t seasons[TFT_PERIOD_SEASONS])
{
    const int64_t week = 7 * DAY_SECONDS;
    size_t n = 0;

    if (step->kind == TFT_PERIOD_HOURS) {
        seasons[0] = (size_t)step->hours.steps;
        seasons[1] = (size_t)step->hours.days * seasons[0];
        return 2;
    }
    if (step->kind == TFT_PERIOD_SECONDS && step->count < DAY_SECONDS)
        n = add_season(DAY_SECONDS, step, n, seasons);
    if (step->kind == TFT_PERIOD_SECONDS)
        n = add_season(step->count < week ? week : 52 * week, step, n, seasons);
    else if (step->kind != TFT_PERIOD_INTEGER)
        n = add_season(step->kind == TFT_PERIOD_MONTHS ? 12 : 5, step, n, seasons);
    if (!n)
        seasons[n++] = 1;
    return n;
}

/* Returns the months since year 0, and the day in the month; a month's last day counts as the 31st. */
static int64_t month_of(int64_t time, int *day)
{
    struct tft_date d;

    tft_time_to_date(time, &d);
    *day = d.day == days_of_month(d.year, d.month) ? 31 : d.day;
    return (int64_t)d.year * 12 + d.month - 1;
}

static int64_t add_months(int64_t start, int64_t months)
{
    int day, in_day = (int)(start - tft_time_day(start) * DAY_SECONDS);
    int64_t all = month_of(start, &day) + months, year = floor_div(all, 12);
    int month = (int)(all - year * 12) + 1, last = days_of_month((int)year, month);

    return days_from_date(year, month, day < last ? day : last) * DAY_SECONDS + in_day;
}

/* Returns the business days from a Monday long ago to a day (since 1970); a weekend counts as its Friday. */
static int64_t business_day(int64_t day)
{
    int64_t week = floor_div(day + 3, 7), weekday = day + 3 - week * 7;

    return week * 5 + (weekday < 4 ? weekday : 4);
}

/* Returns the day of a business day's number. */
static int64_t day_of_business(int64_t number)
{
    int64_t week = floor_div(number, 5);

    return week * 7 + (number - week * 5) - 3;
}

static int64_t add_business_days(int64_t start, int64_t n)
{
    int64_t day = tft_time_day(start);

    return day_of_business(business_day(day) + n) * DAY_SECONDS + (start - day * DAY_SECONDS);
}

/* Returns the number of the last step of the hours of days that is not after a moment. */
static int64_t hour_number(const struct tft_period *step, int64_t time)
{
    int64_t day = tft_time_day(time), slot = floor_div(time - day * DAY_SECONDS - step->hours.begin, step->count);
    const int64_t last = step->hours.steps - 1, is_week = step->hours.days == 7, business = business_day(day);

    if (slot > last || (!is_week && day_of_business(business) != day)) /* a weekend is Friday after its last step */
        slot = last;
    return (is_week ? day : business) * step->hours.steps + (slot < 0 ? -1 : slot);
}

static int64_t hour_moment(const struct tft_period *step, int64_t number)
{
    int64_t day = floor_div(number, step->hours.steps), slot = number - day * step->hours.steps;

    return (step->hours.days == 7 ? day : day_of_business(day)) * DAY_SECONDS + step->hours.begin + slot * step->count;
}

int64_t tft_period_add(const struct tft_period *step, int64_t start, int64_t n)
{
    if (step->kind == TFT_PERIOD_MONTHS)
        return add_months(start, n * step->count);
    if (step->kind == TFT_PERIOD_BUSINESS_DAYS)
        return add_business_days(start, n * step->count);
    if (step->kind == TFT_PERIOD_HOURS)
        return hour_moment(step, hour_number(step, start) + n);
    return start + n * step->count;
}

int64_t tft_period_between(const struct tft_period *step, int64_t start, int64_t time)
{
    int64_t n;
    int day;

    if (step->kind == TFT_PERIOD_HOURS)
        return hour_number(step, time) - hour_number(step, start);
    if (step->kind == TFT_PERIOD_MONTHS)
        n = floor_div(month_of(time, &day) - month_of(start, &day), step->count);
    else if (step->kind == TFT_PERIOD_BUSINESS_DAYS)
        n = floor_div(business_day(tft_time_day(time)) - business_day(tft_time_day(start)), step->count);
    else /* unsigned, for moments that are far apart */
        return time >= start ? (int64_t)(((uint64_t)time - (uint64_t)start) / (uint64_t)step->count)
                             : -(int64_t)(((uint64_t)start - (uint64_t)time - 1) / (uint64_t)step->count) - 1;
    return n - (tft_period_add(step, start, n) > time);
}

int64_t tft_period_floor(const struct tft_period *step, int64_t time)
{
    static const int64_t monday = -3 * DAY_SECONDS;
    int64_t origin = step->kind == TFT_PERIOD_SECONDS && step->count % (7 * DAY_SECONDS) == 0 ? monday : 0;
    int day;

    if (step->kind == TFT_PERIOD_MONTHS) {
        int64_t month = floor_div(month_of(time, &day), step->count) * step->count, year = floor_div(month, 12);
        return days_from_date(year, (int)(month - year * 12) + 1, 1) * DAY_SECONDS;
    }
    if (step->kind == TFT_PERIOD_BUSINESS_DAYS) {
        int64_t count = floor_div(business_day(tft_time_day(time)), step->count) * step->count;
        return add_business_days(0, count - business_day(0));
    }
    if (step->kind == TFT_PERIOD_HOURS)
        return tft_period_add(step, time, 0);
    return floor_div(time - origin, step->count) * step->count + origin;
}

/* ---- parsing ---- */

int tft_time_format_is_valid(const char *format)
{
    int year = 0;

    for (; *format; format++) {
        if (*format != '%')
            continue;
        if (!*++format || !strchr("YymbdejHIpMSfFTDszZa%", *format))
            return 0;
        year |= !!strchr("YyFDs", *format);
    }
    return year;
}

/* The values read from a text. */
struct reading {
    struct tft_date date;
    int afternoon; /* -1: not given */
    int day_of_year;
    int has_epoch, has_offset;
    int64_t epoch, offset; /* seconds */
};

/* Reads one of the names, short (three letters) or long; its number from 0. */
static const char *read_name(const char *text, const char *const *names, int *number)
{
    for (int i = 0; names[i]; i++) {
        size_t n = strlen(names[i]);
        if (!strncasecmp(text, names[i], n) || !strncasecmp(text, names[i], n = 3)) {
            *number = i;
            return text + n;
        }
    }
    return NULL;
}

static const char *read_month_name(const char *text, int *month)
{
    static const char *const names[] = { "January", "February",  "March",   "April",    "May",      "June", "July",
                                         "August",  "September", "October", "November", "December", NULL };
    const char *end = read_name(text, names, month);

    *month += 1;
    return end;
}

static const char *read_weekday_name(const char *text)
{
    static const char *const names[] = { "Monday", "Tuesday",  "Wednesday", "Thursday",
                                         "Friday", "Saturday", "Sunday",    NULL };
    int ignored;

    return read_name(text, names, &ignored);
}

/* Reads Z, +hh, +hhmm, +hh:mm or, of clocks of long ago, +hh:mm:ss. */
static const char *read_offset(const char *text, int64_t *offset)
{
    int hours, minutes = 0, seconds = 0, sign = *text == '-' ? -1 : 1;

    if (*text == 'Z') {
        *offset = 0;
        return text + 1;
    }
    if (*text != '+' && *text != '-')
        return NULL;
    text = read_digits(text + 1, 2, 2, &hours);
    if (!text)
        return NULL;
    const char *after = *text == ':' ? text + 1 : text, *end = read_digits(after, 2, 2, &minutes);
    if (!end && after != text)
        return NULL;
    if (end && after != text && *end == ':' && read_digits(end + 1, 2, 2, &seconds))
        end += 3;
    *offset = sign * (hours * 3600 + (end ? minutes : 0) * 60 + seconds);
    return end ? end : text;
}

static const char *read_zone(const char *text)
{
    int64_t ignored;
    const char *end = read_offset(text, &ignored);

    if (end)
        return end;
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/");
    return n ? text + n : NULL;
}

static const char *read_epoch(const char *text, struct reading *r)
{
    int64_t sum = 0, sign = *text == '-' ? -1 : 1;
    size_t n = 0;

    text += sign < 0;
    for (; n < 12 && text[n] >= '0' && text[n] <= '9'; n++)
        sum = sum * 10 + (text[n] - '0');
    r->has_epoch = 1;
    r->epoch = sign * sum;
    return n ? text + n : NULL;
}

static const char *read_two_digit_year(const char *text, int *year)
{
    const char *end = read_digits(text, 2, 2, year);

    *year += *year < 69 ? 2000 : 1900; /* as in POSIX */
    return end;
}

static const char *read_am_pm(const char *text, struct reading *r)
{
    int is_pm = !strncasecmp(text, "pm", 2);

    if (!is_pm && strncasecmp(text, "am", 2))
        return NULL;
    r->afternoon = is_pm;
    return text + 2;
}

static const char *read_fields(const char *text, const char *format, struct reading *r);

static const char *read_field(const char *text, char field, struct reading *r)
{
    struct tft_date *date = &r->date;
    int ignored;

    switch (field) {
    case 'Y':
        return read_digits(text, 4, 4, &date->year);
    case 'y':
        return read_two_digit_year(text, &date->year);
    case 'm':
        return read_digits(text, 1, 2, &date->month);
    case 'b':
        return read_month_name(text, &date->month);
    case 'd':
        return read_digits(text, 1, 2, &date->day);
    case 'e':
        return read_digits(text + (*text == ' '), 1, 2, &date->day);
    case 'j':
        return read_digits(text, 1, 3, &r->day_of_year);
    case 'H':
    case 'I':
        return read_digits(text, 1, 2, &date->hour);
    case 'p':
        return read_am_pm(text, r);
    case 'M':
        return read_digits(text, 1, 2, &date->minute);
    case 'S':
        return read_digits(text, 1, 2, &date->second);
    case 'f':
        return read_digits(text, 1, 9, &ignored);
    case 'a':
        return read_weekday_name(text);
    case 's':
        return read_epoch(text, r);
    case 'z':
        r->has_offset = 1;
        return read_offset(text, &r->offset);
    case 'Z':
        return read_zone(text);
    case 'F':
        return read_fields(text, "%Y-%m-%d", r);
    case 'T':
        return read_fields(text, "%H:%M:%S", r);
    case 'D':
        return read_fields(text, "%m/%d/%y", r);
    default:
        return *text == field ? text + 1 : NULL;
    }
}

static const char *read_fields(const char *text, const char *format, struct reading *r)
{
    for (; *format && text; format++) {
        if (*format == '%')
            text = read_field(text, *++format, r);
        else
            text = *text == *format ? text + 1 : NULL;
    }
    return text;
}

/* Reads year, month and, unless the text ends there, day, with hyphens or slashes between them. */
static const char *read_date(const char *text, struct reading *r)
{
    text = read_field(text, 'Y', r);
    if (!text || (*text != '-' && *text != '/'))
        return NULL;
    const char separator = *text;
    text = read_field(text + 1, 'm', r);
    if (!text || !*text)
        return text;
    return *text == separator ? read_field(text + 1, 'd', r) : NULL;
}

/* Reads ISO 8601: a date, then the part of the time that the text has. */
static const char *read_iso(const char *text, struct reading *r)
{
    text = read_date(text, r);
    if (!text || (*text != ' ' && *text != 'T'))
        return text;
    text = read_fields(text + 1, "%H:%M", r);
    if (text && *text == ':') {
        text = read_field(text + 1, 'S', r);
        if (text && (*text == '.' || *text == ','))
            text = read_field(text + 1, 'f', r);
    }
    if (text && *text) {
        r->has_offset = 1;
        text = read_offset(text, &r->offset);
    }
    return text;
}

/* Reads a quarter as its first day: 2000Q1, 2000-Q1, 2000 Q1, Q1 2000, Q1-2000. */
static const char *read_quarter(const char *text, struct reading *r)
{
    const int is_first = *text == 'Q' || *text == 'q';
    int quarter = 0;

    if (!is_first)
        text = read_field(text, 'Y', r);
    if (text && !is_first)
        text += *text == '-' || *text == ' ';
    text = text && (*text == 'Q' || *text == 'q') ? read_digits(text + 1, 1, 1, &quarter) : NULL;
    if (text && is_first)
        text = *text == '-' || *text == ' ' ? read_field(text + 1, 'Y', r) : NULL;
    r->date.month = 3 * quarter - 2;
    return quarter >= 1 && quarter <= 4 ? text : NULL;
}

/* Reads a week of ISO 8601, whose first day is Monday, or a day of it: 2018-W01, 2018W01, 2018-W01-7. */
static const char *read_week(const char *text, struct reading *r)
{
    enum { THURSDAY = 3 };
    int week = 0, day = 1, year;
    struct tft_date date;

    text = read_field(text, 'Y', r);
    if (text)
        text += *text == '-';
    text = text && *text == 'W' ? read_digits(text + 1, 2, 2, &week) : NULL;
    if (text && *text == '-')
        text = read_digits(text + 1, 1, 1, &day);
    if (!text || week < 1 || day < 1 || day > 7)
        return NULL;
    year = r->date.year;
    int64_t monday = tft_time_from_date(year, 1, 4, 0, 0, 0) + (week - 1) * 7 * DAY_SECONDS;
    tft_time_to_date(monday, &date);
    monday -= date.day_of_week * DAY_SECONDS;
    tft_time_to_date(monday + THURSDAY * DAY_SECONDS, &date);
    if (date.year != year)
        return NULL;
    tft_time_to_date(monday + (day - 1) * DAY_SECONDS, &r->date);
    return text;
}

/* Reads unambiguous formats other than the plain ones of ISO 8601. */
static const char *read_other(const char *text, struct reading *r)
{
    static const char *const named[] = { "%b %Y",    "%b-%Y",    "%Y %b",     "%Y-%b",   "%d %b %Y",
                                         "%d-%b-%Y", "%Y-%b-%d", "%b %d, %Y", "%b %d %Y" };
    const struct reading nothing = *r;
    const char *end = read_quarter(text, r);

    if (!end || *end) {
        *r = nothing;
        end = read_week(text, r);
    }
    for (size_t i = 0; (!end || *end) && i < sizeof named / sizeof *named; i++) {
        *r = nothing;
        end = read_fields(text, named[i], r);
    }
    return end;
}

/* Returns the moment of the fields; a date that does not exist is an error. */
static enum halay_status settle_moment(const struct reading *r, int64_t *time)
{
    struct tft_date d = r->date;

    if (r->has_epoch) {
        *time = r->epoch;
        return HALAY_OK;
    }
    if (r->afternoon >= 0) {
        if (d.hour < 1 || d.hour > 12)
            return HALAY_ERR_FORMAT;
        d.hour = d.hour % 12 + 12 * r->afternoon;
    }
    if (r->day_of_year && r->day_of_year > 365 + is_leap(d.year))
        return HALAY_ERR_FORMAT;
    if (d.month < 1 || d.month > 12 || d.day < 1 || d.day > days_of_month(d.year, d.month) || d.hour > 24 ||
        d.minute > 59 || d.second > 59 || (d.hour == 24 && (d.minute || d.second)))
        return HALAY_ERR_FORMAT;
    *time = tft_time_from_date(d.year, d.month, d.day, d.hour, d.minute, d.second) - r->offset;
    if (r->day_of_year)
        *time += (int64_t)(r->day_of_year - 1) * DAY_SECONDS;
    return HALAY_OK;
}

enum halay_status tft_time_parse_clock(const char *text, const char *format, int64_t *time, int *is_utc)
{
    const struct reading nothing = { .date = { .month = 1, .day = 1 }, .afternoon = -1 };
    struct reading r = nothing;
    const char *end = format ? read_fields(text, format, &r) : read_iso(text, &r);
    if (!format && (!end || *end)) {
        r = nothing;
        end = read_other(text, &r);
    }
    enum halay_status status = end && !*end ? settle_moment(&r, time) : HALAY_ERR_FORMAT;

    if (!status)
        *is_utc = r.has_epoch || r.has_offset;
    return status;
}

enum halay_status tft_time_parse(const char *text, const char *format, int64_t *time)
{
    int is_utc;

    return tft_time_parse_clock(text, format, time, &is_utc);
}

enum halay_status tft_time_from_parts(const int *parts, size_t count, int64_t *time)
{
    struct reading r = { .date = { .month = 1, .day = 1 }, .afternoon = -1 };
    int *const fields[] = { &r.date.year, &r.date.month, &r.date.day, &r.date.hour, &r.date.minute, &r.date.second };

    for (size_t i = 0; i < count; i++)
        *fields[i] = parts[i];
    return settle_moment(&r, time);
}

enum halay_status tft_time_parse_moment(const char *text, int64_t *time)
{
    static const char *const formats[] = { "%F", "%F %H:%M", "%F %T", "%FT%H:%M", "%FT%T" };

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!tft_time_parse(text, formats[i], time))
            return HALAY_OK;
    return HALAY_ERR_FORMAT;
}

enum halay_status tft_time_parse_integer(const char *text, int64_t *value)
{
    struct reading r = { 0 };

    text += strspn(text, " ");
    const char *end = read_epoch(text, &r);
    if (!end || end[strspn(end, " ")])
        return HALAY_ERR_FORMAT;
    *value = r.epoch;
    return HALAY_OK;
}

void tft_time_print(int64_t time, char *text, size_t size)
{
    struct tft_date d;

    tft_time_to_date(time, &d);
    snprintf(text, size, "%04d-%02d-%02d %02d:%02d:%02d", d.year, d.month, d.day, d.hour, d.minute, d.second);
}

void tft_time_print_offset(int64_t utc, int offset, char *text, size_t size)
{
    int seconds = offset < 0 ? -offset : offset;

    tft_time_print(utc + offset, text, size);
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%c%02d:%02d", offset < 0 ? '-' : '+', seconds / 3600, seconds / 60 % 60);
    used = strlen(text);
    if (seconds % 60)
        snprintf(text + used, size - used, ":%02d", seconds % 60);
}
