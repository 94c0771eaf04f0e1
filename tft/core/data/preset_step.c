/* SPDX-License-Identifier: Apache-2.0
 *
 * Preset: finds the step from row to row.
 *
 * Steps between two rows of one entity are counted. The step is the commonest one that nine tenths of them are whole
 * numbers of; so neither one wrong time nor gaps decide it. It is in months if most rows are on months' same days, in
 * business days if no more than one row in a hundred is on a weekend, of some hours of each day if no more than one in
 * a hundred is at others. Rows that do not fit it are named when the table is read. An entity of a step of its own is
 * named here, and so is one whose wrong time would move the splits.
 */
#include "tft/core/data/preset_impl.h"
#include "tft/core/data/table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps of one length. */
struct length {
    int64_t length;
    size_t count;
};

/* ---- lengths ---- */

static int compare_moments(const void *a, const void *b)
{
    const struct tft_moment *x = a, *y = b;

    if (x->entity != y->entity)
        return x->entity < y->entity ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

static int by_length(const void *a, const void *b)
{
    const struct length *x = a, *y = b;

    return (x->length > y->length) - (x->length < y->length);
}

/* The commonest first, of equal counts the shortest. */
static int by_count(const void *a, const void *b)
{
    const struct length *x = a, *y = b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return by_length(a, b);
}

/* Returns the step from moment i - 1 to i in a unit; 0: the two are of different entities or not whole units apart. */
static int64_t step_at(const struct tft_preset_scan *s, const struct tft_period *unit, size_t i)
{
    const struct tft_moment *a = &s->moments[i - 1], *b = &s->moments[i];

    if (a->entity != b->entity || a->time == b->time)
        return 0;
    int64_t n = tft_period_between(unit, a->time, b->time);
    return tft_period_add(unit, a->time, n) == b->time ? n : 0;
}

/* Counts the steps of the moments [first, last), in a unit, into `lengths`, which has room for all. Returns the number
 * of lengths, the commonest first; *all: the number of steps. */
static size_t count_lengths(const struct tft_preset_scan *s, const struct tft_period *unit, size_t first, size_t last,
                            struct length *lengths, size_t *all)
{
    size_t n = 0, kinds = 0;

    for (size_t i = first + 1; i < last; i++) {
        int64_t step = step_at(s, unit, i);
        if (step)
            lengths[n++] = (struct length){ step, 1 };
    }
    qsort(lengths, n, sizeof *lengths, by_length);
    for (size_t i = 0; i < n; i++)
        if (kinds && lengths[kinds - 1].length == lengths[i].length)
            lengths[kinds - 1].count++;
        else
            lengths[kinds++] = lengths[i];
    qsort(lengths, kinds, sizeof *lengths, by_count);
    *all = n;
    return kinds;
}

/* Returns the commonest length of which nine tenths of the steps are multiples; 0: not found among the commonest. */
static int64_t common_length(const struct length *lengths, size_t kinds, size_t all)
{
    enum { TRIED = 64 };

    for (size_t k = 0; k < kinds && k < TRIED; k++) {
        size_t fit = 0;
        for (size_t i = 0; i < kinds; i++)
            fit += lengths[i].length % lengths[k].length ? 0 : lengths[i].count;
        if (fit * 10 >= all * 9)
            return lengths[k].length;
    }
    return 0;
}

/* ---- series ---- */

size_t tft_preset_series_end(const struct tft_preset_scan *s, size_t first)
{
    size_t last = first;

    while (last < s->count && s->moments[last].entity == s->moments[first].entity)
        last++;
    return last;
}

size_t tft_preset_count_steps(const struct tft_preset_scan *s, const struct tft_period *step)
{
    size_t all = 0;

    for (size_t first = 0, last; first < s->count; first = last) {
        last = tft_preset_series_end(s, first);
        all += (size_t)tft_period_between(step, s->moments[first].time, s->moments[last - 1].time);
    }
    return all;
}

/* ---- the step ---- */

/* Returns nonzero if no more than one row in a hundred is on a weekend. */
static int skips_weekends(const struct tft_preset_scan *s)
{
    struct tft_date date;
    size_t n = 0;

    for (size_t i = 0; i < s->count; i++) {
        tft_time_to_date(s->moments[i].time, &date);
        n += date.day_of_week >= 5;
    }
    return n * 100 <= s->count;
}

static void print_step(int64_t number, const char *unit, char *text, size_t size)
{
    snprintf(text, size, "%lld%s", (long long)number, unit);
}

static void print_seconds(int64_t seconds, char *text, size_t size)
{
    static const struct {
        int seconds;
        const char *unit;
    } units[] = { { TFT_WEEK, "w" }, { TFT_DAY, "d" }, { TFT_HOUR, "h" }, { TFT_MINUTE, "min" }, { 1, "s" } };
    size_t i = 0;

    while (seconds % units[i].seconds)
        i++;
    print_step(seconds / units[i].seconds, units[i].unit, text, size);
}

/* Counts rows that are resampled by the periods that contain them. */
static void take_periods(struct tft_preset_scan *s)
{
    for (size_t i = 0; i < s->count; i++)
        s->moments[i].time = tft_period_floor(&s->every, s->moments[i].time);
    s->first = tft_period_floor(&s->every, s->first);
    s->last = tft_period_floor(&s->every, s->last);
}

static enum halay_status take_step(struct tft_preset_scan *s, const json_t *every)
{
    const struct tft_where w = tft_preset_where(s);
    char text[32] = "";

    if (json_is_integer(every))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(every));
    else if (json_is_string(every))
        snprintf(text, sizeof text, "%.31s", json_string_value(every));
    if (tft_period_parse(text, &s->every) || (s->every.kind == TFT_PERIOD_INTEGER) != s->counts)
        return tft_where_wrong(
            &w, "every", s->counts ? "a whole number, as the times are" : "a step like 1h, 1d, 1M or 1h 08:00-16:00");
    memcpy(s->every_text, text, sizeof text);
    if (json_object_get(s->given, "resample"))
        take_periods(s);
    return HALAY_OK;
}

static int second_of_day(int64_t time)
{
    return (int)(time - tft_time_day(time) * TFT_DAY);
}

/* Counts the rows of each step of a day; those at other times are not counted. */
static size_t count_slots(const struct tft_preset_scan *s, int step, int phase, size_t *rows)
{
    size_t most = 0;

    for (size_t i = 0; i < s->count; i++) {
        const int second = second_of_day(s->moments[i].time);
        size_t *slot = &rows[second / step];
        *slot += second % step == phase;
        most = *slot > most ? *slot : most;
    }
    return most;
}

/* Returns nonzero if the rows keep to some hours of each day: all but one in a hundred, and at least half of the steps
 * of these. */
static int find_hours(const struct tft_preset_scan *s, int64_t least, struct tft_period *step)
{
    enum { SLOTS_MOST = TFT_DAY / TFT_MINUTE };
    size_t rows[SLOTS_MOST] = { 0 }, first = 0, inside = 0;

    if (s->counts || s->zone || least >= TFT_DAY || TFT_DAY % least || least % TFT_MINUTE ||
        s->last - s->first < TFT_WEEK)
        return 0;
    const size_t slots = (size_t)(TFT_DAY / least);
    const int phase = second_of_day(s->first) % (int)least;
    const size_t most = count_slots(s, (int)least, phase, rows);
    size_t last = slots - 1;
    while (first < last && 4 * rows[first] < most)
        first++;
    while (last > first && 4 * rows[last] < most)
        last--;
    for (size_t i = first; i <= last; i++)
        inside += rows[i];
    const size_t steps = last - first + 1;
    if (phase % TFT_MINUTE || steps < 2 || 4 * steps > 3 * slots || 100 * (s->count - inside) > s->count)
        return 0;
    *step = (struct tft_period){ TFT_PERIOD_HOURS,
                                 least,
                                 { phase + (int)((int64_t)first * least), (int)steps, skips_weekends(s) ? 5 : 7 } };
    return 2 * s->count >= tft_preset_count_steps(s, step);
}

/* Prints "1h 08:00-16:00". */
static void print_hours(const struct tft_preset_scan *s, const struct tft_period *step, char *text, size_t size)
{
    const int begin = step->hours.begin / TFT_MINUTE;
    const int end = begin + (int)((step->hours.steps - 1) * step->count / TFT_MINUTE);

    print_seconds(step->count, text, size);
    const size_t used = strlen(text);
    snprintf(text + used, size - used, " %02d:%02d-%02d:%02d%s", begin / 60, begin % 60, end / 60, end % 60,
             step->hours.days == 5 ? " B" : "");
    halay_warning(s->log, "the rows are of the same hours of each %sday, and so are the steps: every '%s'",
                  step->hours.days == 5 ? "business " : "", text);
}

/* Returns nonzero if there is one row a month, on days that differ between months, such as the last business days. */
static int is_one_a_month(const struct tft_preset_scan *s)
{
    struct tft_date a, b;
    size_t n = 0, fit = 0;

    for (size_t i = 1; i < s->count; i++) {
        if (s->moments[i].entity != s->moments[i - 1].entity)
            continue;
        tft_time_to_date(s->moments[i - 1].time, &a);
        tft_time_to_date(s->moments[i].time, &b);
        fit += (b.year - a.year) * 12 + b.month - a.month == 1;
        n++;
    }
    return fit * 10 >= n * 9;
}

/* Returns nonzero if all rows are on the last business days of months, or a few days (holidays) before them. */
static int are_month_ends(const struct tft_preset_scan *s)
{
    struct tft_date date;

    for (size_t i = 0; i < s->count; i++) {
        tft_time_to_date(s->moments[i].time, &date);
        if (date.day < 24 || date.day_of_week >= 5)
            return 0;
    }
    return is_one_a_month(s);
}

/* Returns the number of months in steps of four weeks and more; 0: they are not months. */
static int64_t months_of(const struct tft_preset_scan *s, size_t all, struct length *lengths)
{
    static const struct tft_period month = { .kind = TFT_PERIOD_MONTHS, .count = 1 };
    size_t whole, kinds = count_lengths(s, &month, 0, s->count, lengths, &whole);

    return 2 * whole >= all && (whole == all || !are_month_ends(s)) ? common_length(lengths, kinds, whole) : 0;
}

/* Returns nonzero if there are two rows a month, on the same days of each, like the 1st and the 15th. */
static int is_two_a_month(const struct tft_preset_scan *s)
{
    struct tft_date date;
    size_t n[32] = { 0 }, first = 0, second = 0;

    for (size_t i = 0; i < s->count; i++) {
        tft_time_to_date(s->moments[i].time, &date);
        n[date.day]++;
    }
    for (int day = 1; day <= 31; day++) {
        second = n[day] > first ? first : n[day] > second ? n[day] : second;
        first = n[day] > first ? n[day] : first;
    }
    return (first + second) * 10 >= s->count * 9 && second * 3 >= s->count;
}

/* Moves each row, the only one of its month, to the month's first day. */
static enum halay_status take_months(struct tft_preset_scan *s)
{
    struct tft_date date;

    for (size_t i = 0; i < s->count; i++) {
        tft_time_to_date(s->moments[i].time, &date);
        s->moments[i].time = tft_time_from_date(date.year, date.month, 1, 0, 0, 0);
        s->first = !i || s->moments[i].time < s->first ? s->moments[i].time : s->first;
        s->last = !i || s->moments[i].time > s->last ? s->moments[i].time : s->last;
    }
    halay_warning(s->log, "'%s' has one row a month, at its end on different days: the first day represents the month",
                  s->ds);
    s->resamples = 1;
    print_step(1, "M", s->every_text, sizeof s->every_text);
    return tft_period_parse(s->every_text, &s->every) ? HALAY_ERR_FORMAT : HALAY_OK;
}

static enum halay_status no_common_step(const struct tft_preset_scan *s, const struct length *commonest, size_t all)
{
    char text[32];

    if (!s->counts && commonest->length >= 27 * TFT_DAY && is_one_a_month(s))
        return halay_fail(
            s->log, HALAY_ERR_FORMAT,
            "'%s' has one row a month, on different days; write the month (2020-01) or its first day, or give "
            "a schema with 'every: 1M' and 'resample'",
            s->ds);
    if (!s->counts && is_two_a_month(s))
        return halay_fail(
            s->log, HALAY_ERR_FORMAT,
            "'%s' has two rows a month, on the same days, which no step is between; number the rows (a whole "
            "number as time, --season 24), or give a schema with 'every: 1M' and 'resample'",
            s->ds);
    if (s->counts)
        print_step(commonest->length, "", text, sizeof text);
    else
        print_seconds(commonest->length, text, sizeof text);
    return halay_fail(
        s->log, HALAY_ERR_FORMAT,
        "the rows have no step in common: the commonest, %s, is that of %zu of %zu; give 'every', or a schema "
        "with 'resample' for irregular rows",
        text, commonest->count, all);
}

static enum halay_status choose_step(struct tft_preset_scan *s, struct length *lengths)
{
    static const struct tft_period one = { .kind = TFT_PERIOD_INTEGER, .count = 1 };
    struct tft_period hours;
    size_t all, kinds = count_lengths(s, &one, 0, s->count, lengths, &all);

    if (!all)
        return halay_fail(s->log, HALAY_ERR_FORMAT,
                          "no series has two rows with different '%s', so the step from row to row is unknown", s->ds);
    const struct length commonest = lengths[0];
    const int64_t least = common_length(lengths, kinds, all);
    const int64_t months = !s->counts && commonest.length >= 28 * TFT_DAY ? months_of(s, all, lengths) : 0;
    if (!months && !s->counts && commonest.length >= 27 * TFT_DAY && are_month_ends(s))
        return take_months(s);
    if (!least && !months)
        return no_common_step(s, &commonest, all);
    if (s->counts)
        print_step(least, "", s->every_text, sizeof s->every_text);
    else if (months)
        print_step(months, "M", s->every_text, sizeof s->every_text);
    else if (least == TFT_DAY && s->last - s->first >= TFT_WEEK && skips_weekends(s))
        print_step(1, "B", s->every_text, sizeof s->every_text);
    else if (find_hours(s, least, &hours))
        print_hours(s, &hours, s->every_text, sizeof s->every_text);
    else
        print_seconds(least, s->every_text, sizeof s->every_text);
    if (!tft_period_parse(s->every_text, &s->every))
        return HALAY_OK;
    return halay_fail(s->log, HALAY_ERR_FORMAT, "the step from row to row, %s, is too long", s->every_text);
}

/* ---- checks of each entity ---- */

/* Returns nonzero if the table would be a twentieth shorter without the moments [first, last), at its beginning or its
 * end, and none other is as far out. Another one is mostly found at once: tables may have many series. */
static int is_alone(const struct tft_preset_scan *s, size_t first, size_t last, int is_begin)
{
    const int64_t outermost = is_begin ? s->first : s->last;
    int64_t end = is_begin ? s->last : s->first;

    if (s->moments[is_begin ? first : last - 1].time != outermost)
        return 0;
    for (size_t i = 0; i < s->count; i++) {
        int64_t time = s->moments[i].time;
        if (i >= first && i < last)
            continue;
        if (time == outermost)
            return 0;
        if (is_begin ? time < end : time > end)
            end = time;
    }
    return (is_begin ? end - s->first : s->last - end) > (s->last - s->first) / 20;
}

/* Fails on one wrong time at an end of the table, which moves the splits' bounds away from the rows. */
static enum halay_status check_ends(const struct tft_preset_scan *s, size_t first, size_t last)
{
    int64_t widest = 0;
    size_t at = first;
    char from[32], to[32];

    for (size_t i = first + 1; i < last; i++) {
        int64_t steps = tft_period_between(&s->every, s->moments[i - 1].time, s->moments[i].time);
        if (steps > widest) {
            widest = steps;
            at = i;
        }
    }
    const struct tft_moment *m = s->moments;
    const size_t before = at - first, after = last - at, rows = last - first;
    if (widest < 2 || !tft_gap_is_odd((size_t)widest - 1, before, rows) ||
        (before > 1 + rows / 1000 && after > 1 + rows / 1000) ||
        !is_alone(s, before < after ? first : at, before < after ? at : last, before < after))
        return HALAY_OK;
    tft_preset_print_moment(s, m[at - 1].time, from);
    tft_preset_print_moment(s, m[at].time, to);
    return halay_fail(
        s->log, HALAY_ERR_FORMAT,
        "'%s' has no row between %s and %s, where %lld steps of %s are missing: is one of the two a wrong time? If "
        "both are right, say 'gaps: fill' in a schema",
        s->ids.texts[m[first].entity], from, to, (long long)widest - 1, s->every_text);
}

/* Fails on one row of other series far before or after all the rest, which moves the bounds, too. */
static enum halay_status check_bound(const struct tft_preset_scan *s, int at_end)
{
    const int64_t part = (s->last - s->first) / 20, bound = at_end ? s->last - part : s->first + part;
    const struct tft_moment *outer = NULL, *inner = NULL; /* on each side of the bound the ones nearest to it */
    char from[32], to[32];
    size_t n = 0;

    for (size_t i = 0; i < s->count; i++) {
        const struct tft_moment *m = &s->moments[i];
        const int64_t beyond = at_end ? m->time - bound : bound - m->time;
        const struct tft_moment **nearest = beyond > 0 ? &outer : &inner;
        n += beyond > 0;
        if (!*nearest || ((at_end == (beyond > 0)) ? m->time < (*nearest)->time : m->time > (*nearest)->time))
            *nearest = m;
    }
    if (!outer || !inner || n > 1 + s->count / 1000)
        return HALAY_OK;
    const int64_t before = at_end ? inner->time : outer->time, after = at_end ? outer->time : inner->time;
    if (after - before <= part || tft_period_between(&s->every, before, after) <= 11)
        return HALAY_OK;
    tft_preset_print_moment(s, outer->time, from);
    tft_preset_print_moment(s, inner->time, to);
    return halay_fail(
        s->log, HALAY_ERR_FORMAT,
        "'%s' has a row at %s, and %s of all others is at %s: is that a wrong time? If it is right, say 'gaps: "
        "fill', or where the splits end, in a schema",
        s->ids.texts[outer->entity], from, at_end ? "the last" : "the first", to);
}

/* Returns the number of steps from row to row of an entity, if most of its rows are more than one apart. */
static int64_t own_step(const struct tft_preset_scan *s, size_t first, size_t last, struct length *lengths)
{
    size_t all, kinds = count_lengths(s, &s->every, first, last, lengths, &all);

    return kinds && all >= 4 && 2 * lengths[0].count >= all ? lengths[0].length : 1;
}

/* Checks each entity. */
static enum halay_status check_entities(const struct tft_preset_scan *s, struct length *lengths)
{
    const int fills = tft_preset_says(s->given, "gaps", "fill");
    size_t others = 0, entity = 0;
    int64_t step = 1;
    enum halay_status status = HALAY_OK;

    for (size_t first = 0, last; first < s->count && !status && !fills; first = last) {
        last = tft_preset_series_end(s, first);
        int64_t own = own_step(s, first, last, lengths);
        if (own > 1 && !others++) {
            entity = s->moments[first].entity;
            step = own;
        }
        status = check_ends(s, first, last);
    }
    for (int at_end = 0; at_end < 2 && !status && !fills && !json_object_get(s->given, "split"); at_end++)
        status = check_bound(s, at_end);
    if (!status && others && !json_object_get(s->given, "every"))
        halay_warning(
            s->log,
            "%zu of %zu series have another step than %s: '%s' has a row every %lld of them; the steps between "
            "are filled, so prepare them apart",
            others, s->ids.count, s->every_text, s->ids.texts[entity], (long long)step);
    return status;
}

/* Fails if rows of one series share times, except where a clock is set back: then a column must identify their
 * series. */
static enum halay_status check_single(const struct tft_preset_scan *s)
{
    size_t doubled = 0;

    for (size_t i = 1; i < s->count && s->id_constant; i++)
        doubled += s->moments[i].time == s->moments[i - 1].time;
    if (doubled * 10 <= s->count)
        return HALAY_OK;
    return halay_fail(
        s->log, HALAY_ERR_FORMAT,
        "%zu of %zu rows have the time of another one, and no column has the ids of their series; give its "
        "name (--columns id,%s,%s; in a schema, id: {column: NAME})",
        doubled, s->count, s->ds, s->y ? s->y : "y");
}

enum halay_status tft_preset_find_step(struct tft_preset_scan *s)
{
    const json_t *of_resample = json_object_get(json_object_get(s->given, "resample"), "every");
    const json_t *every = of_resample ? of_resample : json_object_get(s->given, "every");
    struct length *lengths = malloc((s->count + 1) * sizeof *lengths);
    enum halay_status status;

    if (!lengths)
        return tft_preset_no_memory(s);
    if (s->count)
        qsort(s->moments, s->count, sizeof *s->moments, compare_moments);
    if (!(status = check_single(s)) && !(status = every ? take_step(s, every) : choose_step(s, lengths)))
        status = check_entities(s, lengths);
    free(lengths);
    return status;
}
