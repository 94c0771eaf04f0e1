/* SPDX-License-Identifier: Apache-2.0
 *
 * Join. Each array of the joined data is those of the parts one after the other; only numbers of rows and entities are
 * shifted. Cleanup: zeroed first, end accepts a partly initialised object.
 */
#include "base/memory.h"
#include "tft/core/data/data.h"
#include <stdlib.h>
#include <string.h>

/* Returns the bytes of array k of a part; they fitted when it was made. */
static size_t bytes_of(const struct tft_data *part, int k)
{
    size_t bytes[TFT_ARRAY_COUNT] = { 0 };

    return tft_data_array_bytes(part, bytes) ? 0 : bytes[k];
}

static enum halay_status allocate(const struct tft_data *parts, size_t count, struct tft_data *d)
{
    size_t bytes = 0;
    int has_own = 0;

    for (size_t i = 0; i < count; i++) {
        has_own |= parts[i].own != NULL;
        d->entity_count += parts[i].entity_count;
        d->rows += parts[i].rows;
        d->gap_count += parts[i].gap_count;
        d->bridge_count += parts[i].bridge_count;
        for (int k = 0; k < TFT_ARRAY_COUNT; k++)
            if (halay_add_overflows(bytes, bytes_of(&parts[i], k), &bytes))
                return HALAY_ERR_NO_MEMORY;
    }
    d->entities = calloc(d->entity_count + 1, sizeof *d->entities);
    d->codes = calloc(d->entity_count + 1, sizeof *d->codes);
    d->names = calloc(d->entity_count + 1, sizeof *d->names);
    d->block = halay_aligned_alloc(HALAY_CACHE_LINE, bytes + 1);
    if (has_own)
        d->own = calloc((d->entity_count + 1) * d->schema.input_count, sizeof *d->own);
    return d->entities && d->codes && d->names && d->block && (d->own || !has_own) ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

static enum halay_status copy_entities(const struct tft_data *part, size_t entity, size_t row, struct tft_data *d)
{
    for (size_t e = 0; e < part->entity_count; e++) {
        d->names[entity + e] = strdup(part->names[e]);
        if (!d->names[entity + e])
            return HALAY_ERR_NO_MEMORY;
        d->codes[entity + e] = part->codes[e];
        d->entities[entity + e] = part->entities[e];
        d->entities[entity + e].id = d->names[entity + e];
        d->entities[entity + e].first += row;
    }
    const size_t inputs = d->schema.input_count;
    if (part->own)
        memcpy(d->own + entity * inputs, part->own, part->entity_count * inputs * sizeof *d->own);
    return HALAY_OK;
}

/* Shifts the numbers of rows and entities in the part's copy of an array. */
static void shift(int array, void *copy, const struct tft_data *part, size_t entity, size_t row)
{
    struct tft_gap *gaps = copy;
    struct tft_bridge *bridges = copy;

    for (size_t i = 0; array == TFT_ARRAY_GAPS && i < part->gap_count; i++)
        gaps[i].first += row;
    for (size_t i = 0; array == TFT_ARRAY_BRIDGES && i < part->bridge_count; i++)
        bridges[i].entity += (uint32_t)entity;
}

static void copy_arrays(const struct tft_data *parts, size_t count, struct tft_data *d)
{
    const void *starts[TFT_ARRAY_COUNT];
    char *to = d->block;

    for (int k = 0; k < TFT_ARRAY_COUNT; k++) {
        size_t entity = 0, row = 0;
        starts[k] = to;
        for (size_t i = 0; i < count; i++) {
            const void *from[TFT_ARRAY_COUNT];
            const size_t bytes = bytes_of(&parts[i], k);
            tft_data_get_arrays(&parts[i], from);
            if (bytes)
                memcpy(to, from[k], bytes);
            shift(k, to, &parts[i], entity, row);
            to += bytes;
            entity += parts[i].entity_count;
            row += parts[i].rows;
        }
    }
    tft_data_set_arrays(starts, d);
}

enum halay_status tft_data_join(struct halay_log *log, const struct tft_data *parts, size_t count,
                                struct tft_data *joined)
{
    struct tft_data d = { .loss = parts->loss, .schema = parts->schema, .encoding = parts->encoding };
    size_t entity = 0, row = 0;
    enum halay_status status = allocate(parts, count, &d);

    tft_data_order_inputs(&d);
    for (size_t i = 0; i < count && !status; i++) {
        status = copy_entities(&parts[i], entity, row, &d);
        entity += parts[i].entity_count;
        row += parts[i].rows;
    }
    if (status) {
        halay_error(log, "no memory for %zu rows", d.rows);
        tft_data_end(&d);
        return status;
    }
    copy_arrays(parts, count, &d);
    *joined = d;
    return HALAY_OK;
}

void tft_data_end(struct tft_data *data)
{
    data->schema = (struct tft_schema){ 0 };
    data->encoding = (struct tft_encoding){ 0 };
    tft_data_fini(data);
}
