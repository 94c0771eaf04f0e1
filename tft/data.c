/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: from a table and an encoding to one block that the model's batches are gathered from.
 *
 * The block holds, in this order: target (double), values and static values (float), present (bytes). Cleanup: zeroed
 * first, fini accepts half-built.
 */
#include "tft/data.h"
#include "base/memory.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void tft_data_order_inputs(struct tft_data *d)
{
    static const enum tft_input_role order[] = { TFT_INPUT_OBSERVED, TFT_INPUT_KNOWN, TFT_INPUT_TARGET };

    d->real_count = d->known_count = d->static_count = 0;
    d->has_id = 0;
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (size_t i = 0; i < d->schema.input_count; i++)
            if (d->schema.inputs[i].role == order[k]) {
                d->reals[d->real_count++] = i;
                d->known_count += order[k] == TFT_INPUT_KNOWN;
            }
    for (size_t i = 0; i < d->schema.input_count; i++) {
        if (d->schema.inputs[i].role == TFT_INPUT_STATIC && !d->schema.inputs[i].is_category)
            d->statics[d->static_count++] = i;
        d->has_id |= d->schema.inputs[i].is_category;
    }
}

static const struct tft_scaler *scaler_of(const struct tft_data *d, size_t entity, size_t input)
{
    return &d->encoding.scalers[d->codes[entity] * d->schema.input_count + input];
}

const struct tft_scaler *tft_data_target_scaler(const struct tft_data *data, size_t entity)
{
    return scaler_of(data, entity, data->schema.target);
}

/* Infinite where a float cannot hold the result. */
static float apply(const struct tft_scaler *s, double value)
{
    double scaled = (value - s->shift) / s->scale;

    return fabs(scaled) <= FLT_MAX ? (float)scaled : INFINITY;
}

float tft_data_calendar(const struct tft_data *d, size_t entity, const struct tft_input *input, int64_t time)
{
    double value = tft_calendar_value(input->calendar, time, d->encoding.origin, d->schema.every);

    return apply(scaler_of(d, entity, (size_t)(input - d->schema.inputs)), value);
}

size_t tft_data_rows_before(const struct tft_data *data, size_t entity, int64_t time)
{
    const struct tft_entity *e = &data->entities[entity];

    if (time <= e->start)
        return 0;
    /* The number of moments start, start + every, ... that are before `time`. */
    uint64_t steps = ((uint64_t)time - (uint64_t)e->start - 1) / (uint64_t)data->schema.every + 1;
    return steps < e->rows ? (size_t)steps : e->rows;
}

static int find_code(const struct tft_encoding *encoding, const char *id, size_t *code)
{
    size_t low = 0, high = encoding->entity_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(id, encoding->ids[middle]);
        if (!order) {
            *code = middle;
            return 1;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return 0;
}

/* Entities of the table, and how many rows they have together. */
static enum halay_status take_entities(struct halay_log *log, const struct tft_table *table, struct tft_data *d)
{
    d->entity_count = table->series_count;
    d->entities = calloc(d->entity_count, sizeof *d->entities);
    d->codes = calloc(d->entity_count, sizeof *d->codes);
    if (!d->entities || !d->codes)
        return HALAY_ERR_NO_MEMORY;
    for (size_t e = 0; e < d->entity_count; e++) {
        const struct tft_series *s = &table->series[e];
        if (!find_code(&d->encoding, s->id, &d->codes[e])) {
            halay_error(log, "entity '%s' was not seen in training (%zu are known, the first is '%s')", s->id,
                        d->encoding.entity_count, d->encoding.ids[0]);
            return HALAY_ERR_FORMAT;
        }
        d->entities[e] = (struct tft_entity){
            .id = d->encoding.ids[d->codes[e]], .start = s->start, .first = d->rows, .rows = s->rows
        };
        d->rows += s->rows;
    }
    return HALAY_OK;
}

/* Take the block and cut it. The pointers are returned writable too. */
static enum halay_status take_block(struct tft_data *d, double **target, float **values, float **statics,
                                    uint8_t **present)
{
    size_t cells, of_row = sizeof(double) + d->real_count * sizeof(float) + 1, bytes, more;

    if (halay_mul_overflows(d->rows, of_row, &bytes) ||
        halay_mul_overflows(d->entity_count, d->static_count * sizeof(float), &more) ||
        halay_add_overflows(bytes, more, &bytes))
        return HALAY_ERR_NO_MEMORY;
    d->block = halay_aligned_alloc(HALAY_CACHE_LINE, bytes);
    if (!d->block)
        return HALAY_ERR_NO_MEMORY;
    cells = d->rows * d->real_count;
    d->target = *target = d->block;
    d->values = *values = (float *)(*target + d->rows);
    d->static_values = *statics = *values + cells;
    d->present = *present = (uint8_t *)(*statics + d->entity_count * d->static_count);
    return HALAY_OK;
}

/* The column of the table that an input comes from. */
static size_t table_column(const struct tft_table *table, size_t input)
{
    size_t column = 0;

    while (table->columns[column] != input)
        column++;
    return column;
}

static enum halay_status too_large(struct halay_log *log, const char *id, const struct tft_input *input, int64_t time)
{
    char moment[32];

    tft_time_print(time, moment, sizeof moment);
    halay_error(
        log,
        "'%s': input '%s' (column '%s') at %s is out of a float's range once scaled; 'scale: none' takes it as it is",
        id, input->name, input->column, moment);
    return HALAY_ERR_FORMAT;
}

static enum halay_status fill_values(struct halay_log *log, const struct tft_table *table, struct tft_data *d, size_t k,
                                     float *values)
{
    const struct tft_input *input = &d->schema.inputs[d->reals[k]];
    size_t column = input->source == TFT_FROM_COLUMN ? table_column(table, d->reals[k]) : 0;

    for (size_t e = 0; e < d->entity_count; e++) {
        const struct tft_series *s = &table->series[e];
        const struct tft_scaler *scaler = scaler_of(d, e, d->reals[k]);
        float *out = values + d->entities[e].first * d->real_count + k;
        for (size_t i = 0; i < s->rows; i++, out += d->real_count) {
            int64_t time = s->start + (int64_t)i * d->schema.every;
            *out = input->source == TFT_FROM_COLUMN ? apply(scaler, s->values[i * table->column_count + column])
                                                    : tft_data_calendar(d, e, input, time);
            if (!isfinite(*out))
                return too_large(log, s->id, input, time);
        }
    }
    return HALAY_OK;
}

static enum halay_status fill_block(struct halay_log *log, const struct tft_table *table, struct tft_data *d)
{
    double *target;
    float *values, *statics;
    uint8_t *present;
    size_t of_target = table_column(table, d->schema.target);
    enum halay_status status = take_block(d, &target, &values, &statics, &present);

    if (status)
        return status;
    for (size_t k = 0; k < d->real_count && !status; k++)
        status = fill_values(log, table, d, k, values);
    for (size_t e = 0; e < d->entity_count && !status; e++) {
        const struct tft_series *s = &table->series[e];
        for (size_t i = 0; i < s->rows; i++)
            target[d->entities[e].first + i] = s->values[i * table->column_count + of_target];
        memcpy(present + d->entities[e].first, s->present, s->rows);
        for (size_t k = 0; k < d->static_count; k++)
            statics[e * d->static_count + k] =
                apply(scaler_of(d, e, d->statics[k]), s->values[table_column(table, d->statics[k])]);
        for (size_t k = 0; k < d->static_count && !status; k++)
            if (!isfinite(statics[e * d->static_count + k]))
                status = too_large(log, s->id, &d->schema.inputs[d->statics[k]], s->start);
    }
    return status;
}

enum halay_status tft_data_init(struct halay_log *log, struct tft_schema *schema, struct tft_encoding *encoding,
                                const struct tft_table *table, struct tft_data *data)
{
    struct tft_data d = { .schema = *schema, .encoding = *encoding, .summary = table->summary };
    enum halay_status status;

    tft_data_order_inputs(&d);
    status = take_entities(log, table, &d);
    if (!status)
        status = fill_block(log, table, &d);
    if (status == HALAY_ERR_NO_MEMORY)
        halay_error(log, "no memory for %zu rows", d.rows);
    if (status) {
        d.schema.document = NULL; /* both stay the caller's */
        d.encoding = (struct tft_encoding){ 0 };
        tft_data_fini(&d);
        return status;
    }
    schema->document = NULL;
    *encoding = (struct tft_encoding){ 0 };
    *data = d;
    return HALAY_OK;
}

void tft_data_fini(struct tft_data *data)
{
    if (data->map)
        munmap(data->map, data->map_bytes);
    free(data->block);
    free(data->entities);
    free(data->codes);
    tft_encoding_fini(&data->encoding);
    tft_schema_fini(&data->schema);
    *data = (struct tft_data){ 0 };
}
