/* SPDX-License-Identifier: Apache-2.0
 *
 * Zone rules: a strict reader of POSIX's TZ, with the hours from -167 to 167 of RFC 8536.
 */
#include "tft/core/data/calendar.h"
#include "tft/core/data/zone.h"
#include <string.h>

enum { HOUR = 3600, DAY_SECONDS = 86400 };

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Skips a name: letters, or anything in angle brackets. NULL: not a name. */
static const char *skip_name(const char *text)
{
    if (*text == '<') {
        const char *end = strchr(text, '>');
        return end ? end + 1 : NULL;
    }
    size_t n = 0;
    while (is_letter(text[n]))
        n++;
    return n >= 3 ? text + n : NULL;
}

static const char *read_number(const char *text, int least, int most, int *number)
{
    size_t n = 0;

    *number = 0;
    for (; n < 3 && text[n] >= '0' && text[n] <= '9'; n++)
        *number = *number * 10 + (text[n] - '0');
    return n && *number >= least && *number <= most ? text + n : NULL;
}

/* Reads [+-]hh[:mm[:ss]]. */
static const char *read_seconds(const char *text, int hours_most, int *seconds)
{
    int sign = *text == '-' ? -1 : 1, part;

    text = read_number(text + (*text == '-' || *text == '+'), 0, hours_most, &part);
    *seconds = part * HOUR;
    for (int unit = 60; text && *text == ':' && unit; unit /= 60) {
        text = read_number(text + 1, 0, 59, &part);
        *seconds += part * unit;
    }
    *seconds *= sign;
    return text;
}

/* Reads ,Mm.w.d ,Jn or ,n, each with /time. */
static const char *read_day(const char *text, struct tft_zone_day *day)
{
    if (!text || *text != ',')
        return NULL;
    *day = (struct tft_zone_day){ .kind = text[1], .seconds = 2 * HOUR };
    if (day->kind == 'M') {
        text = read_number(text + 2, 1, 12, &day->month);
        if (text)
            text = *text == '.' ? read_number(text + 1, 1, 5, &day->week) : NULL;
        if (text)
            text = *text == '.' ? read_number(text + 1, 0, 6, &day->day) : NULL;
    } else if (day->kind == 'J') {
        text = read_number(text + 2, 1, 365, &day->day);
    } else {
        day->kind = '0';
        text = read_number(text + 1, 0, 365, &day->day);
    }
    return text && *text == '/' ? read_seconds(text + 1, 167, &day->seconds) : text;
}

enum halay_status tft_zone_rule_parse(const char *text, struct tft_zone_rule *rule)
{
    struct tft_zone_rule r = { 0 };

    text = skip_name(text);
    if (text)
        text = read_seconds(text, 24, &r.standard);
    r.standard = -r.standard; /* POSIX counts to the west */
    if (text && *text) {
        r.changes = 1;
        text = skip_name(text);
        r.summer = -r.standard - HOUR;
        if (text && *text && *text != ',')
            text = read_seconds(text, 24, &r.summer);
        r.summer = -r.summer;
        text = read_day(text, &r.begin);
        text = read_day(text, &r.end);
    }
    if (!text || *text)
        return HALAY_ERR_FORMAT;
    *rule = r;
    return HALAY_OK;
}

/* Returns the moment at which the clock shows the rule's time on that day of a year. */
static int64_t clock_of(const struct tft_zone_day *rule, int year)
{
    int64_t january = tft_time_from_date(year, 1, 1, 0, 0, 0), march = tft_time_from_date(year, 3, 1, 0, 0, 0);

    if (rule->kind == '0')
        return january + (int64_t)rule->day * DAY_SECONDS + rule->seconds;
    if (rule->kind == 'J') {
        int64_t day = january + (int64_t)(rule->day - 1) * DAY_SECONDS;
        int is_leap = march - january == (int64_t)60 * DAY_SECONDS;
        return day + (is_leap && rule->day >= 60 ? DAY_SECONDS : 0) + rule->seconds;
    }
    int64_t first = tft_time_from_date(year, rule->month, 1, 0, 0, 0);
    int64_t next = tft_time_from_date(year + rule->month / 12, rule->month % 12 + 1, 1, 0, 0, 0);
    struct tft_date date;
    tft_time_to_date(first, &date);
    int64_t day = first + (int64_t)((rule->day - (date.day_of_week + 1) + 14) % 7 + 7 * (rule->week - 1)) * DAY_SECONDS;
    return (day < next ? day : day - (int64_t)7 * DAY_SECONDS) + rule->seconds;
}

void tft_zone_rule_year(const struct tft_zone_rule *rule, int year, int64_t *begin, int64_t *end)
{
    *begin = clock_of(&rule->begin, year) - rule->standard;
    *end = clock_of(&rule->end, year) - rule->summer;
}
