/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/window_scale.h"
#include <math.h>

const double tft_spread_least = .05;

/* Values are taken as (value - mean) / spread. */
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
    return (struct level){ (float)mean, (float)fmax(sqrt(squares / (double)n), tft_spread_least) };
}

static void scale_target(const struct rows *r, size_t o, struct level level, struct tft_batch *batch, size_t b)
{
    const struct tft_schema *s = &r->data->schema;
    size_t O = s->target_count, D = s->horizon;

    for (size_t h = 0; h < D; h++) {
        size_t at = (b * D + h) * O + o;
        batch->offsets[at] = level.mean;
        if (!tft_loss_is_distribution(r->data->loss))
            batch->targets[at] = (batch->targets[at] - batch->offsets[at]) / level.spread;
    }
    batch->units[b * O + o] = level.spread;
}

/* Where a sample's forecasts are not scaled, offset and unit are in the target's own unit, too. */
static void unscale_target(const struct rows *r, size_t o, struct tft_batch *batch, size_t b)
{
    const struct tft_schema *s = &r->data->schema;
    const struct tft_scaler *scaler = tft_data_scaler(r->data, r->window->entity, s->targets[o]);
    size_t O = s->target_count, D = s->horizon;

    for (size_t h = 0; h < D; h++)
        batch->offsets[(b * D + h) * O + o] =
            (float)tft_scaler_undo(scaler, (double)batch->offsets[(b * D + h) * O + o]);
    batch->units[b * O + o] *= (float)scaler->scale;
}

int tft_window_scaling(const struct tft_data *d, int32_t *scaled_by)
{
    int scales = 0;

    for (size_t k = 0; k < d->real_count; k++) {
        scaled_by[k] = is_scaled(&d->schema.inputs[d->reals[k]]) ? (int32_t)base_column(d, d->reals[k]) : -1;
        scales |= scaled_by[k] >= 0;
    }
    return scales;
}

void tft_window_scale(const struct tft_data *d, const struct tft_window *w, struct tft_batch *batch, size_t b)
{
    size_t columns = d->real_count, steps = w->length + d->schema.horizon, O = d->schema.target_count;
    size_t end = (b + 1) * (d->schema.encoder + d->schema.horizon);
    struct rows r = { d, w, batch->reals + (end - steps) * columns };
    struct level levels[TFT_INPUTS_MAX];

    for (size_t k = 0; k < columns; k++) { /* before any column changes: a lag goes by its input's */
        const struct tft_input *input = &d->schema.inputs[d->reals[k]];
        levels[k] = is_scaled(input) ? level_of(&r, base_column(d, d->reals[k])) : (struct level){ 0, 1 };
    }
    for (size_t o = 0; o < O; o++) {
        if (is_scaled(&d->schema.inputs[d->schema.targets[o]]))
            scale_target(&r, o, levels[columns - O + o], batch, b);
        if (tft_loss_is_unscaled(d->loss))
            unscale_target(&r, o, batch, b);
    }
    for (size_t k = 0; k < columns; k++)
        for (size_t t = 0; is_scaled(&d->schema.inputs[d->reals[k]]) && t < steps; t++)
            r.values[t * columns + k] = (r.values[t * columns + k] - levels[k].mean) / levels[k].spread;
}
