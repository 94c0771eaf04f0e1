/* SPDX-License-Identifier: Apache-2.0
 *
 * View: a date is computed once a row, and without a division within a day; everything else is looked up.
 */
#include "tft/core/data/encoding.h"
#include <math.h>
#include <stdlib.h>

enum { DAY_SECONDS = 86400 };

enum halay_status tft_view_init(struct halay_log *log, const struct tft_schema *schema, const struct tft_table *table,
                                int64_t origin, struct tft_view *view)
{
    struct tft_view v = { .schema = schema, .table = table, .origin = origin };
    int dates = 0;

    for (size_t e = 0; e < table->series_count; e++)
        v.rows = table->series[e].rows > v.rows ? table->series[e].rows : v.rows;
    for (size_t i = 0; i < schema->input_count; i++)
        dates |= (schema->inputs[i].source == TFT_FROM_CALENDAR && schema->inputs[i].calendar != TFT_CALENDAR_STEPS) ||
                 schema->inputs[i].source == TFT_FROM_HOLIDAYS || schema->inputs[i].source == TFT_FROM_WAVE;
    if (dates) {
        v.dates = malloc((v.rows + 1) * sizeof *v.dates);
        v.times = malloc((v.rows + 1) * sizeof *v.times);
        if (!v.dates || !v.times) {
            halay_error(log, "no memory for the calendar");
            tft_view_fini(&v);
            return HALAY_ERR_NO_MEMORY;
        }
    }
    *view = v;
    return HALAY_OK;
}

void tft_view_fini(struct tft_view *view)
{
    free(view->dates);
    free(view->times);
    *view = (struct tft_view){ 0 };
}

/* Sets hour, minute and second of a date whose day begins at `midnight`. */
static void set_time_of_day(int64_t time, int64_t midnight, struct tft_date *date)
{
    const int in_day = (int)(time - midnight);

    date->hour = in_day / 3600;
    date->minute = in_day / 60 % 60;
    date->second = in_day % 60;
}

void tft_view_choose(struct tft_view *v, const struct tft_series *series)
{
    const struct tft_period *every = &v->schema->every;
    int regular = every->kind == TFT_PERIOD_SECONDS || every->kind == TFT_PERIOD_INTEGER;

    v->series = series;
    tft_series_touched(v->table, series);
    v->steps = regular ? (double)(series->start - v->origin) / (double)every->count
                       : (double)tft_period_between(every, v->origin, series->start);
    int64_t midnight = 0; /* of the row before */
    for (size_t i = 0; v->dates && i < series->rows; i++) {
        const int64_t time = tft_schema_clock(v->schema, tft_period_add(every, series->start, (int64_t)i));
        v->times[i] = time;
        if (i && time >= midnight && time - midnight < DAY_SECONDS) {
            v->dates[i] = v->dates[i - 1];
            set_time_of_day(time, midnight, &v->dates[i]);
        } else {
            tft_time_to_date(time, &v->dates[i]);
            midnight = tft_time_day(time) * DAY_SECONDS;
        }
    }
}

/* Returns a sine or cosine of part of a turn. */
static double wave(const struct tft_input *input, double turns)
{
    double angle = 2 * 3.14159265358979323846 * turns;

    return input->derivation == TFT_SINE ? sin(angle) : cos(angle);
}

/* Returns the position of a row in its wave's period: of the clock's time since 1970, or of the steps. */
static double turns_of(const struct tft_view *v, const struct tft_input *input, size_t row)
{
    double time = input->period_in_steps ? v->steps + (double)row : (double)v->times[row];

    return (double)input->harmonic * fmod(time, input->period) / input->period;
}

double tft_view_made(const struct tft_view *v, size_t number, size_t row)
{
    const struct tft_input *input = &v->schema->inputs[number];
    size_t columns = v->table->column_count, column = v->table->column_of[number];
    int first, count;

    if (input->source == TFT_FROM_HOLIDAYS)
        return input->days ? (double)tft_holidays_days(&input->holidays, v->times[row], input->days, input->days_most)
                           : tft_holidays_code(&input->holidays, v->times[row]) != 0;
    if (input->source == TFT_FROM_WAVE)
        return wave(input, turns_of(v, input, row));
    if (input->source == TFT_FROM_CALENDAR) {
        if (input->calendar == TFT_CALENDAR_STEPS)
            return v->steps + (double)row;
        double value = tft_calendar_value(input->calendar, &v->dates[row]);
        if (input->derivation == TFT_PLAIN)
            return value;
        tft_calendar_range(input->calendar, &first, &count);
        return wave(input, (value - first) / count);
    }
    return !v->series->measured[row * columns + column]; /* whether it was missing */
}

size_t tft_view_code(const struct tft_view *v, size_t number, size_t row)
{
    const struct tft_input *input = &v->schema->inputs[number];
    int first, count;

    if (input->source == TFT_FROM_HOLIDAYS)
        return (size_t)tft_holidays_code(&input->holidays, v->times[row]);
    tft_calendar_range(input->calendar, &first, &count);
    return (size_t)(tft_calendar_value(input->calendar, &v->dates[row]) - first);
}
