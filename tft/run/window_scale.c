/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/run/window_scale.h"
#include <math.h>

static const double spread_least = .05;

struct level {
    float mean, spread;
};

/* A sample's rows: the first is the window's. */
struct rows {
    const struct tft_data *data;
    const struct tft_window *window;
    float *values; /* (length + D, reals) */
};

static int is_scaled(const struct tft_input *input)
{
    return input->per == TFT_PER_WINDOW && input->scale != TFT_SCALE_NONE;
}

/* The column of the input that an input is made from. */
static size_t base_column(const struct tft_data *d, size_t input)
{
    size_t k = 0;

    while (d->reals[k] != d->schema.inputs[input].base)
        k++;
    return k;
}

/* In two passes, in double. */
static struct level level_of(const struct rows *r, size_t column)
{
    size_t n = r->window->length, columns = r->data->real_count;
    double sum = 0, squares = 0;

    for (size_t t = 0; t < n; t++)
        sum += (double)r->values[t * columns + column];
    double mean = sum / (double)n;
    for (size_t t = 0; t < n; t++) {
        double x = (double)r->values[t * columns + column] - mean;
        squares += x * x;
    }
    return (struct level){ (float)mean, (float)fmax(sqrt(squares / (double)n), spread_least) };
}

/* The target's value a season before step h, or the latest whole number of seasons before that is measured and in the
 * window; the last row's if there is none. */
static float season_before(const struct rows *r, size_t o, size_t h)
{
    const struct tft_data *d = r->data;
    size_t season = d->schema.seasons[0], length = r->window->length, O = d->schema.target_count,
           first = r->window->origin - length, last = d->real_count - O + o;

    for (size_t back = (h / season + 1) * season; back <= length + h; back += season)
        if (d->present[(first + length + h - back) * O + o])
            return r->values[(length + h - back) * d->real_count + last];
    return r->values[(length - 1) * d->real_count + last];
}

/* level: of its column; {0, 1} where that is not scaled. */
static void scale_target(const struct rows *r, size_t o, struct level level, struct tft_batch *batch, size_t b)
{
    const struct tft_schema *s = &r->data->schema;
    const struct tft_input *input = &s->inputs[s->targets[o]];
    size_t O = s->target_count, D = s->horizon;

    for (size_t h = 0; h < D; h++) {
        size_t at = (b * D + h) * O + o;
        batch->offsets[at] = input->relative == TFT_RELATIVE_SEASON ? season_before(r, o, h) : level.mean;
        batch->targets[at] = (batch->targets[at] - batch->offsets[at]) / level.spread;
    }
    batch->units[b * O + o] = level.spread;
}

void tft_window_scale(const struct tft_data *d, const struct tft_window *w, struct tft_batch *batch, size_t b)
{
    size_t columns = d->real_count, steps = w->length + d->schema.horizon, O = d->schema.target_count;
    size_t end = (b + 1) * (d->schema.encoder + d->schema.horizon);
    struct rows r = { d, w, batch->reals + (end - steps) * columns };
    struct level levels[TFT_INPUTS_MAX];

    for (size_t k = 0; k < columns; k++) { /* before any column changes: a lag goes by its input's */
        levels[k] = (struct level){ 0, 1 };
        if (is_scaled(&d->schema.inputs[d->reals[k]]))
            levels[k] = level_of(&r, base_column(d, d->reals[k]));
    }
    for (size_t o = 0; o < O; o++) {
        const struct tft_input *target = &d->schema.inputs[d->schema.targets[o]];
        if (is_scaled(target) || target->relative == TFT_RELATIVE_SEASON)
            scale_target(&r, o, levels[columns - O + o], batch, b);
    }
    for (size_t k = 0; k < columns; k++)
        for (size_t t = 0; is_scaled(&d->schema.inputs[d->reals[k]]) && t < steps; t++)
            r.values[t * columns + k] = (r.values[t * columns + k] - levels[k].mean) / levels[k].spread;
}
