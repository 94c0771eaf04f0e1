/* SPDX-License-Identifier: Apache-2.0
 *
 * A call brings one area to the device, here and there, so that it is one copy:
 *
 *     scaled_by (reals) | places (B) | patches
 */
#include "tft/core/run/resident.h"
#include "base/memory.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/queue.h"
#include "tft/core/run/batches.h"
#include <stdlib.h>
#include <string.h>

/* A thread's. */
struct area {
    char *here, *there; /* area_bytes of the host, and, owned, of the device */
    size_t used;
};

struct tft_resident {
    struct halay_log *log; /* borrowed, as the next two */
    const struct tft_data *data;
    const struct kernels *kernels;
    char *memory; /* owned: the device's */
    struct windows_data rows;
    size_t granule, area_bytes;
    int threads;
    struct halay_region host; /* owned: the host's areas */
    struct area *areas;       /* (threads), in the same block */
};

static size_t area_bytes(const struct tft_data *d, size_t granule)
{
    size_t patches = d->real_count + d->cat_count + d->static_cat_count;
    size_t sample = sizeof(struct window_place) + patches * sizeof(struct window_patch);

    return granule * sample + d->real_count * sizeof(int32_t) + 64;
}

/* ---- the rows ---- */

/* The arrays, one after the other, each at a multiple of 64. */
enum { VALUES, CODES, STATIC_VALUES, STATIC_CODES, WEIGHTS, ARRAYS };

struct arrays {
    const void *from[ARRAYS]; /* of the data; NULL: weights, which are computed */
    size_t bytes[ARRAYS], at[ARRAYS], all;
};

static struct arrays arrays_of(const struct tft_data *d)
{
    struct arrays a = {
        .from = { d->values, d->categories, d->static_values, d->static_codes },
        .bytes = { [VALUES] = d->rows * d->real_count * sizeof(real),
                   [CODES] = d->rows * d->cat_count * sizeof(int32_t),
                   [STATIC_VALUES] = d->entity_count * d->static_count * sizeof(real),
                   [STATIC_CODES] = d->entity_count * d->static_cat_count * sizeof(int32_t),
                   [WEIGHTS] = d->rows * d->schema.target_count * sizeof(real) },
    };

    for (int i = 0; i < ARRAYS; i++) {
        a.at[i] = a.all;
        a.all += (a.bytes[i] + 63) / 64 * 64;
    }
    return a;
}

/* Returns nonzero if all codes of a column are those of the input's categories. */
static int are_codes(const struct tft_data *d, size_t input, const int32_t *codes, size_t count, size_t columns)
{
    size_t categories = tft_encoding_categories(&d->schema, &d->encoding, input);

    for (size_t i = 0; i < count; i++)
        if (codes[i * columns] < 0 || (size_t)codes[i * columns] >= (categories ? categories : 1))
            return 0;
    return 1;
}

static enum halay_status check_codes(const struct tft_resident *r)
{
    const struct tft_data *d = r->data;
    int is_good = 1;

    for (size_t k = 0; k < d->cat_count && is_good; k++)
        is_good = are_codes(d, d->cats[k], d->categories + k, d->rows, d->cat_count);
    for (size_t k = 0; k < d->static_cat_count && is_good; k++)
        is_good = are_codes(d, d->static_cats[k], d->static_codes + k, d->entity_count, d->static_cat_count);
    if (is_good)
        return HALAY_OK;
    return halay_fail(r->log, HALAY_ERR_FORMAT, "the data hold a code that none of their categories has");
}

static enum halay_status send_weights(struct tft_resident *r, struct queue *queue, char *to)
{
    const struct tft_data *d = r->data;
    size_t O = d->schema.target_count, count = d->rows * O;
    real *weights = malloc(count * sizeof *weights + 1);

    if (!weights)
        return halay_no_memory(r->log, "for the weights of %zu rows", d->rows);
    for (size_t i = 0; i < count; i++)
        weights[i] = d->present[i] ? (real)tft_data_weight(d, i / O) : 0;
    kernel_to_device(queue, weights, count * sizeof *weights, to);
    free(weights);
    return HALAY_OK;
}

static enum halay_status send_rows(struct tft_resident *r, struct queue *queue)
{
    const struct tft_data *d = r->data;
    const struct arrays a = arrays_of(d);

    for (int i = 0; i < WEIGHTS; i++)
        kernel_to_device(queue, a.from[i], a.bytes[i], r->memory + a.at[i]);
    r->rows = (struct windows_data){ .E = d->schema.encoder,
                                     .D = d->schema.horizon,
                                     .O = d->schema.target_count,
                                     .reals = d->real_count,
                                     .cats = d->cat_count,
                                     .statics = d->static_count,
                                     .static_cats = d->static_cat_count,
                                     .values = (const real *)(r->memory + a.at[VALUES]),
                                     .codes = (const int32_t *)(r->memory + a.at[CODES]),
                                     .static_values = (const real *)(r->memory + a.at[STATIC_VALUES]),
                                     .static_codes = (const int32_t *)(r->memory + a.at[STATIC_CODES]),
                                     .weights = (const real *)(r->memory + a.at[WEIGHTS]) };
    return send_weights(r, queue, r->memory + a.at[WEIGHTS]);
}

/* ---- */

/* Three quarters of what is free at most, and all but 16 MiB: later allocations want some. */
enum { ROOM_LEFT = 16 << 20 };

static int has_room(const struct tft_resident *r, size_t bytes, size_t *free_bytes)
{
    size_t all;

    r->kernels->room(free_bytes, &all);
    return !all || (bytes <= *free_bytes / 4 * 3 && *free_bytes - bytes >= ROOM_LEFT);
}

/* Nonzero: there is memory. */
static int alloc_there(struct tft_resident *r)
{
    size_t bytes = arrays_of(r->data).all, free_bytes = 0;

    if (has_room(r, bytes + (size_t)r->threads * r->area_bytes, &free_bytes))
        r->memory = r->kernels->alloc(bytes);
    for (int i = 0; r->memory && i < r->threads; i++)
        r->areas[i].there = r->kernels->alloc(r->area_bytes);
    if (r->memory && r->areas[r->threads - 1].there)
        return 1;
    halay_warning(
        r->log,
        "the data's rows take %zu MB, too much of the memory of '%s', of which %zu MB are free and 16 MB must "
        "stay free: the host fills each batch",
        bytes >> 20, r->kernels->name, free_bytes >> 20);
    return 0;
}

enum halay_status tft_resident_create(struct halay_log *log, const struct tft_data *data, struct queue *queue,
                                      size_t granule, int threads, struct tft_resident **out)
{
    enum halay_status status;

    *out = NULL;
    if (tft_loss_is_unscaled(data->loss)) {
        halay_info(log, "targets are not scaled: the host fills each batch");
        return HALAY_OK;
    }
    struct tft_resident *r = calloc(1, sizeof *r + (size_t)threads * sizeof *r->areas);
    if (!r)
        return halay_no_memory(log, "for the windows of %d threads", threads);
    r->areas = (struct area *)(r + 1);
    r->log = log;
    r->data = data;
    r->kernels = kernels_of(queue);
    r->granule = granule;
    r->threads = threads;
    r->area_bytes = area_bytes(data, granule);
    for (int i = 0; i < threads; i++)
        r->areas[i].here = halay_region_alloc(&r->host, 1, r->area_bytes);
    status = r->host.failed ? halay_no_memory(log, "for the windows of %d threads", threads) : HALAY_OK;
    if (status || (status = tft_data_check(data, 0, data->rows)) || (status = check_codes(r)) || !alloc_there(r) ||
        (status = send_rows(r, queue)))
        goto destroy;
    kernel_to_host(queue, r->memory, 0, NULL); /* waits: batches are cut on other queues */
    if ((status = tft_queue_check(log, queue)))
        goto destroy;
    *out = r;
    return HALAY_OK;
destroy:
    tft_resident_destroy(r);
    return status;
}

void tft_resident_destroy(struct tft_resident *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->threads; i++)
        r->kernels->release(r->areas[i].there);
    r->kernels->release(r->memory);
    halay_region_fini(&r->host);
    free(r);
}

/* ---- a batch ---- */

/* The same bytes on the host (here) and on the device (there). */
struct part {
    void *here;
    const void *there;
};

/* Takes bytes at the end of what the area holds. */
static struct part area_take(struct area *area, size_t bytes)
{
    size_t at = area->used;

    area->used += (bytes + 7) / 8 * 8;
    return (struct part){ area->here + at, area->there + at };
}

/* Writes the scaling of each column. */
static void put_scaling(const struct tft_data *d, struct area *area, struct windows_run *run)
{
    struct part columns = area_take(area, d->real_count * sizeof *run->scaled_by);

    run->scaled_by = columns.there;
    run->scales = tft_window_scaling(d, columns.here);
}

/* Describes where each window begins, and how it differs from the data. */
static void put_windows(const struct tft_gather *gather, struct area *area, struct tft_batch *batch,
                        struct windows_run *run)
{
    struct part place = area_take(area, batch->B * sizeof *run->places), patch = area_take(area, 0);
    struct window_place *places = place.here;
    struct window_patch *patches = patch.here;
    size_t count = 0;

    for (size_t b = 0; b < batch->B; b++) {
        uint64_t position = batch->position + b;
        struct tft_window w = tft_gather_window(gather, (size_t)position);
        size_t found = tft_gather_patches(gather, &w, position, patches + count);

        places[b] = (struct window_place){ .row = w.origin - w.length,
                                           .length = (uint32_t)w.length,
                                           .entity = (uint32_t)w.entity,
                                           .patch = (uint32_t)count,
                                           .patches = (uint32_t)found };
        batch->lengths[b] = w.length;
        count += found;
    }
    area_take(area, count * sizeof *patches);
    run->places = place.there;
    run->patches = patch.there;
}

enum halay_status tft_resident_fill(const struct tft_resident *r, const struct tft_gather *gather, int thread,
                                    struct tft_batch *batch)
{
    const struct tft_batch *there = batch->there;
    struct area *area = &r->areas[thread];
    struct windows_run run = { .data = &r->rows,
                               .B = batch->B,
                               .spread_least = (real)tft_spread_least,
                               .reals = there->reals,
                               .static_reals = there->static_reals,
                               .targets = there->targets,
                               .weights = there->weights,
                               .offsets = there->offsets,
                               .units = there->units,
                               .cats = there->cats,
                               .static_cats = there->static_cats };

    if (batch->B > r->granule || gather->occlusion)
        return halay_fail(r->log, HALAY_ERR_ARGUMENT, "a batch of %zu samples is not to be cut on the device",
                          batch->B);
    area->used = 0;
    put_scaling(r->data, area, &run);
    put_windows(gather, area, batch, &run);
    kernel_to_device(batch->queue, area->here, area->used, area->there);
    kernel_windows_take(batch->queue, &run);
    batch->is_there = 1;
    return HALAY_OK;
}
