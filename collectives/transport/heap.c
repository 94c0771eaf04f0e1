/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap: a list of ranges, free and taken, first fit.
 *
 * Allocations are few and large (weights, gradients, buckets), so a list in order of offset is enough; it makes joining
 * neighbours a matter of looking at the next and the previous one. First fit keeps what is used near the start, where
 * pages have been touched already. What can hold a huge page begins at one; the gap before it stays free.
 */
#include "collectives/transport/heap.h"
#include "base/memory.h"
#include <stdlib.h>

struct halay_heap_range {
    size_t offset;
    size_t bytes;
    int is_taken, is_kept;
    struct halay_heap_range *next; /* owned */
};

enum halay_status halay_heap_init(struct halay_heap *heap, size_t bytes)
{
    struct halay_heap_range *all = calloc(1, sizeof *all);

    if (!all)
        return HALAY_ERR_NO_MEMORY;
    all->bytes = bytes;
    heap->ranges = all;
    pthread_mutex_init(&heap->lock, NULL);
    return HALAY_OK;
}

void halay_heap_fini(struct halay_heap *heap)
{
    if (!heap->ranges)
        return;
    for (struct halay_heap_range *r = heap->ranges, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    heap->ranges = NULL;
    pthread_mutex_destroy(&heap->lock);
}

/* Cut a range so that it has `bytes` bytes; what is left over becomes a free range after it. */
static enum halay_status range_cut(struct halay_heap_range *range, size_t bytes)
{
    if (range->bytes == bytes)
        return HALAY_OK;
    struct halay_heap_range *rest = malloc(sizeof *rest);
    if (!rest)
        return HALAY_ERR_NO_MEMORY;
    *rest = (struct halay_heap_range){ range->offset + bytes, range->bytes - bytes, 0, 0, range->next };
    range->bytes = bytes;
    range->next = rest;
    return HALAY_OK;
}

/* Swallow the next range if both are free. */
static void range_join(struct halay_heap_range *range)
{
    struct halay_heap_range *next = range->next;

    if (range->is_taken || !next || next->is_taken)
        return;
    range->bytes += next->bytes;
    range->next = next->next;
    free(next);
}

static enum halay_status take_locked(struct halay_heap *heap, size_t bytes, size_t *offset)
{
    size_t unit = bytes < HALAY_HUGE_PAGE ? HALAY_PAGE : HALAY_HUGE_PAGE;

    for (struct halay_heap_range *r = heap->ranges; r; r = r->next) {
        size_t gap = halay_round_up(r->offset, unit) - r->offset;
        if (r->is_taken || r->bytes < gap || r->bytes - gap < bytes)
            continue;
        struct halay_heap_range *before = r;
        if (gap && range_cut(r, gap) != HALAY_OK)
            return HALAY_ERR_NO_MEMORY;
        r = gap ? before->next : r;
        if (range_cut(r, bytes) != HALAY_OK) {
            range_join(before);
            return HALAY_ERR_NO_MEMORY;
        }
        r->is_taken = 1;
        *offset = r->offset;
        return HALAY_OK;
    }
    return HALAY_ERR_NO_MEMORY;
}

enum halay_status halay_heap_take(struct halay_heap *heap, size_t bytes, size_t *offset)
{
    if (halay_add_overflows(bytes, HALAY_PAGE - 1, &bytes))
        return HALAY_ERR_NO_MEMORY;
    bytes -= bytes % HALAY_PAGE;

    pthread_mutex_lock(&heap->lock);
    enum halay_status status = take_locked(heap, bytes, offset);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

static struct halay_heap_range *find_locked(struct halay_heap *heap, size_t offset, struct halay_heap_range **previous)
{
    struct halay_heap_range *r;

    *previous = NULL;
    for (r = heap->ranges; r && r->offset != offset; r = r->next)
        *previous = r;
    return r && r->is_taken ? r : NULL;
}

size_t halay_heap_size(struct halay_heap *heap, size_t offset)
{
    struct halay_heap_range *previous, *r;

    pthread_mutex_lock(&heap->lock);
    r = find_locked(heap, offset, &previous);
    size_t bytes = r ? r->bytes : 0;
    pthread_mutex_unlock(&heap->lock);
    return bytes;
}

enum halay_status halay_heap_give(struct halay_heap *heap, size_t offset)
{
    struct halay_heap_range *previous, *r;

    pthread_mutex_lock(&heap->lock);
    r = find_locked(heap, offset, &previous);
    if (r) {
        r->is_taken = 0;
        range_join(r);
        if (previous)
            range_join(previous);
    }
    pthread_mutex_unlock(&heap->lock);
    return r ? HALAY_OK : HALAY_ERR_ARGUMENT;
}

void halay_heap_keep(struct halay_heap *heap, size_t offset)
{
    struct halay_heap_range *previous, *r;

    pthread_mutex_lock(&heap->lock);
    r = find_locked(heap, offset, &previous);
    if (r)
        r->is_kept = 1;
    pthread_mutex_unlock(&heap->lock);
}

int halay_heap_next_kept(struct halay_heap *heap, size_t from, size_t *offset, size_t *bytes)
{
    struct halay_heap_range *r = heap->ranges;

    while (r && (!r->is_kept || r->offset < from))
        r = r->next;
    if (!r)
        return 0;
    *offset = r->offset;
    *bytes = r->bytes;
    return 1;
}
