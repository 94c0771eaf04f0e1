/* SPDX-License-Identifier: Apache-2.0
 *
 * Own scalers: mean and deviation of an unseen entity's measured values, in double.
 *
 * A window is finally scaled by its own past (tft/core/run/batches.h), so the scaler decides only the minimum spread of
 * a flat past, and the rounding. With the scaler of all entities both would differ in size from the series. Lags use
 * their input's scaler.
 */
#include "tft/core/data/encoding.h"
#include <math.h>

static int is_own(const struct tft_input *input)
{
    return input->per == TFT_PER_WINDOW && input->scale != TFT_SCALE_NONE;
}

int tft_own_scalers_apply(const struct tft_schema *schema)
{
    for (size_t i = 0; i < schema->input_count; i++)
        if (is_own(&schema->inputs[i]))
            return 1;
    return 0;
}

/* Returns the value of a plain input in a row; NAN: it was not measured. */
static double value_at(const struct tft_view *view, size_t input, size_t row)
{
    const struct tft_input *x = &view->schema->inputs[input];
    const struct tft_series *s = view->series;

    if ((s->dropped && s->dropped[row]) ||
        (x->source == TFT_FROM_COLUMN && !s->measured[row * view->table->column_count + view->table->column_of[input]]))
        return NAN;
    double value = tft_view_real(view, input, row);
    return x->scale == TFT_SCALE_LOG1P ? log1p(value) : value;
}

static struct tft_scaler fit(const struct tft_view *view, size_t input, size_t first, size_t last,
                             const struct tft_scaler *of_all)
{
    struct tft_scaler s = *of_all;
    double sum = 0, sizes = 0, squares = 0;
    size_t n = 0;

    for (size_t row = first; row < last; row++) {
        double x = value_at(view, input, row);
        sum += isfinite(x) ? x : 0;
        sizes += isfinite(x) ? fabs(x) : 0;
        n += isfinite(x) != 0;
    }
    if (!n)
        return s;
    s.shift = sum / (double)n;
    for (size_t row = first; row < last; row++) {
        double x = value_at(view, input, row) - s.shift;
        squares += isfinite(x) ? x * x : 0;
    }
    const double spread = sqrt(squares / (double)n), size = sizes / (double)n;
    /* A constant has the size of its value; for zeros only the size of the other entities is known. */
    if (spread > 1e-9 * size)
        s.scale = spread;
    else if (size > 0)
        s.scale = size;
    return s;
}

void tft_own_scalers_fit(const struct tft_view *view, const struct tft_encoding *encoding, struct tft_scaler *scalers)
{
    const struct tft_schema *schema = view->schema;
    const struct tft_series *s = view->series;
    const struct tft_scaler *of_all = encoding->scalers + encoding->entity_count * encoding->input_count;
    size_t last = s->lead + schema->encoder;

    last = view->table->ends_in_future || last > s->rows ? s->rows : last;
    for (size_t i = 0; i < schema->input_count; i++)
        scalers[i] =
            is_own(&schema->inputs[i]) ? fit(view, schema->inputs[i].base, s->lead, last, &of_all[i]) : of_all[i];
}
