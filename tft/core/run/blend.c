/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/blend.h"
#include "base/number_text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The most training windows that errors are taken from (tft_spread), and the most errors of a target at a time. */
enum { WINDOWS_MAX = 2000, WINDOWS_MIN = 200, ERRORS_MAX = 8000000 };

static int is_blended(const struct tft_schema *s, size_t o)
{
    return s->inputs[s->targets[o]].blend;
}

int tft_blend_has(const struct tft_blend *b, const struct tft_schema *s, size_t o)
{
    return b->errors && is_blended(s, o);
}

/* The weights of a target's third, the model's first. */
static double *weights_of(const struct tft_blend *b, size_t o, size_t third)
{
    return b->weights + (o * TFT_BLEND_THIRDS + third) * (b->count + 1);
}

double *tft_blend_weights_at(const struct tft_blend *b, size_t o, size_t h)
{
    return weights_of(b, o, TFT_BLEND_THIRDS * h / b->horizon);
}

const double *tft_blend_errors_at(const struct tft_blend *b, size_t o, size_t baseline, size_t h)
{
    return b->errors + ((o * b->count + baseline) * b->horizon + h) * b->quantile_count;
}

/* ---- memory ---- */

size_t tft_blend_weights_count(const struct tft_blend *b)
{
    return b->targets * TFT_BLEND_THIRDS * (b->count + 1);
}

/* Makes the blend of a schema: the model alone. Without a blended target nothing is held, and errors is NULL. */
static enum halay_status blend_init(const struct tft_schema *s, size_t quantile_count, struct tft_blend *b)
{
    int blends = 0;

    *b = (struct tft_blend){ 0 };
    for (size_t o = 0; o < s->target_count; o++)
        blends |= is_blended(s, o);
    if (!blends)
        return HALAY_OK;
    b->horizon = s->horizon;
    b->targets = s->target_count;
    b->quantile_count = quantile_count;
    b->count = tft_baselines_of(s, b->baselines);
    b->error_count = b->targets * b->count * b->horizon * quantile_count;
    b->errors = halay_region_alloc(&b->memory, b->error_count, sizeof *b->errors);
    b->points = halay_region_alloc(&b->memory, b->horizon * b->count, sizeof *b->points);
    b->weights = halay_region_alloc(&b->memory, tft_blend_weights_count(b), sizeof *b->weights);
    b->history = halay_region_alloc(&b->memory, 1, sizeof *b->history);
    if (b->history)
        tft_history_init(s, &b->memory, b->history);
    if (b->memory.failed) {
        tft_blend_fini(b);
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < tft_blend_weights_count(b); i += b->count + 1)
        b->weights[i] = 1;
    return HALAY_OK;
}

void tft_blend_fini(struct tft_blend *b)
{
    halay_region_fini(&b->memory);
    *b = (struct tft_blend){ 0 };
}

/* ---- fit ---- */

/* The errors of baselines in training windows, of one target. */
struct fit {
    const struct tft_windows *windows;
    const struct tft_list *quantiles;
    size_t count;
    float *misses; /* (baselines, horizon, count); NAN: no forecast, or no value */
    float *units;  /* (count) */
    float *column; /* (count) */
};

static enum halay_status read_misses(const struct tft_blend *b, struct fit *f, size_t o)
{
    const struct tft_data *d = f->windows->data;
    enum halay_status status;

    for (size_t i = 0; i < f->count; i++) {
        struct tft_window w = tft_windows_get(f->windows, tft_spread(i, f->count, f->windows->count));
        double unit;
        if ((status = tft_blend_points(b, d, &w, o, b->points, &unit)) ||
            (status = tft_data_check(d, w.origin, b->horizon)))
            return status;
        f->units[i] = (float)unit;
        for (size_t k = 0; k < b->count * b->horizon; k++) {
            size_t row = w.origin + k % b->horizon;
            int is_measured = d->present[row * b->targets + o];
            double miss = is_measured ? tft_data_forecast_target(d, row, o) - b->points[k] : NAN;
            f->misses[k * f->count + i] = (float)(unit > 0 ? miss / unit : NAN);
        }
    }
    return HALAY_OK;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Quantiles of a baseline's errors at one step; adds the quantile losses that they leave. *known: of how many. */
static double fit_step(struct tft_blend *b, const struct fit *f, const float *misses, double *to, size_t *known)
{
    size_t n = 0;
    double loss = 0;

    for (size_t i = 0; i < f->count; i++)
        if (isfinite(misses[i]))
            f->column[n++] = misses[i];
    qsort(f->column, n, sizeof *f->column, by_value);
    for (size_t q = 0; q < b->quantile_count; q++) {
        double quantile = f->quantiles->values[q];
        to[q] = n ? (double)f->column[(size_t)(quantile * (double)(n - 1) + .5)] : 0;
        for (size_t i = 0; i < f->count; i++) {
            double over = isfinite(misses[i]) ? (double)misses[i] - to[q] : 0;
            loss += (double)f->units[i] * fmax(quantile * over, (quantile - 1) * over);
        }
    }
    *known += n;
    return loss;
}

/* One target's. The best baseline forecasts at least half as often as the last value. */
static void fit_target(struct tft_blend *b, const struct fit *f, size_t o)
{
    size_t best = 0, most = 0;
    double lowest = INFINITY;

    for (size_t k = 0; k < b->count; k++) {
        double *to = b->errors + (o * b->count + k) * b->horizon * b->quantile_count, loss = 0;
        size_t known = 0;
        for (size_t h = 0; h < b->horizon; h++)
            loss += fit_step(b, f, f->misses + (k * b->horizon + h) * f->count, to + h * b->quantile_count, &known);
        most = k ? most : known;
        if (known && 2 * known >= most && loss / (double)known < lowest) {
            lowest = loss / (double)known;
            best = k;
        }
    }
    for (size_t k = 0; k < TFT_BLEND_THIRDS; k++) { /* horizons of one step or two do not reach each of them */
        double *weights = weights_of(b, o, k);
        weights[0] = weights[best + 1] = .5;
    }
}

enum halay_status tft_blend_fit(struct halay_log *log, const struct tft_windows *windows,
                                const struct tft_list *quantiles, struct tft_blend *b)
{
    const struct tft_schema *s = &windows->data->schema;
    struct fit f = { .windows = windows, .quantiles = quantiles };
    struct halay_region scratch = { 0 };
    enum halay_status status = blend_init(s, quantiles->count, b);

    if (!status && b->errors) {
        size_t of_window = b->count * b->horizon, max = ERRORS_MAX / of_window;
        max = max < WINDOWS_MIN ? WINDOWS_MIN : max > WINDOWS_MAX ? WINDOWS_MAX : max;
        f.count = windows->count < max ? windows->count : max;
        f.misses = halay_region_alloc(&scratch, of_window * f.count, sizeof *f.misses);
        f.units = halay_region_alloc(&scratch, f.count, sizeof *f.units);
        f.column = halay_region_alloc(&scratch, f.count, sizeof *f.column);
        status = scratch.failed ? HALAY_ERR_NO_MEMORY : HALAY_OK;
    }
    if (status)
        halay_error(log, "no memory for the errors of baselines");
    for (size_t o = 0; o < b->targets && !status; o++)
        if (is_blended(s, o) && !(status = read_misses(b, &f, o)))
            fit_target(b, &f, o);
    halay_region_fini(&scratch);
    if (status)
        tft_blend_fini(b);
    return status;
}

/* ---- files ---- */

static json_t *list_titles(const struct tft_blend *b)
{
    json_t *all = json_array();
    char title[64];

    for (size_t k = 0; k < b->count; k++) {
        tft_baseline_title(&b->baselines[k], title, sizeof title);
        json_array_append_new(all, json_string(title));
    }
    return all;
}

json_t *tft_blend_json(const struct tft_blend *b)
{
    return json_pack("{so so so}", "baselines", list_titles(b), "errors", tft_numbers_json(b->errors, b->error_count),
                     "weights", tft_numbers_json(b->weights, tft_blend_weights_count(b)));
}

static enum halay_status read_list(const json_t *list, double *values, size_t n)
{
    if (json_array_size(list) != n)
        return HALAY_ERR_FORMAT;
    for (size_t i = 0; i < n; i++) {
        if (!json_is_number(json_array_get(list, i)))
            return HALAY_ERR_FORMAT;
        values[i] = json_number_value(json_array_get(list, i));
    }
    return HALAY_OK;
}

enum halay_status tft_blend_read(const json_t *json, const struct tft_schema *schema, size_t quantile_count,
                                 struct tft_blend *b)
{
    enum halay_status status = blend_init(schema, quantile_count, b);

    if (status || !b->errors)
        return status;
    json_t *titles = list_titles(b);
    if (!json_equal(titles, json_object_get(json, "baselines")) ||
        read_list(json_object_get(json, "errors"), b->errors, b->error_count) ||
        read_list(json_object_get(json, "weights"), b->weights, tft_blend_weights_count(b))) {
        tft_blend_fini(b);
        status = HALAY_ERR_FORMAT;
    }
    json_decref(titles);
    return status;
}

char *tft_blend_weights_text(const struct tft_blend *b)
{
    json_t *list = tft_numbers_json(b->weights, tft_blend_weights_count(b));
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;

    json_decref(list);
    return text;
}

enum halay_status tft_blend_weights_read(const char *text, struct tft_blend *b)
{
    if (!text || !b->errors)
        return HALAY_OK;
    json_t *list = json_loads(text, 0, NULL);
    enum halay_status status = read_list(list, b->weights, tft_blend_weights_count(b));
    json_decref(list);
    return status;
}

/* ---- what it is made of ---- */

/* Returns nonzero if the model (part 0) or a baseline has a weight in one of the thirds. */
static int is_used(const struct tft_blend *b, size_t o, size_t part)
{
    double sum = 0;

    for (size_t third = 0; third < TFT_BLEND_THIRDS; third++)
        sum += weights_of(b, o, third)[part];
    return sum > 0;
}

int tft_blend_is_model(const struct tft_blend *b)
{
    for (size_t o = 0; o < b->targets; o++)
        for (size_t k = 0; k < b->count; k++)
            if (is_used(b, o, k + 1))
                return 0;
    return 1;
}

void tft_blend_describe(const struct tft_blend *b, const struct tft_schema *s, size_t o, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "'%s' is forecast by", s->inputs[s->targets[o]].name);
    char title[64] = "the model", each[TFT_BLEND_THIRDS][16];
    const char *comma = "";

    for (size_t k = 0; k <= b->count && used < size; k++) {
        if (k)
            tft_baseline_title(&b->baselines[k - 1], title, sizeof title);
        if (!is_used(b, o, k))
            continue;
        for (size_t third = 0; third < TFT_BLEND_THIRDS; third++)
            halay_snprintf(each[third], sizeof each[third], "%.2f", weights_of(b, o, third)[k]);
        if (!strcmp(each[0], each[1]) && !strcmp(each[0], each[2]))
            used += (size_t)snprintf(text + used, size - used, "%s %s %s", comma, each[0], title);
        else
            used +=
                (size_t)snprintf(text + used, size - used, "%s %s/%s/%s %s", comma, each[0], each[1], each[2], title);
        comma = ",";
    }
}

/* ---- use ---- */

enum halay_status tft_blend_points(const struct tft_blend *b, const struct tft_data *d, const struct tft_window *w,
                                   size_t o, double *points, double *unit)
{
    enum halay_status status = tft_history_read(b->history, d, w, o);

    for (size_t k = 0; k < b->count && !status; k++)
        tft_baseline_forecast(&b->baselines[k], b->history, b->horizon, points + k * b->horizon);
    *unit = b->history->unit;
    return status;
}

/* Forecasts the baselines that the weights use; returns how many. */
static size_t used_points(const struct tft_blend *b, size_t o, size_t used[TFT_BASELINES_MAX])
{
    size_t n = 0;

    for (size_t k = 0; k < b->count; k++) {
        if (!is_used(b, o, k + 1))
            continue;
        tft_baseline_forecast(&b->baselines[k], b->history, b->horizon, b->points + k * b->horizon);
        used[n++] = k;
    }
    return n;
}

/* Blends a target's quantiles of step h, p, with the used baselines. stand_in: NAN, or what they forecast. */
static void blend_step(const struct tft_blend *b, size_t o, size_t h, const size_t *used, size_t n, double stand_in,
                       float *p)
{
    const double *weights = tft_blend_weights_at(b, o, h);

    for (size_t q = 0; q < b->quantile_count; q++) {
        double sum = weights[0] * (double)p[q];
        for (size_t i = 0; i < n; i++) {
            size_t k = used[i];
            double point = b->points[k * b->horizon + h], error = tft_blend_errors_at(b, o, k, h)[q];
            double naive = (isnan(stand_in) ? point : stand_in) + b->history->unit * error;
            sum += weights[k + 1] * (isnan(point) ? (double)p[q] : naive);
        }
        p[q] = (float)sum;
    }
}

enum halay_status tft_blend_apply(const struct tft_blend *b, const struct tft_data *d, const struct tft_window *w,
                                  const struct tft_occlusion *occlusion, float *p)
{
    size_t used[TFT_BASELINES_MAX];
    enum halay_status status = HALAY_OK;

    for (size_t o = 0; o < b->targets && !status; o++) {
        double stand_in = occlusion ? tft_occlusion_target(occlusion, d, w, o) : NAN;
        if (!is_blended(&d->schema, o) || (status = tft_history_read(b->history, d, w, o)))
            continue;
        size_t n = used_points(b, o, used);
        for (size_t h = 0; h < b->horizon && n; h++)
            blend_step(b, o, h, used, n, stand_in, p + (h * b->targets + o) * b->quantile_count);
    }
    return status;
}
