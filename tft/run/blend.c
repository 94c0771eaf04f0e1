/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/run/blend.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

/* The most training windows that the errors are taken from; they are spread evenly. */
enum { WINDOWS_MOST = 4000 };

/* The scaled value of a target's row of the block; NAN: not measured. */
static double value_at(const struct tft_data *d, size_t o, size_t row)
{
    size_t O = d->schema.target_count;

    return d->present[row * O + o] ? (double)d->values[(row + 1) * d->real_count - O + o] : NAN;
}

/* The root mean square of the differences of rows [first, end) to those a season before, of which begin is the first
 * that may be read; 0: there are none. */
static double unit_between(const struct tft_data *d, size_t o, size_t begin, size_t end)
{
    size_t season = d->schema.seasons[0], n = 0;
    double sum = 0;

    for (size_t row = begin + season; row < end; row++) {
        double x = value_at(d, o, row) - value_at(d, o, row - season);
        sum += isnan(x) ? 0 : x * x;
        n += !isnan(x);
    }
    return n ? sqrt(sum / (double)n) : 0;
}

static double unit_of(const struct tft_blend *b, const struct tft_data *d, const struct tft_window *w, size_t o)
{
    size_t code = d->codes[w->entity];
    double unit = code < b->entities ? b->units[code * b->targets + o] : 0;

    return unit > 0 ? unit : unit_between(d, o, w->origin - w->length, w->origin);
}

/* The last measured value before the origin in the window that is a whole number of seasons before step h; NAN: there
 * is none. */
static double naive_at(const struct tft_data *d, const struct tft_window *w, size_t o, size_t h)
{
    size_t season = d->schema.seasons[0];
    double value = NAN;

    for (size_t back = (h / season + 1) * season; back <= w->length + h && isnan(value); back += season)
        value = value_at(d, o, w->origin + h - back);
    return value;
}

static int is_blended(const struct tft_schema *s, size_t o)
{
    return s->inputs[s->targets[o]].blend;
}

static int blends(const struct tft_schema *s)
{
    for (size_t o = 0; o < s->target_count; o++)
        if (is_blended(s, o))
            return 1;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Training window i of `count`. */
static struct tft_window window_of(const struct tft_windows *windows, size_t i, size_t count)
{
    return tft_windows_get(windows, i * windows->count / count);
}

/* Quantiles of the errors of a target at one step; errors has room for `count`. */
static void fit_step(struct tft_blend *b, const struct tft_windows *windows, size_t count,
                     const struct tft_list *quantiles, size_t o, size_t h, double *errors)
{
    double *to = b->errors + (o * b->horizon + h) * b->quantile_count;
    const struct tft_data *d = windows->data;
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        struct tft_window w = window_of(windows, i, count);
        double error = (value_at(d, o, w.origin + h) - naive_at(d, &w, o, h)) / unit_of(b, d, &w, o);
        if (isfinite(error))
            errors[n++] = error;
    }
    qsort(errors, n, sizeof *errors, by_value);
    for (size_t q = 0; q < b->quantile_count; q++)
        to[q] = n ? errors[(size_t)(quantiles->values[q] * (double)(n - 1) + .5)] : 0;
}

static enum halay_status fit_units(struct tft_blend *b, const struct tft_data *d)
{
    enum halay_status status = HALAY_OK;

    for (size_t e = 0; e < d->entity_count && !status; e++) {
        const struct tft_entity *entity = &d->entities[e];
        size_t rows = tft_data_rows_before(d, e, d->schema.split_end[TFT_TRAIN]);
        status = tft_data_check(d, entity->first, entity->rows);
        for (size_t o = 0; o < b->targets && d->codes[e] < b->entities && !status; o++)
            b->units[d->codes[e] * b->targets + o] = unit_between(d, o, entity->first, entity->first + rows);
    }
    return status;
}

static enum halay_status blend_init(const struct tft_schema *s, size_t entities, size_t quantile_count,
                                    struct tft_blend *b)
{
    size_t errors, units;

    *b = (struct tft_blend){ s->horizon, s->target_count, quantile_count, entities, NULL, NULL, 1 };
    if (!halay_mul_overflows(s->horizon * s->target_count, quantile_count, &errors) &&
        !halay_mul_overflows(entities, s->target_count, &units)) {
        b->errors = calloc(errors, sizeof *b->errors);
        b->units = calloc(units + 1, sizeof *b->units);
    }
    if (b->errors && b->units)
        return HALAY_OK;
    tft_blend_fini(b);
    return HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_blend_fit(struct halay_log *log, const struct tft_windows *windows,
                                const struct tft_list *quantiles, struct tft_blend *b)
{
    const struct tft_data *d = windows->data;
    size_t count = windows->count < WINDOWS_MOST ? windows->count : WINDOWS_MOST;

    *b = (struct tft_blend){ .share = 1 };
    if (!blends(&d->schema))
        return HALAY_OK;
    double *errors = calloc(count + 1, sizeof *errors);
    enum halay_status status =
        errors ? blend_init(&d->schema, d->encoding.entity_count, quantiles->count, b) : HALAY_ERR_NO_MEMORY;
    if (status)
        halay_error(log, "no memory for the errors of naive forecasts");
    else
        status = fit_units(b, d);
    for (size_t i = 0; i < d->schema.target_count * d->schema.horizon && !status; i++)
        fit_step(b, windows, count, quantiles, i / b->horizon, i % b->horizon, errors);
    free(errors);
    if (status)
        tft_blend_fini(b);
    return status;
}

static json_t *list_of(const double *values, size_t n)
{
    json_t *all = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(all, json_real(values[i]))) {
            json_decref(all);
            return NULL;
        }
    return all;
}

json_t *tft_blend_json(const struct tft_blend *b)
{
    return json_pack("{so so}", "errors", list_of(b->errors, b->targets * b->horizon * b->quantile_count), "units",
                     list_of(b->units, b->entities * b->targets));
}

static enum halay_status take_list(const json_t *list, double *values, size_t n)
{
    if (json_array_size(list) != n)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < n; i++)
        values[i] = json_number_value(json_array_get(list, i));
    return HALAY_OK;
}

enum halay_status tft_blend_read(const json_t *json, const struct tft_schema *schema, size_t entities,
                                 size_t quantile_count, struct tft_blend *b)
{
    *b = (struct tft_blend){ .share = 1 };
    if (!blends(schema))
        return HALAY_OK;
    enum halay_status status = blend_init(schema, entities, quantile_count, b);
    if (!status)
        status = take_list(json_object_get(json, "errors"), b->errors, b->targets * b->horizon * b->quantile_count);
    if (!status)
        status = take_list(json_object_get(json, "units"), b->units, b->entities * b->targets);
    if (status)
        tft_blend_fini(b);
    return status;
}

void tft_blend_fini(struct tft_blend *b)
{
    free(b->errors);
    free(b->units);
    *b = (struct tft_blend){ .share = 1 };
}

enum halay_status tft_blend_apply(const struct tft_blend *b, const struct tft_data *d, const struct tft_window *w,
                                  float *p)
{
    enum halay_status status = tft_data_check(d, w->origin - w->length, w->length);

    for (size_t o = 0; o < b->targets && b->share < 1 && !status; o++) {
        double unit = unit_of(b, d, w, o);
        for (size_t h = 0; h < b->horizon && is_blended(&d->schema, o); h++) {
            double naive = naive_at(d, w, o, h);
            const double *errors = b->errors + (o * b->horizon + h) * b->quantile_count;
            float *to = p + (h * b->targets + o) * b->quantile_count;
            for (size_t q = 0; q < b->quantile_count && !isnan(naive); q++)
                to[q] = (float)(b->share * (double)to[q] + (1 - b->share) * (naive + unit * errors[q]));
        }
    }
    return status;
}
