/* SPDX-License-Identifier: Apache-2.0
 *
 * Calendar: known dates, a round trip over four centuries, ISO weeks at the turns of years, strict parsing, steps.
 */
#include "tft/calendar.h"
#include "tests/test.h"
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
    static const int cases[][4] = { { 2004, 12, 31, 53 }, { 2005, 1, 1, 53 }, { 2005, 1, 3, 1 },  { 2008, 12, 29, 1 },
                                    { 2009, 12, 31, 53 }, { 2010, 1, 3, 53 }, { 2010, 1, 4, 1 },  { 2016, 1, 3, 53 },
                                    { 2018, 12, 31, 1 },  { 2020, 12, 31, 53 }, { 2021, 1, 3, 53 }, { 2017, 1, 1, 52 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_date d;
        tft_time_to_date(tft_time_from_date(cases[i][0], cases[i][1], cases[i][2], 0, 0, 0), &d);
        CHECK(d.week == cases[i][3], "%d-%d-%d: week %d", cases[i][0], cases[i][1], cases[i][2], d.week);
    }
}

static void parsing(void)
{
    static const char *const good[] = { "2016-02-29 05:06:07", "2018-3-1 4:5:6" };
    static const char *const bad[] = { "2015-02-29 00:00:00", "2015-13-01 00:00:00", "2015-00-01 00:00:00", "2015-01-01 24:00:00",
                                       "2015-01-01 00:60:00", "2015-01-01 00:00",    "2015-01-01 00:00:00 ", " 2015-01-01 00:00:00",
                                       "15-01-01 00:00:00",   "2015-01-01T00:00:00", "", "nonsense", "2015-04-31 00:00:00" };
    int64_t t = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(tft_time_parse(good[i], "%Y-%m-%d %H:%M:%S", &t) == HALAY_OK, "'%s'", good[i]);
    CHECK(tft_time_parse("07/08/2019 9", "%d/%m/%Y %H", &t) == HALAY_OK && t == tft_time_from_date(2019, 8, 7, 9, 0, 0));
    CHECK(tft_time_parse("20190807T010203", "%Y%m%dT%H%M%S", &t) == HALAY_OK && t == tft_time_from_date(2019, 8, 7, 1, 2, 3));
    t = 42;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(tft_time_parse(bad[i], "%Y-%m-%d %H:%M:%S", &t) == HALAY_ERR_FORMAT && t == 42, "'%s'", bad[i]);
    CHECK(tft_time_format_is_valid("%F %T") && tft_time_format_is_valid("%d.%m.%Y"));
    CHECK(!tft_time_format_is_valid("%H:%M") && !tft_time_format_is_valid("%Y-%q") && !tft_time_format_is_valid("%Y %"));
    CHECK(tft_time_parse_moment("2013-06-01 01:00", &t) == HALAY_OK && t == tft_time_from_date(2013, 6, 1, 1, 0, 0));
    CHECK(tft_time_parse_moment("2013-06-01", &t) == HALAY_OK && t == tft_time_from_date(2013, 6, 1, 0, 0, 0));
    CHECK(tft_time_parse_moment("yesterday", &t) == HALAY_ERR_FORMAT);
}

static void steps(void)
{
    int64_t s = 0;

    CHECK(!tft_time_parse_every("1h", &s) && s == 3600);
    CHECK(!tft_time_parse_every("15min", &s) && s == 900);
    CHECK(!tft_time_parse_every("2d", &s) && s == 172800);
    CHECK(!tft_time_parse_every("1w", &s) && s == 604800);
    CHECK(tft_time_parse_every("1M", &s) == HALAY_ERR_UNSUPPORTED && tft_time_parse_every("1B", &s) == HALAY_ERR_UNSUPPORTED);
    CHECK(tft_time_parse_every("0h", &s) == HALAY_ERR_FORMAT && tft_time_parse_every("h", &s) == HALAY_ERR_FORMAT);
    CHECK(tft_time_parse_every("1 h", &s) == HALAY_ERR_FORMAT && tft_time_parse_every("-1h", &s) == HALAY_ERR_FORMAT);
}

static void values(void)
{
    int64_t t = tft_time_from_date(2017, 12, 31, 17, 30, 0);

    CHECK(tft_calendar_value(TFT_CALENDAR_HOUR, t, 0, 3600) == 17);
    CHECK(tft_calendar_value(TFT_CALENDAR_DAY_OF_WEEK, t, 0, 3600) == 6);
    CHECK(tft_calendar_value(TFT_CALENDAR_DAY_OF_MONTH, t, 0, 3600) == 31);
    CHECK(tft_calendar_value(TFT_CALENDAR_DAY_OF_YEAR, t, 0, 3600) == 365);
    CHECK(tft_calendar_value(TFT_CALENDAR_WEEK, t, 0, 3600) == 52);
    CHECK(tft_calendar_value(TFT_CALENDAR_MONTH, t, 0, 3600) == 12);
    CHECK(tft_calendar_value(TFT_CALENDAR_STEPS, t, t - 5 * 900, 900) == 5);
}

int main(void)
{
    known_dates();
    round_trip();
    iso_weeks();
    parsing();
    steps();
    values();
    return test_end();
}
