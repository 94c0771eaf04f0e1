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

/* Copies the parts' entities and counts, and allocates the block. */
static enum halay_status join_entities(const struct tft_data *parts, size_t count, struct tft_data *d)
{
    const size_t inputs = d->schema.input_count;
    size_t bytes = 0, entities = 0;
    int has_own = 0;
    enum halay_status status;

    for (size_t i = 0; i < count; i++) {
        has_own |= parts[i].own != NULL;
        entities += parts[i].entity_count;
        d->gap_count += parts[i].gap_count;
        d->bridge_count += parts[i].bridge_count;
        for (int k = 0; k < TFT_ARRAY_COUNT; k++)
            if (halay_add_overflows(bytes, bytes_of(&parts[i], k), &bytes))
                return HALAY_ERR_NO_MEMORY;
    }
    d->block = halay_aligned_alloc(HALAY_CACHE_LINE, bytes + 1);
    status = d->block ? tft_data_allocate(d, entities, has_own) : HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < count && !status; i++) {
        const struct tft_data *part = &parts[i];
        if (part->own)
            memcpy(d->own + d->entity_count * inputs, part->own, part->entity_count * inputs * sizeof *d->own);
        for (size_t e = 0; e < part->entity_count && !status; e++)
            status = tft_data_add_entity(d, part->entities[e].id, part->codes[e], part->entities[e].start,
                                         part->entities[e].rows);
    }
    return status;
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
    enum halay_status status = join_entities(parts, count, &d);

    tft_data_order_inputs(&d);
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
