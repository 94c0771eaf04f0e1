/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that charts of an explanation need besides its JSON.
 */
#include "tft/core/score/pictures.h"
#include "tft/tools/explain/explain.h"
#include <math.h>

enum { MAP_ROWS = 48, MAP_COLUMNS = 256 };

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *floats_json(const float *values, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, number((double)values[i]));
    return list;
}

static json_t *doubles_json(const double *values, size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, number(values[i]));
    return list;
}

/* Returns the mean attention of some steps of the horizon to some lags; not a number if no window has them. */
static double map_cell(const struct tft_explanation *e, size_t h, size_t tall, size_t lag, size_t wide)
{
    const struct tft_weight_reader *r = &e->reader;
    double sum = 0;
    size_t n = 0;

    for (size_t i = h; i < h + tall && i < r->D; i++)
        for (size_t k = lag; k < lag + wide && k <= r->E + i; k++) {
            double value = tft_weight_sums_attention(&e->sums, r->heads, i, r->E + i - k);
            sum += isfinite(value) ? value : 0;
            n += isfinite(value) != 0;
        }
    return n ? sum / (double)n : NAN;
}

/* Returns attention by horizon (a list for each step) and lag, with cells joined where there are too many to draw. */
static json_t *map_json(const struct tft_explanation *e)
{
    const struct tft_weight_reader *r = &e->reader;
    const size_t tall = (r->D + MAP_ROWS - 1) / MAP_ROWS, wide = (r->T + MAP_COLUMNS - 1) / MAP_COLUMNS;
    json_t *map = json_array();

    for (size_t h = 0; h < r->D; h += tall) {
        json_t *row = json_array();
        for (size_t lag = 0; lag < r->T; lag += wide)
            json_array_append_new(row, number(map_cell(e, h, tall, lag, wide)));
        json_array_append_new(map, row);
    }
    return map;
}

static json_t *moment_json(const struct tft_explanation *e, const struct tft_window *window)
{
    const struct tft_data *d = &e->inference->data;
    char text[40];

    tft_schema_print_time(&d->schema, tft_data_time(d, window->entity, window->origin - 1), text, sizeof text);
    return json_string(text);
}

/* Returns a series' windows, with the one whose attention is farthest from the usual. */
static json_t *series_json(const struct tft_explanation *e, const struct tft_explained_series *s)
{
    const size_t before = tft_windows_before(&e->windows, s->entity);
    const struct tft_window first = tft_windows_get(&e->windows, before);
    const struct tft_window last = tft_windows_get(&e->windows, before + s->count - 1);
    const struct tft_single *far = &s->farthest;
    json_t *series = json_pack("{ss so so so so}", "entity", e->inference->data.entities[s->entity].id, "from",
                               moment_json(e, &first), "until", moment_json(e, &last), "values",
                               doubles_json(s->values, s->count), "distances", doubles_json(s->distances, s->count));
    size_t at = 0;

    while (at < s->count && tft_windows_get(&e->windows, before + at).origin != far->window.origin)
        at++;
    if (far->has_window && at < s->count)
        json_object_set_new(series, "farthest",
                            json_pack("{sI so so so so}", "at", (json_int_t)at, "origin", moment_json(e, &far->window),
                                      "distance", number(far->value), "attention",
                                      floats_json(far->numbers + e->layout.lags, e->reader.T), "usual",
                                      floats_json(far->usual, e->reader.T)));
    return series;
}

/* Adds a single forecast over the measured values, with the share of attention that each step of its window got. */
static enum halay_status add_forecast(const struct tft_explanation *e, const struct tft_single *single, json_t *list)
{
    const size_t shown = single->window.length + e->reader.D;
    json_t *picture = NULL;

    if (!single->has_window)
        return HALAY_OK;
    enum halay_status status =
        tft_picture_forecast(e->inference, &single->window, single->numbers, 0, single->window.length, &picture);
    if (status)
        return status;
    json_object_set_new(picture, "attention",
                        floats_json(single->numbers + e->layout.places + e->reader.T - shown, shown));
    json_array_append_new(list, picture);
    return HALAY_OK;
}

enum halay_status tft_explanation_pictures(const struct tft_explanation *e, json_t *result)
{
    json_t *series = json_array(), *forecasts = json_array();
    enum halay_status status = HALAY_OK;

    for (size_t k = 0; k < e->series_count; k++)
        if (e->series[k].count > 1)
            json_array_append_new(series, series_json(e, &e->series[k]));
    if (!(status = add_forecast(e, &e->asked, forecasts)) && !(status = add_forecast(e, &e->worst, forecasts)))
        status = add_forecast(e, &e->best, forecasts);
    json_object_set_new(result, "pictures",
                        json_pack("{so so so}", "map", map_json(e), "series", series, "forecasts", forecasts));
    return status;
}
