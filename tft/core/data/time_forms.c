/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats of times: which numbers look like dates, and which format a text needs.
 *
 * A number looks like a date if it has the form's digits, if the date exists, and if its year is from 1900 to 2199.
 * Years alone are counts of 1. Forms that a run of counts may fit by chance must
 * continue where counts would have left them: days of years, weeks and quarters into another year, short dates into
 * another month. Times since 1970 are before 2100; counts never leave them, so seconds that mostly go up by 1
 * are counts.
 */
#include "tft/core/data/calendar.h"
#include <stdio.h>
#include <string.h>

enum { YEAR_FIRST = 1900, YEAR_END = 2200, YEAR_END_SINCE_1970 = 2100 };

const struct tft_time_form tft_time_forms[TFT_TIME_FORMS] = {
    { "dates like 20240131", "%Y%m%d", 8, 0 },
    { "months like 202401", "%Y%m", 6, 0 },
    { "hours like 2024013113", "%Y%m%d%H", 10, 0 },
    { "minutes like 202401311305", "%Y%m%d%H%M", 12, 0 },
    { "times like 20240131130500", "%Y%m%d%H%M%S", 14, 0 },
    { "days of years like 2024031", "%Y%j", 7, 0 },
    { "seconds since 1970 like 1706706300", "%s", 10, 1 },
    { "dates like 240131", "%y%m%d", 6, 0 },
    { "milliseconds since 1970 like 1706706300000", NULL, 13, 1000 },
    { "weeks of years like 202405", NULL, 6, 0 },
    { "quarters like 20241", NULL, 5, 0 },
    { "microseconds since 1970 like 1706706300000000", NULL, 16, 1000000 },
    { "nanoseconds since 1970 like 1706706300000000000", NULL, 19, 1000000000 },
};
enum { FORM_DAY_OF_YEAR = 5, FORM_EPOCH = 6, FORM_SHORT = 7, FORM_WEEK = 9, FORM_QUARTER = 10 };

int tft_time_read_digits(const char *text, int64_t *value)
{
    int64_t sum = 0;

    text += strspn(text, " ");
    const int is_negative = *text == '-';
    text += is_negative;
    size_t n = strspn(text, "0123456789");
    if (!n || n > 19 || text[n + strspn(text + n, " ")])
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (sum > (TFT_COUNT_MAX - 9) / 10)
            return 0;
        sum = sum * 10 + (text[i] - '0');
    }
    *value = is_negative ? -sum : sum;
    return 1;
}

/* Reads a year, in months, and a number in it from 1 to most. */
static int64_t year_of(int64_t value, int64_t unit, int64_t most)
{
    int64_t part = value % unit;

    return part >= 1 && part <= most ? value / unit * 12 : 0;
}

/* Returns the month, since year 0, of a number of this many digits in a format; 0: it does not fit. */
static int64_t form_month(int form, int64_t value, size_t digits)
{
    char text[24];
    struct tft_date date;
    int64_t time;

    if (form == FORM_SHORT ? digits < 5 || digits > tft_time_forms[form].digits : digits != tft_time_forms[form].digits)
        return 0;
    if (form == FORM_WEEK || form == FORM_QUARTER)
        return form == FORM_WEEK ? year_of(value, 100, 53) : year_of(value, 10, 4);
    if (form == FORM_DAY_OF_YEAR && value % 1000 == 0)
        return 0;
    snprintf(text, sizeof text, "%0*lld", (int)tft_time_forms[form].digits, (long long)value);
    if (tft_time_forms[form].in_second)
        time = value / tft_time_forms[form].in_second;
    else if (tft_time_parse(text, tft_time_forms[form].format, &time))
        return 0;
    tft_time_to_date(time, &date);
    return (int64_t)date.year * 12 + date.month - 1;
}

void tft_time_look_add(struct tft_time_look *look, int64_t value)
{
    size_t digits = 0;

    for (int64_t rest = value; rest > 0; rest /= 10)
        digits++;
    if (look->rows && value != look->last) {
        look->changes++;
        look->ones += value == look->last + 1;
    }
    look->last = value;
    look->rows++;
    for (int i = 0; i < TFT_TIME_FORMS; i++) {
        int64_t month = digits ? form_month(i, value, digits) : 0;
        if (month < YEAR_FIRST * 12 || month >= (tft_time_forms[i].in_second ? YEAR_END_SINCE_1970 : YEAR_END) * 12) {
            look->first_other[i] = look->first_other[i] ? look->first_other[i] : look->rows;
            continue;
        }
        look->first_month[i] = !look->fits[i] || month < look->first_month[i] ? month : look->first_month[i];
        look->last_month[i] = !look->fits[i] || month > look->last_month[i] ? month : look->last_month[i];
        look->fits[i]++;
    }
}

/* Returns nonzero if counts may have the format by chance, because they would not have left it yet. */
static int may_be_chance(const struct tft_time_look *look, int form)
{
    if (form == FORM_SHORT)
        return look->first_month[form] == look->last_month[form];
    if (form == FORM_EPOCH)
        return look->ones * 2 > look->changes;
    return (form == FORM_DAY_OF_YEAR || form == FORM_WEEK || form == FORM_QUARTER) &&
           look->first_month[form] / 12 == look->last_month[form] / 12;
}

int tft_time_look_is_either(const struct tft_time_look *look)
{
    return look->rows && look->fits[FORM_EPOCH] == look->rows && may_be_chance(look, FORM_EPOCH);
}

int tft_time_look_form(const struct tft_time_look *look, int *fits_all)
{
    int best = -1;

    for (int i = 0; i < TFT_TIME_FORMS; i++) {
        if (!look->fits[i] || may_be_chance(look, i))
            continue;
        if (look->rows == look->fits[i] ? best < 0 || look->fits[best] < look->fits[i]
                                        : best < 0 && look->rows >= 10 && look->fits[i] * 10 >= look->rows * 9)
            best = i;
    }
    *fits_all = best >= 0 && look->fits[best] == look->rows;
    return best;
}

/* ---- texts ---- */

/* Reads up to four digits; returns their number. */
static size_t read_part(const char **text, int *value)
{
    size_t n = 0;

    for (*value = 0; n < 4 && **text >= '0' && **text <= '9'; n++, ++*text)
        *value = *value * 10 + (**text - '0');
    return n;
}

int tft_time_is_reversed(const char *text)
{
    static const char *const formats[] = { "%d%m%Y", "%m%d%Y" };
    struct tft_date date;
    int64_t time;

    for (size_t i = 0; *text == '0' && strspn(text, "0123456789") == 8 && i < 2; i++)
        if (!tft_time_parse(text, formats[i], &time)) {
            tft_time_to_date(time, &date);
            return date.year >= YEAR_FIRST && date.year < YEAR_END;
        }
    return 0;
}

int tft_time_is_moved(const char *text)
{
    const char *time = strpbrk(text, "T :"), *plus = strrchr(text, '+'), *minus = strrchr(text, '-');
    const char *offset = plus ? plus : minus;

    return time && offset > time && strchr("0123456789 Mm", offset[-1]) &&
           !offset[1 + strspn(offset + 1, "0123456789:")] && strpbrk(offset, "123456789");
}

/* Returns the end of a format for a time of day; NULL: it is not one. */
static const char *clock_of(const char *text)
{
    static const char *const formats[] = { "",          " %H:%M",       " %H:%M:%S", "T%H:%M",
                                           "T%H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p" };
    char all[32], format[32];
    int64_t ignored;

    snprintf(all, sizeof all, "2000%.20s", text);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        snprintf(format, sizeof format, "%%Y%s", formats[i]);
        if (!tft_time_parse(all, format, &ignored))
            return formats[i];
    }
    return NULL;
}

/* Suggests formats for two numbers and a year, whose order is ambiguous unless one is above 12. */
static int advise_order(const char *text, char *advice, size_t size)
{
    int first, second, year;
    size_t n = read_part(&text, &first);
    const char separator = *text;

    if (!n || n > 2 || !separator || !strchr("/.-", separator))
        return 0;
    text++;
    n = read_part(&text, &second);
    if (!n || n > 2 || *text != separator)
        return 0;
    text++;
    n = read_part(&text, &year);
    const char *clock = clock_of(text);
    if ((n != 2 && n != 4) || !clock || first < 1 || second < 1 || (first > 12 && second > 12))
        return 0;
    const char *y = n == 4 ? "%Y" : "%y", s[] = { separator, 0 };
    if (first > 12)
        snprintf(advice, size, " (set 'format', here \"%%d%s%%m%s%s%s\")", s, s, y, clock);
    else if (second > 12)
        snprintf(advice, size, " (set 'format', here \"%%m%s%%d%s%s%s\")", s, s, y, clock);
    else
        snprintf(advice, size,
                 " (set 'format': \"%%d%s%%m%s%s%s\" if the day is first, \"%%m%s%%d%s%s%s\" if the "
                 "month is)",
                 s, s, y, clock, s, s, y, clock);
    return 1;
}

void tft_time_advise(const char *text, char *advice, size_t size)
{
    struct tft_time_look look = { 0 };
    int64_t value;
    int fits_all, form = -1;

    /* A whole number that was a float once, as pandas writes a column with a gap. */
    const size_t digits = strspn(text, "0123456789");
    if (digits && digits < 20 && text[digits] == '.' && text[digits + 1 + strspn(text + digits + 1, "0")] == 0) {
        snprintf(advice, size, " (write %.*s)", (int)digits, text);
        return;
    }
    if (tft_time_is_reversed(text)) {
        snprintf(advice, size, " (set 'format': \"%%d%%m%%Y\" if the day is first, \"%%m%%d%%Y\" if the month is)");
        return;
    }
    if (tft_time_read_digits(text, &value)) {
        tft_time_look_add(&look, value);
        form = tft_time_look_form(&look, &fits_all);
    }
    if (form >= 0 && tft_time_forms[form].format)
        snprintf(advice, size, " (set 'format', here \"%s\")", tft_time_forms[form].format);
    else if (form >= 0)
        snprintf(advice, size, " (it looks like %s, which no format reads)", tft_time_forms[form].name);
    else if (!advise_order(text, advice, size))
        snprintf(advice, size, " (or set 'format')");
}
