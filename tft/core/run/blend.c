/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/blend.h"
#include "base/memory.h"
#include "base/number_text.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The most training windows that errors are taken from (tft_spread), and the most errors of a target at a time. */
enum { WINDOWS_MOST = 2000, WINDOWS_LEAST = 200, ERRORS_MOST = 8000000 };

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

int tft_blend_has(const struct tft_blend *b, const struct tft_schema *s, size_t o)
{
    return b->errors && is_blended(s, o);
}

double *tft_blend_weights_at(const struct tft_blend *b, size_t o, size_t h)
{
    return b->weights + (o * TFT_BLEND_THIRDS + TFT_BLEND_THIRDS * h / b->horizon) * (b->count + 1);
}

/* ---- memory ---- */

static size_t errors_count(const struct tft_blend *b)
{
    return b->targets * b->count * b->horizon * b->quantile_count;
}

size_t tft_blend_weights_count(const struct tft_blend *b)
{
    return b->targets * TFT_BLEND_THIRDS * (b->count + 1);
}

/* The model alone. */
static enum halay_status blend_init(const struct tft_schema *s, size_t quantile_count, struct tft_blend *b)
{
    size_t errors;

    *b = (struct tft_blend){ .horizon = s->horizon, .targets = s->target_count, .quantile_count = quantile_count };
    b->count = tft_baselines_of(s, b->baselines);
    if (!halay_mul_overflows(s->horizon * b->count * s->target_count, quantile_count, &errors)) {
        b->errors = calloc(errors, sizeof *b->errors);
        b->points = calloc(s->horizon * b->count, sizeof *b->points);
        b->weights = calloc(tft_blend_weights_count(b), sizeof *b->weights);
        b->history = calloc(1, sizeof *b->history);
    }
    if (!b->errors || !b->points || !b->weights || !b->history || tft_history_init(s, b->history)) {
        tft_blend_fini(b);
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < tft_blend_weights_count(b); i += b->count + 1)
        b->weights[i] = 1;
    return HALAY_OK;
}

void tft_blend_fini(struct tft_blend *b)
{
    if (b->history)
        tft_history_fini(b->history);
    free(b->history);
    free(b->points);
    free(b->errors);
    free(b->weights);
    *b = (struct tft_blend){ 0 };
}

/* ---- fit ---- */

/* What baselines were off by in training windows, of one target. */
struct fit {
    const struct tft_windows *windows;
    const struct tft_list *quantiles;
    size_t count;
    float *misses; /* owned: (baselines, horizon, count); NAN: no forecast, or no value */
    float *units;  /* owned: (count) */
    float *column; /* owned: (count) */
};

static enum halay_status read_misses(const struct tft_blend *b, struct fit *f, size_t o)
{
    const struct tft_data *d = f->windows->data;
    enum halay_status status = HALAY_OK;

    for (size_t i = 0; i < f->count && !status; i++) {
        struct tft_window w = tft_windows_get(f->windows, tft_spread(i, f->count, f->windows->count));
        double unit = 0;
        status = tft_blend_points(b, d, &w, o, b->points, &unit);
        if (!status)
            status = tft_data_check(d, w.origin, b->horizon);
        f->units[i] = (float)unit;
        for (size_t k = 0; k < b->count * b->horizon && !status; k++) {
            size_t row = w.origin + k % b->horizon;
            int is_measured = d->present[row * b->targets + o];
            double miss = is_measured ? tft_data_forecast_target(d, row, o) - b->points[k] : NAN;
            f->misses[k * f->count + i] = (float)(unit > 0 ? miss / unit : NAN);
        }
    }
    return status;
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
        double *weights = b->weights + (o * TFT_BLEND_THIRDS + k) * (b->count + 1);
        weights[0] = weights[best + 1] = .5;
    }
}

static enum halay_status fit_init(const struct tft_blend *b, struct fit *f)
{
    size_t of_window = b->count * b->horizon, most = ERRORS_MOST / of_window;

    most = most < WINDOWS_LEAST ? WINDOWS_LEAST : most > WINDOWS_MOST ? WINDOWS_MOST : most;
    f->count = f->windows->count < most ? f->windows->count : most;
    f->misses = calloc(of_window * f->count + 1, sizeof *f->misses);
    f->units = calloc(f->count + 1, sizeof *f->units);
    f->column = calloc(f->count + 1, sizeof *f->column);
    return f->misses && f->units && f->column ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_blend_fit(struct halay_log *log, const struct tft_windows *windows,
                                const struct tft_list *quantiles, struct tft_blend *b)
{
    const struct tft_data *d = windows->data;
    struct fit f = { .windows = windows, .quantiles = quantiles };

    *b = (struct tft_blend){ 0 };
    if (!blends(&d->schema))
        return HALAY_OK;
    enum halay_status status = blend_init(&d->schema, quantiles->count, b);
    if (!status)
        status = fit_init(b, &f);
    if (status)
        halay_error(log, "no memory for the errors of baselines");
    for (size_t o = 0; o < b->targets && !status; o++)
        if (is_blended(&d->schema, o) && !(status = read_misses(b, &f, o)))
            fit_target(b, &f, o);
    free(f.misses);
    free(f.units);
    free(f.column);
    if (status)
        tft_blend_fini(b);
    return status;
}

/* ---- files ---- */

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

static json_t *list_titles(const struct tft_blend *b)
{
    json_t *all = json_array();
    char title[64];

    for (size_t k = 0; k < b->count; k++) {
        tft_baseline_title(&b->baselines[k], title, sizeof title);
        if (json_array_append_new(all, json_string(title))) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

json_t *tft_blend_json(const struct tft_blend *b)
{
    return json_pack("{so so so}", "baselines", list_titles(b), "errors", list_of(b->errors, errors_count(b)),
                     "weights", list_of(b->weights, tft_blend_weights_count(b)));
}

static enum halay_status take_list(const json_t *list, double *values, size_t n)
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
    *b = (struct tft_blend){ 0 };
    if (!blends(schema))
        return HALAY_OK;
    enum halay_status status = blend_init(schema, quantile_count, b);
    json_t *titles = status ? NULL : list_titles(b);
    if (!status && !json_equal(titles, json_object_get(json, "baselines")))
        status = HALAY_ERR_FORMAT;
    json_decref(titles);
    if (!status)
        status = take_list(json_object_get(json, "errors"), b->errors, errors_count(b));
    if (!status)
        status = take_list(json_object_get(json, "weights"), b->weights, tft_blend_weights_count(b));
    if (status)
        tft_blend_fini(b);
    return status;
}

char *tft_blend_weights_text(const struct tft_blend *b)
{
    json_t *list = list_of(b->weights, tft_blend_weights_count(b));
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;

    json_decref(list);
    return text;
}

enum halay_status tft_blend_weights_read(const char *text, struct tft_blend *b)
{
    json_t *list = text ? json_loads(text, 0, NULL) : NULL;
    enum halay_status status = text && b->errors ? take_list(list, b->weights, tft_blend_weights_count(b)) : HALAY_OK;

    json_decref(list);
    return status;
}

/* Has the model (part 0) or a baseline a weight in one of the thirds? */
static int is_used(const struct tft_blend *b, size_t o, size_t part)
{
    const double *weights = b->weights + o * TFT_BLEND_THIRDS * (b->count + 1) + part;
    double sum = 0;

    for (size_t third = 0; third < TFT_BLEND_THIRDS; third++)
        sum += weights[third * (b->count + 1)];
    return sum > 0;
}

/* A weight of each third, or one if they are alike to what is printed. */
static void print_weights(const double *of, size_t stride, char *text, size_t size)
{
    char each[TFT_BLEND_THIRDS][16];

    for (size_t k = 0; k < TFT_BLEND_THIRDS; k++)
        halay_snprintf(each[k], sizeof each[k], "%.2f", of[k * stride]);
    if (!strcmp(each[0], each[1]) && !strcmp(each[0], each[2]))
        snprintf(text, size, "%s", each[0]);
    else
        snprintf(text, size, "%s/%s/%s", each[0], each[1], each[2]);
}

void tft_blend_describe(const struct tft_blend *b, const struct tft_schema *s, size_t o, char *text, size_t size)
{
    const size_t parts = b->count + 1;
    const double *weights = b->weights + o * TFT_BLEND_THIRDS * parts;
    size_t used = (size_t)snprintf(text, size, "'%s' is forecast by", s->inputs[s->targets[o]].name);
    char title[64] = "the model", numbers[48];

    for (size_t k = 0, first = 1; k < parts && used < size; k++) {
        if (k)
            tft_baseline_title(&b->baselines[k - 1], title, sizeof title);
        if (!is_used(b, o, k))
            continue;
        print_weights(weights + k, parts, numbers, sizeof numbers);
        used += (size_t)snprintf(text + used, size - used, "%s %s %s", first ? "" : ",", numbers, title);
        first = 0;
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

int tft_blend_is_model(const struct tft_blend *b)
{
    for (size_t o = 0; o < b->targets; o++)
        for (size_t k = 0; k < b->count; k++)
            if (is_used(b, o, k + 1))
                return 0;
    return 1;
}

/* Those that the weights use; how many. */
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

/* Blend a target's quantiles of step h, p, with the baselines that are used. stand_in: NAN, or what they forecast. */
static void blend_step(const struct tft_blend *b, size_t o, size_t h, const size_t *used, size_t n, double stand_in,
                       float *p)
{
    const double *weights = tft_blend_weights_at(b, o, h);

    for (size_t q = 0; q < b->quantile_count; q++) {
        double sum = weights[0] * (double)p[q];
        for (size_t i = 0; i < n; i++) {
            size_t k = used[i];
            double point = b->points[k * b->horizon + h],
                   error = b->errors[((o * b->count + k) * b->horizon + h) * b->quantile_count + q];
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
