/* SPDX-License-Identifier: Apache-2.0
 *
 * Calendar: known dates, a round trip over four centuries, ISO weeks at the turns of years, strict parsing, steps.
 */
#include "tests/test.h"
#include "tft/core/data/calendar.h"
#include <string.h>

static void known_dates(void)
{
    struct tft_date d;

    CHECK(tft_time_from_date(1970, 1, 1, 0, 0, 0) == 0);
    CHECK(tft_time_from_date(2018, 8, 2, 23, 0, 0) == 1533250800);
    CHECK(tft_time_from_date(1969, 12, 31, 23, 59, 59) == -1);
    tft_time_to_date(1533250800, &d);
    CHECK(d.year == 2018 && d.month == 8 && d.day == 2 && d.hour == 23 && d.minute == 0 && d.second == 0);
    CHECK(d.day_of_week == 3 && d.day_of_year == 214 && d.week == 31, "%d %d %d", d.day_of_week, d.day_of_year, d.week);
    tft_time_to_date(-1, &d);
    CHECK(d.year == 1969 && d.month == 12 && d.day == 31 && d.hour == 23 && d.second == 59 && d.day_of_week == 2);
}

static void round_trip(void)
{
    int64_t first = tft_time_from_date(1800, 1, 1, 12, 0, 0), last = tft_time_from_date(2201, 1, 1, 12, 0, 0);
    int weekday = -1, wrong = 0;

    for (int64_t t = first; t <= last; t += 86400) {
        struct tft_date d;
        tft_time_to_date(t, &d);
        wrong += tft_time_from_date(d.year, d.month, d.day, d.hour, d.minute, d.second) != t;
        wrong += weekday >= 0 && d.day_of_week != (weekday + 1) % 7;
        wrong += d.week < 1 || d.week > 53 || d.day_of_year < 1 || d.day_of_year > 366;
        weekday = d.day_of_week;
    }
    CHECK(!wrong, "%d", wrong);
}

static void iso_weeks(void)
{
    static const int cases[][4] = {
        { 2004, 12, 31, 53 }, { 2005, 1, 1, 53 },   { 2005, 1, 3, 1 },  { 2008, 12, 29, 1 },
        { 2009, 12, 31, 53 }, { 2010, 1, 3, 53 },   { 2010, 1, 4, 1 },  { 2016, 1, 3, 53 },
        { 2018, 12, 31, 1 },  { 2020, 12, 31, 53 }, { 2021, 1, 3, 53 }, { 2017, 1, 1, 52 }
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_date d;
        tft_time_to_date(tft_time_from_date(cases[i][0], cases[i][1], cases[i][2], 0, 0, 0), &d);
        CHECK(d.week == cases[i][3], "%d-%d-%d: week %d", cases[i][0], cases[i][1], cases[i][2], d.week);
    }
}

static void parsing(void)
{
    static const char *const good[] = { "2016-02-29 05:06:07", "2018-3-1 4:5:6" };
    static const char *const bad[] = { "2015-02-29 00:00:00",
                                       "2015-13-01 00:00:00",
                                       "2015-00-01 00:00:00",
                                       "2015-01-01 24:01:00",
                                       "2015-01-01 00:60:00",
                                       "2015-01-01 00:00",
                                       "2015-01-01 00:00:00 ",
                                       " 2015-01-01 00:00:00",
                                       "15-01-01 00:00:00",
                                       "2015-01-01T00:00:00",
                                       "",
                                       "nonsense",
                                       "2015-04-31 00:00:00" };
    int64_t t = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(tft_time_parse(good[i], "%Y-%m-%d %H:%M:%S", &t) == HALAY_OK, "'%s'", good[i]);
    CHECK(tft_time_parse("07/08/2019 9", "%d/%m/%Y %H", &t) == HALAY_OK &&
          t == tft_time_from_date(2019, 8, 7, 9, 0, 0));
    CHECK(tft_time_parse("20190807T010203", "%Y%m%dT%H%M%S", &t) == HALAY_OK &&
          t == tft_time_from_date(2019, 8, 7, 1, 2, 3));
    t = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(tft_time_parse(bad[i], "%Y-%m-%d %H:%M:%S", &t) == HALAY_ERR_FORMAT && t == 42, "'%s'", bad[i]);
    CHECK(tft_time_format_is_valid("%F %T") && tft_time_format_is_valid("%d.%m.%Y"));
    CHECK(!tft_time_format_is_valid("%H:%M") && !tft_time_format_is_valid("%Y-%q") &&
          !tft_time_format_is_valid("%Y %"));
    CHECK(tft_time_parse_moment("2013-06-01 01:00", &t) == HALAY_OK && t == tft_time_from_date(2013, 6, 1, 1, 0, 0));
    CHECK(tft_time_parse_moment("2013-06-01", &t) == HALAY_OK && t == tft_time_from_date(2013, 6, 1, 0, 0, 0));
    CHECK(tft_time_parse_moment("yesterday", &t) == HALAY_ERR_FORMAT);
}

static int64_t at(int year, int month, int day)
{
    return tft_time_from_date(year, month, day, 9, 30, 0);
}

static void more_formats(void)
{
    static const struct {
        const char *text, *format;
        int64_t time;
    } cases[] = {
        { "2017-08-01", NULL, 1501545600 },
        { "2017-08-01 02:03", NULL, 1501552980 },
        { "2017-08-01T02:03:04", NULL, 1501552984 },
        { "2017-08-01T02:03:04.125Z", NULL, 1501552984 },
        { "2017-08-01 02:03:04+02:00", NULL, 1501545784 },
        { "2017-08-01 02:03:04-0130", NULL, 1501558384 },
        { "2017-08-01 24:00:00", NULL, 1501632000 },
        { "1 August 2017", "%e %b %Y", 1501545600 },
        { " 1-aug-17", " %d-%b-%y", 1501545600 },
        { "Tue, 01 Aug 2017 12:00 AM", "%a, %d %b %Y %I:%M %p", 1501545600 },
        { "08/01/17 01:00 pm", "%D %I:%M %p", 1501592400 },
        { "2017213", "%Y%j", 1501545600 },
        { "1501545600", "%s", 1501545600 },
        { "-60", "%s", -60 },
        { "2017-08-01 00:00:00+01:00", "%F %T%Z", 1501545600 },
        { "2017-08-01 00:00:00 CEST", "%F %T %Z", 1501545600 },
        { "2017-08-01 00:00:00+01:00", "%F %T%z", 1501542000 },
        { "31/12/1999 23:59:59.999", "%d/%m/%Y %T.%f", 946684799 },
    };
    static const struct {
        const char *text, *format;
    } bad[] = {
        { "2017-08-01 13:00 pm", "%F %I:%M %p" },
        { "2017-08-01 24:00:01", NULL },
        { "2017366", "%Y%j" },
        { "2017-08-01 ", NULL },
        { "2017-08-01 02", NULL },
        { "2017-08-01 02:03:04 Z", NULL },
        { "2017-08-01 02:03:04.", NULL },
        { "x", "%s" },
        { "1 Mux 2017", "%d %b %Y" },
        { "2017-08-01 00:00:00+1", "%F %T%z" },
    };
    int64_t t;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        t = 0;
        CHECK(!tft_time_parse(cases[i].text, cases[i].format, &t) && t == cases[i].time, "'%s': %lld", cases[i].text,
              (long long)t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(tft_time_parse(bad[i].text, bad[i].format, &t) == HALAY_ERR_FORMAT, "'%s'", bad[i].text);
    CHECK(!tft_time_from_parts((const int[]){ 2017, 8, 1, 5 }, 4, &t) && t == 1501563600);
    CHECK(tft_time_from_parts((const int[]){ 2017, 2, 29 }, 3, &t) == HALAY_ERR_FORMAT);
    CHECK(!tft_time_parse_integer(" -12 ", &t) && t == -12 && tft_time_parse_integer("1.5", &t) &&
          tft_time_parse_integer("", &t));
}

static void periods(void)
{
    struct tft_period p;
    static const char *const bad[] = { "0h", "h", "1 h", "-1h", "", "1y", "0", "1hh" };

    CHECK(!tft_period_parse("1h", &p) && p.kind == TFT_PERIOD_SECONDS && p.count == 3600);
    CHECK(!tft_period_parse("15min", &p) && p.count == 900 && !tft_period_parse("1w", &p) && p.count == 604800);
    CHECK(!tft_period_parse("10", &p) && p.kind == TFT_PERIOD_INTEGER && p.count == 10);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(tft_period_parse(bad[i], &p) == HALAY_ERR_FORMAT, "'%s'", bad[i]);

    CHECK(!tft_period_parse("1M", &p));
    CHECK(tft_period_add(&p, at(2020, 1, 31), 1) == at(2020, 2, 29) &&
          tft_period_add(&p, at(2020, 1, 31), 2) == at(2020, 3, 31));
    CHECK(tft_period_add(&p, at(2020, 2, 29), 12) == at(2021, 2, 28) &&
          tft_period_add(&p, at(2020, 1, 15), -1) == at(2019, 12, 15));
    CHECK(tft_period_between(&p, at(2020, 1, 15), at(2020, 3, 14)) == 1 &&
          tft_period_between(&p, at(2020, 1, 15), at(2020, 3, 15)) == 2);
    CHECK(tft_period_between(&p, at(2020, 1, 15), at(2020, 1, 14)) == -1);
    CHECK(tft_period_floor(&p, at(2020, 5, 31)) == tft_time_from_date(2020, 5, 1, 0, 0, 0));
    CHECK(!tft_period_parse("3M", &p) &&
          tft_period_floor(&p, at(2020, 5, 31)) == tft_time_from_date(2020, 4, 1, 0, 0, 0));

    CHECK(!tft_period_parse("1B", &p)); /* 2020-05-01 was a Friday */
    CHECK(tft_period_add(&p, at(2020, 5, 1), 1) == at(2020, 5, 4) &&
          tft_period_add(&p, at(2020, 5, 4), -1) == at(2020, 5, 1));
    CHECK(tft_period_add(&p, at(2020, 5, 1), 10) == at(2020, 5, 15) &&
          tft_period_between(&p, at(2020, 5, 1), at(2020, 5, 15)) == 10);
    CHECK(tft_period_between(&p, at(2020, 5, 1), at(2020, 5, 3)) == 0);

    CHECK(!tft_period_parse("1w", &p) &&
          tft_period_floor(&p, at(2020, 5, 3)) == tft_time_from_date(2020, 4, 27, 0, 0, 0));
    CHECK(!tft_period_parse("1h", &p) && tft_period_floor(&p, -1) == -3600 && tft_period_between(&p, 0, -1) == -1);
    CHECK(tft_period_between(&p, INT64_MIN + 1, INT64_MAX - 1) > 0);
    for (int64_t t = at(2019, 12, 20), i = 0; i < 1000; i++) { /* add and between undo each other */
        static const char *const names[] = {
            "1M", "1B", "5B", "7M", "1d", "1h 08:00-16:00", "30min 00:00-23:30 B", "1min 00:01-00:02 B"
        };
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            REQUIRE(!tft_period_parse(names[k], &p));
            CHECK(tft_period_between(&p, t, tft_period_add(&p, t, i - 500)) == i - 500, "%s %lld", names[k],
                  (long long)i);
        }
    }
}

/* Hours of each day: 2020-05-01 was a Friday. */
static void hours_of_days(void)
{
    static const struct {
        const char *every;
        int day, hour, minute, steps; /* of May, from 2020-05-01 16:00 */
    } of[] = { { "1h 08:00-16:00", 1, 15, 0, -1 },      { "1h 08:00-16:00", 2, 8, 0, 1 },
               { "1h 08:00-16:00", 2, 16, 0, 9 },       { "1h 08:00-16:00", 4, 8, 0, 19 },
               { "1h 08:00-16:00 B", 4, 8, 0, 1 },      { "1h 08:00-16:00 B", 5, 9, 0, 11 },
               { "30min 09:30-16:00 B", 4, 9, 30, 1 },  { "30min 09:30-16:00 B", 8, 15, 30, 69 },
               { "30min 09:30-16:00 B", 1, 9, 30, -13 } };
    static const char *const bad[] = { " ",
                                       " 08:00",
                                       " 8:00-16:00",
                                       " 08:00-16:30",
                                       " 16:00-08:00",
                                       " 08:00-8:00",
                                       " 08:00-24:00",
                                       " 08:00-16:00 ",
                                       "  08:00-16:00",
                                       " 08:60-16:60",
                                       " 08:00-16:00 C",
                                       " 08:00-16:00 Bx",
                                       " 08:00-08:00" };
    static const char *const never[] = { "1d", "1M", "1B", "1" };
    const int64_t start = tft_time_from_date(2020, 5, 1, 16, 0, 0);
    struct tft_period p;
    char text[40];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "1h%s", bad[i]);
        CHECK(tft_period_parse(text, &p) == HALAY_ERR_FORMAT, "'%s'", text);
    }
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        snprintf(text, sizeof text, "%s 08:00-16:00", never[i]);
        CHECK(tft_period_parse(text, &p) == HALAY_ERR_FORMAT, "'%s'", text);
    }
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int64_t time = tft_time_from_date(2020, 5, of[i].day, of[i].hour, of[i].minute, 0);
        REQUIRE(!tft_period_parse(of[i].every, &p) && p.kind == TFT_PERIOD_HOURS);
        CHECK(tft_period_add(&p, start, of[i].steps) == time && tft_period_add(&p, time, -of[i].steps) == start &&
                  tft_period_between(&p, start, time) == of[i].steps &&
                  tft_period_between(&p, start, time - 1) == of[i].steps - 1,
              "%s: %d", of[i].every, of[i].steps);
    }
}

/* What is at no step counts as the last one before it: a night, a weekend, a quarter past. */
static void outside_hours(void)
{
    const int64_t start = tft_time_from_date(2020, 5, 1, 16, 0, 0);
    struct tft_period p;

    REQUIRE(!tft_period_parse("1h 08:00-16:00 B", &p));
    static const int off[][3] = { { 1, 23, 0 }, { 2, 12, 0 }, { 3, 8, 0 }, { 4, 7, 59 }, { 1, 16, 15 } };
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        int64_t time = tft_time_from_date(2020, 5, off[i][0], off[i][1], off[i][2], 0);
        CHECK(tft_period_floor(&p, time) == start && tft_period_add(&p, time, 1) == start + 64 * 3600 &&
              !tft_period_between(&p, start, time));
    }
    REQUIRE(!tft_period_parse("1h 08:00-16:00", &p)); /* before 1970 */
    CHECK(tft_period_add(&p, tft_time_from_date(1969, 12, 31, 16, 0, 0), 1) == 8 * 3600 &&
          tft_period_add(&p, 8 * 3600, -1) == -8 * 3600);
}

static void seasons(void)
{
    static const struct {
        const char *every;
        size_t count, seasons[2];
    } of[] = { { "30s", 2, { 2880, 20160 } },
               { "15min", 2, { 96, 672 } },
               { "1h", 2, { 24, 168 } },
               { "6h", 2, { 4, 28 } },
               { "7h", 1, { 24 } },
               { "5h", 1, { 1 } },
               { "1d", 1, { 7 } },
               { "2d", 1, { 1 } },
               { "36h", 1, { 1 } },
               { "42h", 1, { 4 } },
               { "1w", 1, { 52 } },
               { "4w", 1, { 13 } },
               { "3w", 1, { 1 } },
               { "1M", 1, { 12 } },
               { "3M", 1, { 4 } },
               { "5M", 1, { 1 } },
               { "12M", 1, { 1 } },
               { "24M", 1, { 1 } },
               { "1B", 1, { 5 } },
               { "5B", 1, { 1 } },
               { "2B", 1, { 1 } },
               { "1h 08:00-16:00", 2, { 9, 63 } },
               { "30min 09:30-16:00 B", 2, { 14, 70 } },
               { "1", 1, { 1 } },
               { "24", 1, { 1 } } };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct tft_period p;
        size_t found[TFT_PERIOD_SEASONS] = { 0 };
        REQUIRE(!tft_period_parse(of[i].every, &p));
        CHECK(tft_period_seasons(&p, found) == of[i].count && found[0] == of[i].seasons[0] &&
                  found[1] == of[i].seasons[1],
              "%s: %zu, %zu", of[i].every, found[0], found[1]);
    }
}

static void values(void)
{
    struct tft_date d;
    int first, count;

    tft_time_to_date(tft_time_from_date(2017, 12, 31, 17, 30, 0), &d);
    CHECK(tft_calendar_value(TFT_CALENDAR_HOUR, &d) == 17 && tft_calendar_value(TFT_CALENDAR_DAY_OF_WEEK, &d) == 6);
    CHECK(tft_calendar_value(TFT_CALENDAR_DAY_OF_MONTH, &d) == 31 &&
          tft_calendar_value(TFT_CALENDAR_DAY_OF_YEAR, &d) == 365);
    CHECK(tft_calendar_value(TFT_CALENDAR_WEEK, &d) == 52 && tft_calendar_value(TFT_CALENDAR_MONTH, &d) == 12);
    CHECK(tft_calendar_value(TFT_CALENDAR_MINUTE, &d) == 30 && tft_calendar_value(TFT_CALENDAR_QUARTER, &d) == 4 &&
          tft_calendar_value(TFT_CALENDAR_IS_WEEKEND, &d) == 1);
    tft_time_to_date(tft_time_from_date(2018, 1, 1, 0, 15, 0), &d); /* a Monday */
    CHECK(tft_calendar_value(TFT_CALENDAR_QUARTER, &d) == 1 && tft_calendar_value(TFT_CALENDAR_IS_WEEKEND, &d) == 0);
    for (int month = 1; month <= 12; month++) {
        tft_time_to_date(tft_time_from_date(2018, month, 1, 0, 0, 0), &d);
        CHECK(tft_calendar_value(TFT_CALENDAR_QUARTER, &d) == (month - 1) / 3 + 1);
    }
    tft_calendar_range(TFT_CALENDAR_MONTH, &first, &count);
    CHECK(first == 1 && count == 12);
}

int main(void)
{
    known_dates();
    round_trip();
    iso_weeks();
    parsing();
    more_formats();
    periods();
    hours_of_days();
    outside_hours();
    seasons();
    values();
    return test_end();
}
