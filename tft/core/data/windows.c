/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: their number, and finding one by its number. All arithmetic is on row numbers; moments become rows once, in
 * the constructor. Cleanup: zeroed first, fini accepts a partly initialised object.
 */
#include "tft/core/data/windows.h"
#include "base/memory.h"
#include <stdlib.h>

/* A choice of windows: those whose targets are in a split and, if it is narrowed, in the moments [begin, end). */
struct range {
    enum tft_split split;
    int is_narrowed;
    int64_t begin, end;
};

/* Finds rows [low, high) of an entity that may be targets of the range, and the first row of encoders, floor. */
static void target_rows(const struct tft_data *d, size_t entity, const struct range *r, size_t *floor, size_t *low,
                        size_t *high)
{
    const size_t first = tft_data_split_rows(d, entity, tft_schema_split_before(&d->schema, r->split));
    const size_t begin = r->is_narrowed ? tft_data_rows_before(d, entity, r->begin) : first;

    *high = r->is_narrowed ? tft_data_rows_before(d, entity, r->end) : tft_data_split_rows(d, entity, r->split);
    *floor = d->schema.context_before ? 0 : first;
    *low = begin > *floor + d->schema.min_encoder ? begin : *floor + d->schema.min_encoder;
}

/* A list of runs that grows, entity by entity. */
struct list {
    struct halay_log *log;
    struct tft_windows w;
    size_t least; /* rows that an encoder has */
    size_t gap;   /* the first one that is not before the entity */
    size_t size;
};

static enum halay_status add_run(struct list *l, size_t entity, size_t origin, size_t floor, size_t count)
{
    struct tft_windows *w = &l->w;

    if (halay_list_grow(&w->runs, w->run_count + 1, &l->size, sizeof *w->runs)) /* one more for the end */
        return halay_no_memory(l->log, "for the windows of %zu entities", w->data->entity_count);
    w->runs[w->run_count++] = (struct tft_window_run){ w->count, entity, origin, floor };
    w->count += count;
    w->runs[w->run_count] = (struct tft_window_run){ w->count, entity, origin, floor };
    return HALAY_OK;
}

/* Gives the list away, or frees it after an error. */
static enum halay_status list_finish(enum halay_status status, struct list *l, struct tft_windows *windows)
{
    if (status)
        tft_windows_fini(&l->w);
    else
        *windows = l->w;
    return status;
}

/* Adds the windows of an entity whose first targets are in rows low, low + stride ... to high, counted in the entity,
 * without those that contain a row of a gap; encoders may contain rows from floor on. */
static enum halay_status add_windows(struct list *l, size_t entity, size_t floor, size_t low, size_t high)
{
    const struct tft_data *d = l->w.data;
    const struct tft_entity *e = &d->entities[entity];
    size_t D = d->schema.horizon, stride = l->w.stride, at = low;
    enum halay_status status = HALAY_OK;

    while (l->gap < d->gap_count && d->gaps[l->gap].first < e->first)
        l->gap++;
    for (; !status; l->gap++) {
        int is_last = l->gap == d->gap_count || d->gaps[l->gap].first >= e->first + e->rows;
        size_t end = is_last ? e->rows : (size_t)d->gaps[l->gap].first - e->first; /* targets must lie before */
        size_t last = end >= D && end - D < high ? end - D : high;
        if (end >= D && at <= last) {
            size_t n = (last - at) / stride + 1;
            status = add_run(l, entity, e->first + at, e->first + floor, n);
            at += n * stride;
        }
        if (is_last)
            return status;
        if (floor < end + (size_t)d->gaps[l->gap].rows)
            floor = end + (size_t)d->gaps[l->gap].rows;
        size_t clear = floor + l->least; /* the first row with an encoder after the gap */
        if (at < clear)
            at += (clear - at + stride - 1) / stride * stride;
    }
    return status;
}

static enum halay_status init_range(struct halay_log *log, const struct tft_data *data, const struct range *range,
                                    size_t stride, struct tft_windows *windows)
{
    struct list l = { .log = log, .w = { .data = data, .stride = stride }, .least = data->schema.min_encoder };
    const size_t D = data->schema.horizon;
    enum halay_status status = HALAY_OK;

    const int is_empty = !range->is_narrowed && !data->schema.has_split[range->split];
    for (size_t e = 0; e < data->entity_count && !status && !is_empty; e++) {
        size_t floor, low, high;
        target_rows(data, e, range, &floor, &low, &high);
        if (high >= D && low <= high - D)
            status = add_windows(&l, e, floor, low, high - D);
    }
    return list_finish(status, &l, windows);
}

enum halay_status tft_windows_init(struct halay_log *log, const struct tft_data *data, enum tft_split split,
                                   size_t stride, struct tft_windows *windows)
{
    const struct range range = { .split = split };

    return init_range(log, data, &range, stride, windows);
}

enum halay_status tft_windows_init_between(struct halay_log *log, const struct tft_data *data, enum tft_split split,
                                           int64_t begin, int64_t end, size_t stride, struct tft_windows *windows)
{
    const struct range range = { .split = split, .is_narrowed = 1, .begin = begin, .end = end };

    return init_range(log, data, &range, stride, windows);
}

enum halay_status tft_windows_init_last(struct halay_log *log, const struct tft_data *data, struct tft_windows *windows)
{
    struct list l = { .log = log, .w = { .data = data, .stride = 1 }, .least = 1 };
    const size_t D = data->schema.horizon;
    enum halay_status status = HALAY_OK;

    for (size_t e = 0; e < data->entity_count && !status; e++) {
        size_t rows = data->entities[e].rows;
        if (rows > D)
            status = add_windows(&l, e, 0, rows - D, rows - D);
    }
    return list_finish(status, &l, windows);
}

/* Returns the row of an entity where the windows begin that precede its row `first`, or that row itself. */
static size_t preceding_from(const struct tft_data *d, size_t entity, size_t first, size_t count)
{
    size_t D = d->schema.horizon, least = d->schema.min_encoder;
    size_t begin = tft_data_split_rows(d, entity, TFT_TRAIN);

    least = begin > least ? begin : least;
    size_t there_are = first > least ? (first - least) / D : 0;
    return first - (there_are < count ? there_are : count) * D;
}

enum halay_status tft_windows_init_preceding(struct halay_log *log, const struct tft_windows *list, size_t count,
                                             struct tft_windows *windows)
{
    const struct tft_data *d = list->data;
    const size_t D = d->schema.horizon;
    struct list l = { .log = log, .w = { .data = d, .stride = D }, .least = d->schema.min_encoder };
    enum halay_status status = HALAY_OK;

    for (size_t r = 0; r < list->run_count && !status; r++) {
        size_t entity = list->runs[r].entity, first = list->runs[r].origin - d->entities[entity].first;
        if (r && list->runs[r - 1].entity == entity)
            continue;
        size_t from = preceding_from(d, entity, first, count);
        if (from < first)
            status = add_windows(&l, entity, 0, from, first - D);
    }
    return list_finish(status, &l, windows);
}

void tft_windows_fini(struct tft_windows *windows)
{
    free(windows->runs);
    *windows = (struct tft_windows){ 0 };
}

size_t tft_windows_before(const struct tft_windows *w, size_t entity)
{
    size_t low = 0, high = w->run_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->runs[middle].entity < entity)
            low = middle + 1;
        else
            high = middle;
    }
    return low < w->run_count ? w->runs[low].before : w->count;
}

struct tft_window tft_windows_get(const struct tft_windows *w, size_t number)
{
    size_t low = 0, high = w->run_count;

    while (high - low > 1) { /* the run of `low` begins at or before the number, that of `high` after it */
        size_t middle = low + (high - low) / 2;
        if (w->runs[middle].before <= number)
            low = middle;
        else
            high = middle;
    }
    size_t origin = w->runs[low].origin + (number - w->runs[low].before) * w->stride, E = w->data->schema.encoder;
    size_t rows = origin - w->runs[low].floor;
    return (struct tft_window){ .entity = w->runs[low].entity, .origin = origin, .length = rows < E ? rows : E };
}

size_t tft_windows_short(const struct tft_windows *w)
{
    size_t E = w->data->schema.encoder, n = 0;

    for (size_t r = 0; r < w->run_count; r++) {
        size_t count = w->runs[r + 1].before - w->runs[r].before, rows = w->runs[r].origin - w->runs[r].floor;
        size_t less = rows < E ? (E - rows + w->stride - 1) / w->stride : 0;
        n += less < count ? less : count;
    }
    return n;
}

/* Counts the measured targets of a row. */
static size_t count_measured(const struct tft_data *d, size_t row)
{
    size_t O = d->schema.target_count, n = 0;

    for (size_t o = 0; o < O; o++)
        n += d->present[row * O + o] != 0;
    return n;
}

int tft_window_is_filled(const struct tft_data *data, const struct tft_window *window)
{
    const size_t O = data->schema.target_count;

    for (size_t o = 0; o < O; o++) {
        size_t row = window->origin - window->length;
        while (row < window->origin && !data->present[row * O + o])
            row++;
        if (row == window->origin)
            return 1;
    }
    return 0;
}

size_t tft_window_targets(const struct tft_data *data, const struct tft_window *window)
{
    size_t n = 0;

    for (size_t h = 0; h < data->schema.horizon; h++)
        n += count_measured(data, window->origin + h);
    return n;
}

/* Counts in time linear in the rows: each row counts once for each window of its run that forecasts it. */
size_t tft_windows_targets(const struct tft_windows *w)
{
    size_t D = w->data->schema.horizon, n = 0;

    for (size_t r = 0; r < w->run_count; r++) {
        size_t count = w->runs[r + 1].before - w->runs[r].before, first = w->runs[r].origin, stride = w->stride;
        size_t last = first + (count - 1) * stride;
        for (size_t row = first; row < last + D; row++) {
            /* windows first + k * stride <= row < first + k * stride + D */
            size_t high = row < last ? (row - first) / stride : count - 1;
            size_t low = row >= first + D ? (row - D - first) / stride + 1 : 0;
            n += high >= low ? count_measured(w->data, row) * (high - low + 1) : 0;
        }
        tft_spill_touched(w->data->spill, (last + D - first) * w->data->schema.target_count);
    }
    return n;
}

/* The hash is splitmix64's (Steele, Lea and Flood 2014). */
size_t tft_spread(size_t i, size_t count, size_t total)
{
    size_t first = i * total / count, end = (i + 1) * total / count;
    uint64_t x = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15U;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return first + (x ^ x >> 31) % (end - first);
}
