/* SPDX-License-Identifier: Apache-2.0 */
#include "tft/core/run/occlusion.h"
#include <math.h>
#include <stdlib.h>

enum { ROWS_MAX = 4096, NOWHERE = -1 };

static int compare_values(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int compare_codes(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The lower of the two in the middle, so that it is a value that occurs. */
static float median_of(float *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_values);
    return n ? values[(n - 1) / 2] : 0;
}

/* The first of equally frequent ones. */
static int32_t most_frequent(int32_t *codes, size_t n)
{
    size_t most = 0;
    int32_t code = 0;

    qsort(codes, n, sizeof *codes, compare_codes);
    for (size_t i = 0, from = 0; i < n; i++) {
        if (codes[i] != codes[from])
            from = i;
        if (i + 1 - from > most) {
            most = i + 1 - from;
            code = codes[i];
        }
    }
    return code;
}

/* An input's place in a list of inputs. */
static int place_in(const size_t *list, size_t count, size_t input)
{
    for (size_t k = 0; k < count; k++)
        if (list[k] == input)
            return (int)k;
    return NOWHERE;
}

/* Returns nonzero if the input is scaled per window, whose own level then takes the place of its values. */
static int is_relative(const struct tft_input *input)
{
    return input->per == TFT_PER_WINDOW && input->scale != TFT_SCALE_NONE;
}

/* Finds what takes the place of one entity's values. */
static enum halay_status find_of_entity(const struct tft_data *d, size_t entity, struct tft_occlusion *o)
{
    const struct tft_entity *e = &d->entities[entity];
    size_t end = tft_data_split_rows(d, entity, TFT_TRAIN), n = end ? end : e->rows;
    size_t count = n < ROWS_MAX ? n : ROWS_MAX;
    int column = place_in(d->reals, d->real_count, o->input), cat = place_in(d->cats, d->cat_count, o->input);
    float values[ROWS_MAX];
    int32_t codes[ROWS_MAX];
    enum halay_status status = tft_data_check(d, e->first, n);

    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        size_t row = e->first + tft_spread(i, count, n);
        if (column != NOWHERE)
            values[i] = d->values[row * d->real_count + (size_t)column];
        else
            codes[i] = d->categories[row * d->cat_count + (size_t)cat];
    }
    if (column == NOWHERE)
        o->codes[entity] = most_frequent(codes, count);
    else
        o->values[entity] = is_relative(&d->schema.inputs[o->input]) ? 0 : median_of(values, count);
    return HALAY_OK;
}

/* Finds what takes the place of a constant input: one value of all entities. */
static void find_of_statics(const struct tft_data *d, struct tft_occlusion *o)
{
    int column = place_in(d->statics, d->static_count, o->input);
    int cat = place_in(d->static_cats, d->static_cat_count, o->input);
    size_t n = d->entity_count;

    for (size_t e = 0; e < n; e++)
        if (column != NOWHERE)
            o->values[e] = d->static_values[e * d->static_count + (size_t)column];
        else
            o->codes[e] = d->static_codes[e * d->static_cat_count + (size_t)cat];
    float value = column != NOWHERE ? median_of(o->values, n) : 0;
    int32_t code = column != NOWHERE ? 0 : most_frequent(o->codes, n);
    for (size_t e = 0; e < n; e++) {
        o->values[e] = value;
        o->codes[e] = code;
    }
}

enum halay_status tft_occlusion_init(struct halay_log *log, const struct tft_data *d, size_t input,
                                     struct tft_occlusion *o)
{
    enum halay_status status = HALAY_OK;

    *o = (struct tft_occlusion){ .input = input };
    o->values = halay_region_alloc(&o->memory, d->entity_count, sizeof *o->values);
    o->codes = halay_region_alloc(&o->memory, d->entity_count, sizeof *o->codes);
    if (o->memory.failed)
        status = halay_no_memory(log, "for values in an input's place");
    else if (tft_roles[d->schema.inputs[input].role].is_constant)
        find_of_statics(d, o);
    else
        for (size_t e = 0; e < d->entity_count && !status; e++)
            status = find_of_entity(d, e, o);
    if (status)
        tft_occlusion_fini(o);
    return status;
}

void tft_occlusion_fini(struct tft_occlusion *o)
{
    halay_region_fini(&o->memory);
    *o = (struct tft_occlusion){ 0 };
}

double tft_occlusion_target(const struct tft_occlusion *o, const struct tft_data *d, const struct tft_window *w,
                            size_t target)
{
    size_t O = d->schema.target_count, n = 0;
    double sum = 0;

    if (d->schema.targets[target] != o->input)
        return NAN;
    if (!is_relative(&d->schema.inputs[o->input])) {
        double value = o->values[w->entity];
        return tft_loss_is_unscaled(d->loss) ? tft_scaler_undo(tft_data_scaler(d, w->entity, o->input), value) : value;
    }
    for (size_t row = w->origin - w->length; row < w->origin; row++)
        if (d->present[row * O + target]) {
            sum += tft_data_forecast_target(d, row, target);
            n++;
        }
    return n ? sum / (double)n : 0;
}

void tft_occlusion_apply(const struct tft_occlusion *o, const struct tft_data *d, const struct tft_window *w,
                         struct tft_batch *batch, size_t b)
{
    size_t T = d->schema.encoder + d->schema.horizon, first = b * T;
    int column = place_in(d->reals, d->real_count, o->input), cat = place_in(d->cats, d->cat_count, o->input);
    int fixed_column = place_in(d->statics, d->static_count, o->input);
    int fixed_cat = place_in(d->static_cats, d->static_cat_count, o->input);

    for (size_t t = first; t < first + T; t++) { /* also where the model does not look */
        if (column != NOWHERE)
            batch->reals[t * d->real_count + (size_t)column] = o->values[w->entity];
        if (cat != NOWHERE)
            batch->cats[t * d->cat_count + (size_t)cat] = o->codes[w->entity];
    }
    if (fixed_column != NOWHERE)
        batch->static_reals[b * d->static_count + (size_t)fixed_column] = o->values[w->entity];
    if (fixed_cat != NOWHERE)
        batch->static_cats[b * d->static_cat_count + (size_t)fixed_cat] = o->codes[w->entity];
}
