/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap: which ranges of a segment are taken. It keeps its books outside of the segment: no process that can write to
 * the segment can confuse it. Any thread.
 */
#ifndef HALAY_HEAP_H
#define HALAY_HEAP_H

#include "halay_types.h"
#include <pthread.h>
#include <stddef.h>

struct halay_heap_range;

struct halay_heap {
    pthread_mutex_t lock;
    /* Owned: all of [0, bytes), in order, neighbours never both free; guarded by lock. */
    struct halay_heap_range *ranges;
};

/* Storage of the caller's: [0, bytes) is free. bytes is a multiple of HALAY_PAGE. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_heap_init(struct halay_heap *heap, size_t bytes);
void halay_heap_fini(struct halay_heap *heap);

/* Take `bytes` (> 0), rounded up to pages; the first range that is large enough. From HALAY_HUGE_PAGE bytes on the
 * offset is a multiple of that. HALAY_ERR_NO_MEMORY, silently. */
enum halay_status halay_heap_take(struct halay_heap *heap, size_t bytes, size_t *offset);
/* The bytes (whole pages) of what take gave at this offset; 0 if nothing is taken there. */
size_t halay_heap_size(struct halay_heap *heap, size_t offset);
/* Keeps the range at this offset when the heap ends: for next_kept. */
void halay_heap_keep(struct halay_heap *heap, size_t offset);
/* Finds the first kept range from `from` on. Returns 0 past the last one. */
int halay_heap_next_kept(struct halay_heap *heap, size_t from, size_t *offset, size_t *bytes);
/* Give it back. HALAY_ERR_ARGUMENT if nothing is taken there. */
enum halay_status halay_heap_give(struct halay_heap *heap, size_t offset);

#endif
