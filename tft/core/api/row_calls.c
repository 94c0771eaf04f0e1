/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of prepared data, as calls. Inputs over time are numbered in the data's order: reals, then categories.
 */
#include "base/error_text.h"
#include "base/struct_size.h"
#include "tft/core/api/api_impl.h"
#include <math.h>

/* Returns the schema's number of an input over time, or SIZE_MAX if the number is out of range. */
static size_t input_at(const struct tft_data *d, size_t number)
{
    if (number < d->real_count)
        return d->reals[number];
    return number - d->real_count < d->cat_count ? d->cats[number - d->real_count] : SIZE_MAX;
}

static int64_t split_end(const struct tft_data *d, enum tft_split split)
{
    return d->schema.has_split[split] ? tft_data_split_end(d, split) : INT64_MIN;
}

enum halay_status halay_tft_data_extent(const struct halay_tft_data *data, struct halay_tft_extent *extent)
{
    if (!data || !extent || !halay_struct_has_size(extent))
        return tft_session_refuse_null("halay_tft_data_extent", "an argument, or its struct_size");
    const struct tft_data *d = &data->data;
    struct halay_tft_extent all = { .entities = d->entity_count,
                                    .inputs = d->real_count + d->cat_count,
                                    .targets = d->schema.target_count,
                                    .encoder = d->schema.encoder,
                                    .horizon = d->schema.horizon,
                                    .begin = INT64_MAX,
                                    .end = INT64_MIN,
                                    .train_end = tft_data_split_end(d, TFT_TRAIN),
                                    .valid_end = split_end(d, TFT_VALID),
                                    .test_end = split_end(d, TFT_TEST),
                                    .counts = tft_schema_counts(&d->schema) };

    for (size_t e = 0; e < d->entity_count; e++) {
        const struct tft_entity *entity = &d->entities[e];
        const int64_t last = tft_data_time(d, e, entity->first + entity->rows);
        all.begin = entity->start < all.begin ? entity->start : all.begin;
        all.end = last > all.end ? last : all.end;
    }
    halay_struct_write(&all, sizeof all, extent);
    return HALAY_OK;
}

const char *halay_tft_data_entity(const struct halay_tft_data *data, size_t entity, size_t *rows)
{
    if (entity >= data->data.entity_count)
        return NULL;
    if (rows)
        *rows = data->data.entities[entity].rows;
    return data->data.entities[entity].id;
}

enum halay_status halay_tft_data_input(const struct halay_tft_data *data, size_t number, struct halay_tft_input *input)
{
    if (!data || !input || !halay_struct_has_size(input))
        return tft_session_refuse_null("halay_tft_data_input", "an argument, or its struct_size");
    const struct tft_data *d = &data->data;
    const struct tft_schema *s = &d->schema;
    const size_t at = input_at(d, number);
    int32_t unknown;

    if (at == SIZE_MAX)
        return halay_refuses(HALAY_ERR_ARGUMENT, "the data have %zu inputs over time: %zu is not one of them",
                             d->real_count + d->cat_count, number);
    const struct tft_input *x = &s->inputs[at];
    struct halay_tft_input all = { .name = x->name,
                                   .is_category = x->is_category,
                                   .is_target = number >= d->real_count - s->target_count && number < d->real_count,
                                   .is_own = x->source == TFT_FROM_COLUMN &&
                                             (x->derivation == TFT_PLAIN || x->derivation == TFT_WAS_MISSING),
                                   .unknown = SIZE_MAX };
    if (number >= d->real_count) {
        all.categories = tft_encoding_categories(s, &d->encoding, at);
        all.unknown = tft_encoding_unknown(s, &d->encoding, at, &unknown) ? (size_t)unknown : SIZE_MAX;
    }
    halay_struct_write(&all, sizeof all, input);
    return HALAY_OK;
}

const char *halay_tft_data_category(const struct halay_tft_data *data, size_t input, size_t code)
{
    const struct tft_data *d = &data->data;
    const size_t at = input_at(d, input);

    if (at == SIZE_MAX || input < d->real_count || code >= tft_encoding_categories(&d->schema, &d->encoding, at))
        return NULL;
    return tft_encoding_name(&d->schema, &d->encoding, at, code);
}

/* Fails unless an entity has these rows and `more` after them. */
static enum halay_status check_rows(const struct tft_data *d, size_t entity, size_t first, size_t count, size_t more)
{
    if (entity < d->entity_count && first <= d->entities[entity].rows + more &&
        count <= d->entities[entity].rows + more - first)
        return HALAY_OK;
    return halay_refuses(HALAY_ERR_ARGUMENT, "entity %zu has no rows %zu to %zu", entity, first, first + count);
}

enum halay_status halay_tft_data_times(const struct halay_tft_data *data, size_t entity, size_t first, size_t count,
                                       int64_t *times, unsigned char *is_gap)
{
    if (!data || !times)
        return tft_session_refuse_null("halay_tft_data_times", "an argument");
    const struct tft_data *d = &data->data;
    enum halay_status status = check_rows(d, entity, first, count, 1);

    if (status)
        return status;
    const size_t begin = d->entities[entity].first + first;
    for (size_t r = 0; r < count; r++)
        times[r] = tft_data_time(d, entity, begin + r);
    for (size_t r = 0; is_gap && r < count; r++)
        is_gap[r] = 0;
    for (size_t g = 0; is_gap && g < d->gap_count; g++) {
        const size_t from = (size_t)d->gaps[g].first, to = from + (size_t)d->gaps[g].rows;
        for (size_t row = from > begin ? from : begin; row < to && row < begin + count; row++)
            is_gap[row - begin] = 1;
    }
    return HALAY_OK;
}

enum halay_status halay_tft_data_cells(const struct halay_tft_data *data, size_t entity, size_t input, size_t first,
                                       size_t count, double *values)
{
    if (!data || !values)
        return tft_session_refuse_null("halay_tft_data_cells", "an argument");
    const struct tft_data *d = &data->data;
    const size_t at = input_at(d, input), O = d->schema.target_count;
    enum halay_status status = check_rows(d, entity, first, count, 0);

    if (!status && at == SIZE_MAX)
        status = halay_refuses(HALAY_ERR_ARGUMENT, "the data have %zu inputs over time: %zu is not one of them",
                               d->real_count + d->cat_count, input);
    if (status)
        return status;
    tft_session_enter(data->tft);
    const size_t begin = d->entities[entity].first + first;
    status = tft_stop_asked(&data->tft->stop) ? HALAY_ERR_CANCELED : tft_data_check(d, begin, count);
    const struct tft_scaler *scaler = tft_data_scaler(d, entity, at);
    const size_t target = input + O - d->real_count; /* at least O: not a target */
    for (size_t row = begin; row < begin + count && !status; row++) {
        if (input >= d->real_count)
            values[row - begin] = (double)d->categories[row * d->cat_count + input - d->real_count];
        else if (target < O && !d->present[row * O + target])
            values[row - begin] = NAN;
        else
            values[row - begin] = tft_scaler_undo(scaler, (double)d->values[row * d->real_count + input]);
    }
    return status ? tft_session_leave_stopped(data->tft, status) : HALAY_OK;
}

enum halay_status halay_tft_data_actuals(const struct halay_tft_data *data, size_t entity, size_t first, size_t count,
                                         double *values)
{
    if (!data || !values)
        return tft_session_refuse_null("halay_tft_data_actuals", "an argument");
    const struct tft_data *d = &data->data;
    const size_t O = d->schema.target_count;
    enum halay_status status = check_rows(d, entity, first, count, 0);

    if (status)
        return status;
    tft_session_enter(data->tft);
    const size_t begin = d->entities[entity].first + first;
    status = tft_stop_asked(&data->tft->stop) ? HALAY_ERR_CANCELED : tft_data_check(d, begin, count);
    if (status)
        return tft_session_leave_stopped(data->tft, status);
    for (size_t i = 0; i < count * O; i++)
        values[i] = d->present[begin * O + i] ? (double)d->target[begin * O + i] : NAN;
    return HALAY_OK;
}

void halay_tft_data_print_time(const struct halay_tft_data *data, int64_t moment, char text[40])
{
    tft_schema_print_time(&data->data.schema, moment, text, 40);
}

enum halay_status halay_tft_data_read_time(const struct halay_tft_data *data, const char *text, int64_t *moment)
{
    return tft_schema_read_moment(&data->data.schema, text, 0, moment);
}
