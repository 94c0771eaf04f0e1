/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that charts of an explanation need besides its JSON.
 */
#include "tft/tools/explain/explain.h"
#include <math.h>
#include <stdlib.h>

enum { MAP_ROWS = 48, MAP_COLUMNS = 256 };

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Returns the mean attention of some steps of the horizon to some lags; not a number if no window has them. */
static double map_cell(const struct tft_explanation *e, size_t h, size_t tall, size_t lag, size_t wide)
{
    const struct tft_weighed *of = &e->of;
    double sum = 0;
    size_t n = 0;

    for (size_t i = h; i < h + tall && i < of->D; i++)
        for (size_t k = lag; k < lag + wide && k <= of->E + i; k++) {
            double value = tft_weight_sums_attention(&e->sums, of->heads, i, of->E + i - k);
            sum += isfinite(value) ? value : 0;
            n += isfinite(value) != 0;
        }
    return n ? sum / (double)n : NAN;
}

/* Returns attention by horizon (a list for each step) and lag, with cells joined where there are too many to draw. */
static json_t *map_json(const struct tft_explanation *e)
{
    const struct tft_weighed *of = &e->of;
    const size_t tall = (of->D + MAP_ROWS - 1) / MAP_ROWS, wide = (of->T + MAP_COLUMNS - 1) / MAP_COLUMNS;
    json_t *map = json_array();

    for (size_t h = 0; h < of->D; h += tall) {
        json_t *row = json_array();
        for (size_t lag = 0; lag < of->T; lag += wide)
            json_array_append_new(row, number(map_cell(e, h, tall, lag, wide)));
        json_array_append_new(map, row);
    }
    return map;
}

/* Returns a series' windows, with the one whose attention is farthest from the usual. */
static json_t *series_json(const struct tft_explanation *e, const struct tft_explained_series *s)
{
    const struct tft_single *far = &s->farthest;
    json_t *series =
        json_pack("{ss so so so so}", "entity", halay_tft_data_entity(e->data, s->entity, NULL), "from",
                  tft_explanation_moment(e, s->from), "until", tft_explanation_moment(e, s->until), "values",
                  tft_explanation_list(s->values, s->count), "distances", tft_explanation_list(s->distances, s->count));

    if (far->has_window)
        json_object_set_new(series, "farthest",
                            json_pack("{sI so so so so}", "at", (json_int_t)s->farthest_at, "origin",
                                      tft_explanation_moment(e, far->origin), "distance", number(far->value),
                                      "attention", tft_explanation_list(far->lags, e->of.T), "usual",
                                      tft_explanation_list(far->usual, e->of.T)));
    return series;
}

/* Returns a quantile of the first target at each step of the horizon. */
static json_t *quantile_json(const struct tft_explanation *e, const struct tft_single *s, size_t q)
{
    json_t *values = json_array();

    for (size_t h = 0; h < e->of.D; h++)
        json_array_append_new(values, number(s->values[h * e->target_count * e->quantile_count + q]));
    return values;
}

/* Returns the first target in the window's rows; null where it was not measured. NULL without memory. */
static enum halay_status read_actual(const struct tft_explanation *e, const struct tft_single *s, json_t **actual)
{
    const size_t rows = s->past + e->of.D, O = e->target_count;
    double *values = calloc(rows * O, sizeof *values);
    enum halay_status status;

    if (!values)
        return halay_no_memory(e->log, "for the forecasts to draw");
    status = halay_tft_data_actuals(e->data, s->entity, s->row - s->past, rows, values);
    *actual = status ? NULL : json_array();
    for (size_t i = 0; i < rows && !status; i++)
        json_array_append_new(*actual, number(values[i * O]));
    free(values);
    return status;
}

/* Adds a single forecast over the measured values, with the share of attention that each step of its window got. */
static enum halay_status add_forecast(const struct tft_explanation *e, const struct tft_single *s, json_t *list)
{
    const size_t shown = s->past + e->of.D, last = e->quantile_count - 1;
    json_t *actual = NULL, *attention = json_array();
    enum halay_status status = HALAY_OK;

    if (!s->has_window || (status = read_actual(e, s, &actual))) {
        json_decref(attention);
        return status;
    }
    json_t *picture =
        json_pack("{ss so sI so so so so s[sss]}", "entity", halay_tft_data_entity(e->data, s->entity, NULL), "from",
                  tft_explanation_moment(e, s->begin), "history", (json_int_t)s->past, "actual", actual, "low",
                  quantile_json(e, s, 0), "middle", quantile_json(e, s, e->median), "high", quantile_json(e, s, last),
                  "band", tft_quantile_name_of(e->quantiles[0]).text,
                  tft_quantile_name_of(e->quantiles[e->median]).text, tft_quantile_name_of(e->quantiles[last]).text);
    if (e->target_count > 1)
        json_object_set(picture, "target", json_array_get(json_object_get(e->of.about, "targets"), 0));
    for (size_t t = e->of.T - shown; t < e->of.T; t++)
        json_array_append_new(attention, number((double)s->places[t]));
    json_object_set_new(picture, "attention", attention);
    json_array_append_new(list, picture);
    return HALAY_OK;
}

enum halay_status tft_explanation_pictures(const struct tft_explanation *e, json_t *result)
{
    json_t *series = json_array(), *forecasts = json_array();
    enum halay_status status;

    for (size_t k = 0; k < e->series_count; k++)
        if (e->series[k].count > 1)
            json_array_append_new(series, series_json(e, &e->series[k]));
    (void)((status = add_forecast(e, &e->asked, forecasts)) || (status = add_forecast(e, &e->worst, forecasts)) ||
           (status = add_forecast(e, &e->best, forecasts)));
    json_object_set_new(result, "pictures",
                        json_pack("{so so so}", "map", map_json(e), "series", series, "forecasts", forecasts));
    return status;
}
