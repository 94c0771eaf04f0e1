/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: how many there are, and which is which. All arithmetic is on row numbers; moments become rows once, in the
 * constructor. Cleanup: zeroed first, fini accepts half-built.
 */
#include "tft/windows.h"
#include <stdlib.h>

/* Rows [low, high) of an entity may hold targets of the split. */
static void target_rows(const struct tft_data *d, size_t entity, enum tft_split split, size_t *low, size_t *high)
{
    const struct tft_schema *s = &d->schema;
    size_t begin = tft_data_rows_before(d, entity, tft_schema_split_begin(s, split));

    *high = tft_data_rows_before(d, entity, s->split_end[split]);
    if (!s->context_before)
        begin += s->encoder;
    *low = begin > s->encoder ? begin : s->encoder;
}

static enum halay_status allocate(struct halay_log *log, const struct tft_data *d, struct tft_windows *w)
{
    w->before = calloc(d->entity_count + 1, sizeof *w->before);
    w->first = calloc(d->entity_count, sizeof *w->first);
    if (w->before && w->first)
        return HALAY_OK;
    halay_error(log, "no memory for the windows of %zu entities", d->entity_count);
    tft_windows_fini(w);
    return HALAY_ERR_NO_MEMORY;
}

enum halay_status tft_windows_init(struct halay_log *log, const struct tft_data *data, enum tft_split split,
                                   size_t stride, struct tft_windows *windows)
{
    struct tft_windows w = { .data = data, .stride = stride };
    size_t D = data->schema.horizon;
    enum halay_status status = allocate(log, data, &w);

    if (status)
        return status;
    for (size_t e = 0; e < data->entity_count; e++) {
        size_t low = 0, high = 0, n = 0;
        if (data->schema.has_split[split])
            target_rows(data, e, split, &low, &high);
        if (high >= D && low <= high - D)
            n = data->schema.has_split[split] ? (high - D - low) / stride + 1 : 0;
        w.first[e] = low;
        w.before[e + 1] = w.before[e] + n;
    }
    w.count = w.before[data->entity_count];
    *windows = w;
    return HALAY_OK;
}

enum halay_status tft_windows_init_last(struct halay_log *log, const struct tft_data *data, struct tft_windows *windows)
{
    struct tft_windows w = { .data = data, .stride = 1 };
    size_t E = data->schema.encoder, D = data->schema.horizon;
    enum halay_status status = allocate(log, data, &w);

    if (status)
        return status;
    for (size_t e = 0; e < data->entity_count; e++) {
        size_t rows = data->entities[e].rows;
        w.first[e] = rows >= D ? rows - D : 0;
        w.before[e + 1] = w.before[e] + (rows >= E + D);
    }
    w.count = w.before[data->entity_count];
    *windows = w;
    return HALAY_OK;
}

void tft_windows_fini(struct tft_windows *windows)
{
    free(windows->before);
    free(windows->first);
    *windows = (struct tft_windows){ 0 };
}

struct tft_window tft_windows_get(const struct tft_windows *w, size_t number)
{
    size_t low = 0, high = w->data->entity_count;

    while (high - low > 1) { /* before[low] <= number < before[high] */
        size_t middle = low + (high - low) / 2;
        if (w->before[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return (struct tft_window){
        .entity = low,
        .origin = w->data->entities[low].first + w->first[low] + (number - w->before[low]) * w->stride,
    };
}

size_t tft_window_targets(const struct tft_data *data, const struct tft_window *window)
{
    size_t n = 0;

    for (size_t h = 0; h < data->schema.horizon; h++)
        n += data->present[window->origin + h] != 0;
    return n;
}
