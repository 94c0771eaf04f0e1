/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/run/blend.h"
#include "base/memory.h"
#include <math.h>
#include <stdlib.h>

/* The most training windows that the errors are taken from (tft_spread). */
enum { WINDOWS_MOST = 4000 };

/* The value of a target's row of the block, scaled as forecasts are; NAN: not measured. */
static double value_at(const struct tft_data *d, size_t o, size_t row)
{
    return d->present[row * d->schema.target_count + o] ? tft_data_forecast_target(d, row, o) : NAN;
}

/* The root mean square of the differences of rows [begin, end) to those a season before; 0: there are none. */
static double unit_between(const struct tft_data *d, size_t o, size_t season, size_t begin, size_t end)
{
    size_t n = 0;
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

    return unit > 0 ? unit : unit_between(d, o, b->seasons[o], w->origin - w->length, w->origin);
}

/* The last measured value before the origin in the window that is a whole number of seasons before step h; NAN: there
 * is none. */
static double naive_at(const struct tft_data *d, const struct tft_window *w, size_t season, size_t o, size_t h)
{
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

/* What a naive forecast was off by, in that unit. */
struct miss {
    double error, unit;
};

static int by_error(const void *a, const void *b)
{
    const struct miss *x = a, *y = b;

    return (x->error > y->error) - (x->error < y->error);
}

/* Training window i of `count`. */
static struct tft_window window_of(const struct tft_windows *windows, size_t i, size_t count)
{
    return tft_windows_get(windows, tft_spread(i, count, windows->count));
}

/* What the naive forecasts are fitted to; misses has room for `count`. */
struct fit {
    const struct tft_windows *windows;
    const struct tft_list *quantiles;
    size_t count;
    struct miss *misses;
};

/* Quantiles of the errors of a target at one step; the mean quantile loss that they leave: 0 where nothing varies,
 * infinite where no window's past reaches so far back. */
static double fit_step(struct tft_blend *b, const struct fit *f, size_t o, size_t h)
{
    double *to = b->errors + (o * b->horizon + h) * b->quantile_count, loss = 0;
    const struct tft_data *d = f->windows->data;
    size_t n = 0, known = 0;

    for (size_t i = 0; i < f->count; i++) {
        struct tft_window w = window_of(f->windows, i, f->count);
        double unit = unit_of(b, d, &w, o), naive = naive_at(d, &w, b->seasons[o], o, h),
               error = (value_at(d, o, w.origin + h) - naive) / unit;
        known += !isnan(naive);
        if (isfinite(error))
            f->misses[n++] = (struct miss){ error, unit };
    }
    qsort(f->misses, n, sizeof *f->misses, by_error);
    for (size_t q = 0; q < b->quantile_count; q++) {
        double quantile = f->quantiles->values[q];
        to[q] = n ? f->misses[(size_t)(quantile * (double)(n - 1) + .5)].error : 0;
        for (size_t i = 0; i < n; i++) {
            double over = f->misses[i].error - to[q];
            loss += f->misses[i].unit * fmax(quantile * over, (quantile - 1) * over) / (double)n;
        }
    }
    return known || !f->count ? loss : INFINITY;
}

static void fit_units(struct tft_blend *b, const struct tft_data *d, size_t o)
{
    for (size_t e = 0; e < d->entity_count; e++) {
        const struct tft_entity *entity = &d->entities[e];
        size_t rows = tft_data_rows_before(d, e, d->schema.split_end[TFT_TRAIN]);
        if (d->codes[e] < b->entities)
            b->units[d->codes[e] * b->targets + o] =
                unit_between(d, o, b->seasons[o], entity->first, entity->first + rows);
    }
}

/* One target's, with this season; the loss of its naive forecasts in training. */
static double fit_season(struct tft_blend *b, const struct fit *f, size_t o, size_t season)
{
    double loss = 0;

    b->seasons[o] = season;
    fit_units(b, f->windows->data, o);
    for (size_t h = 0; h < b->horizon; h++)
        loss += fit_step(b, f, o, h);
    return loss;
}

/* With the best season that a window's past holds. */
static void fit_target(struct tft_blend *b, const struct fit *f, size_t o)
{
    const struct tft_schema *s = &f->windows->data->schema;
    size_t best = 1;
    double lowest = fit_season(b, f, o, 1);

    for (size_t k = 0; k < s->season_count; k++) {
        double loss = s->seasons[k] <= s->encoder ? fit_season(b, f, o, s->seasons[k]) : INFINITY;
        if (loss <= lowest) { /* of the same loss the schema's own */
            lowest = loss;
            best = s->seasons[k];
        }
    }
    (void)fit_season(b, f, o, best);
}

static enum halay_status check_rows(const struct tft_data *d)
{
    enum halay_status status = HALAY_OK;

    for (size_t e = 0; e < d->entity_count && !status; e++)
        status = tft_data_check(d, d->entities[e].first, d->entities[e].rows);
    return status;
}

static enum halay_status blend_init(const struct tft_schema *s, size_t entities, size_t quantile_count,
                                    struct tft_blend *b)
{
    size_t errors, units;

    *b = (struct tft_blend){ .horizon = s->horizon,
                             .targets = s->target_count,
                             .quantile_count = quantile_count,
                             .entities = entities,
                             .share = .5 };
    if (!halay_mul_overflows(s->horizon * s->target_count, quantile_count, &errors) &&
        !halay_mul_overflows(entities, s->target_count, &units)) {
        b->errors = calloc(errors, sizeof *b->errors);
        b->units = calloc(units + 1, sizeof *b->units);
        b->seasons = calloc(s->target_count, sizeof *b->seasons);
    }
    if (b->errors && b->units && b->seasons)
        return HALAY_OK;
    tft_blend_fini(b);
    return HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_blend_fit(struct halay_log *log, const struct tft_windows *windows,
                                const struct tft_list *quantiles, struct tft_blend *b)
{
    const struct tft_data *d = windows->data;
    struct fit f = { windows, quantiles, windows->count < WINDOWS_MOST ? windows->count : WINDOWS_MOST, NULL };

    *b = (struct tft_blend){ .share = 1 };
    if (!blends(&d->schema))
        return HALAY_OK;
    f.misses = calloc(f.count + 1, sizeof *f.misses);
    enum halay_status status =
        f.misses ? blend_init(&d->schema, d->encoding.entity_count, quantiles->count, b) : HALAY_ERR_NO_MEMORY;
    if (status)
        halay_error(log, "no memory for the errors of naive forecasts");
    else
        status = check_rows(d);
    for (size_t o = 0; o < d->schema.target_count && !status; o++)
        fit_target(b, &f, o);
    free(f.misses);
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
    json_t *seasons = json_array();

    for (size_t o = 0; o < b->targets && seasons; o++)
        if (json_array_append_new(seasons, json_integer((json_int_t)b->seasons[o]))) {
            json_decref(seasons);
            seasons = NULL;
        }
    return json_pack("{so so so}", "errors", list_of(b->errors, b->targets * b->horizon * b->quantile_count), "units",
                     list_of(b->units, b->entities * b->targets), "seasons", seasons);
}

static enum halay_status take_list(const json_t *list, double *values, size_t n)
{
    if (json_array_size(list) != n)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < n; i++)
        values[i] = json_number_value(json_array_get(list, i));
    return HALAY_OK;
}

/* A run that has none was trained when it was always the schema's first. */
static enum halay_status take_seasons(const json_t *list, const struct tft_schema *schema, struct tft_blend *b)
{
    if (list && json_array_size(list) != b->targets)
        return HALAY_ERR_FORMAT;
    for (size_t o = 0; o < b->targets; o++) {
        json_int_t season = list ? json_integer_value(json_array_get(list, o)) : (json_int_t)schema->seasons[0];
        if (season < 1 || season > TFT_SEASON_LONGEST)
            return HALAY_ERR_FORMAT;
        b->seasons[o] = (size_t)season;
    }
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
    if (!status)
        status = take_seasons(json_object_get(json, "seasons"), schema, b);
    if (status)
        tft_blend_fini(b);
    return status;
}

void tft_blend_fini(struct tft_blend *b)
{
    free(b->errors);
    free(b->units);
    free(b->seasons);
    *b = (struct tft_blend){ .share = 1 };
}

enum halay_status tft_blend_apply(const struct tft_blend *b, const struct tft_data *d, const struct tft_window *w,
                                  const struct tft_occlusion *occlusion, float *p)
{
    enum halay_status status = tft_data_check(d, w->origin - w->length, w->length);

    for (size_t o = 0; o < b->targets && b->share < 1 && !status; o++) {
        double unit = unit_of(b, d, w, o), stand_in = occlusion ? tft_occlusion_target(occlusion, d, w, o) : NAN;
        for (size_t h = 0; h < b->horizon && is_blended(&d->schema, o); h++) {
            double naive = naive_at(d, w, b->seasons[o], o, h);
            if (!isnan(naive) && !isnan(stand_in))
                naive = stand_in;
            const double *errors = b->errors + (o * b->horizon + h) * b->quantile_count;
            float *to = p + (h * b->targets + o) * b->quantile_count;
            for (size_t q = 0; q < b->quantile_count && !isnan(naive); q++)
                to[q] = (float)(b->share * (double)to[q] + (1 - b->share) * (naive + unit * errors[q]));
        }
    }
    return status;
}
