/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory: checked sizes, aligned blocks, regions, and shared segments that cannot shrink under a reader.
 */
#ifndef HALAY_BASE_MEMORY_H
#define HALAY_BASE_MEMORY_H

#include "base/log.h"
#include "halay_types.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define HALAY_CACHE_LINE 64
#define HALAY_PAGE 4096
#define HALAY_HUGE_PAGE ((size_t)2 << 20)

enum { HALAY_VECTOR_COPY = 2048 }; /* bytes that memcpy copies without string instructions */

/* Sets *product to a * b (*sum to a + b). Returns nonzero if that overflows, and changes nothing then. Inline: small
 * collectives count instructions, and modules, which do not link this library, have sizes, too. */
static inline int halay_mul_overflows(size_t a, size_t b, size_t *product)
{
    size_t result;

    if (__builtin_mul_overflow(a, b, &result))
        return 1;
    *product = result;
    return 0;
}

static inline int halay_add_overflows(size_t a, size_t b, size_t *sum)
{
    size_t result;

    if (__builtin_add_overflow(a, b, &result))
        return 1;
    *sum = result;
    return 0;
}

static inline size_t halay_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Logs "no memory " and what for ("for the scalers", "to read '%s'"). Returns HALAY_ERR_NO_MEMORY. */
enum halay_status halay_no_memory(struct halay_log *log, const char *what, ...) __attribute__((format(printf, 2, 3)));

/* Returns a block aligned to `alignment` (a power of two), freed by free(); NULL without memory. 0 bytes become 1. */
void *halay_aligned_alloc(size_t alignment, size_t bytes);

/* memcpy, at its usual rate for any places. On processors that copy with string instructions a byte takes ten times as
 * long where `to` is 1 to 31 bytes after `from`, modulo a page: such copies are made in pieces that memcpy makes with
 * vectors. */
void halay_copy_in_pieces(void *to, const void *from, size_t bytes);
static inline void halay_copy(void *to, const void *from, size_t bytes)
{
    if (bytes > HALAY_VECTOR_COPY)
        halay_copy_in_pieces(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* Makes room for `wanted` items in a list: `list` points to the pointer, *size items have room, each has `item` bytes.
 * HALAY_ERR_NO_MEMORY, not logged: the list stays as it is. Inline: modules, which do not link this library, have
 * lists, too. */
static inline enum halay_status halay_list_reserve(void *list, size_t wanted, size_t *size, size_t item)
{
    size_t bytes;
    void *items;

    if (wanted <= *size)
        return HALAY_OK;
    memcpy(&items, list, sizeof items); /* a pointer to any type */
    if (halay_mul_overflows(wanted, item, &bytes) || !(items = realloc(items, bytes)))
        return HALAY_ERR_NO_MEMORY;
    memcpy(list, &items, sizeof items);
    *size = wanted;
    return HALAY_OK;
}

/* Makes room for one more item in a list that doubles, of which `count` are used; the rest as above. */
static inline enum halay_status halay_list_grow(void *list, size_t count, size_t *size, size_t item)
{
    return count < *size ? HALAY_OK : halay_list_reserve(list, *size ? 2 * *size : 16, size, item);
}

/* Blocks that are freed together: one error and one fini for all memory of an object. Starts as zeros. */
struct halay_region {
    struct halay_region_block *blocks; /* owned; the newest first */
    int failed;                        /* nonzero after an allocation that failed */
};

/* Returns zeroed memory for `count` items of `size` bytes, one byte at least, that halay_region_fini frees. Without
 * memory, or if the product overflows, returns NULL and sets region->failed. */
void *halay_region_alloc(struct halay_region *region, size_t count, size_t size);
/* Frees all blocks; the region is empty again. */
void halay_region_fini(struct halay_region *region);

/* Creates a memfd of `bytes` bytes, all zero, sealed against shrinking and growing, close-on-exec. Pages take memory
 * when they are first touched. */
enum halay_status halay_segment_create(struct halay_log *log, const char *name, size_t bytes, int *fd);
/* Maps a segment that another process passed, after a check that it is a memfd sealed against shrinking and not smaller
 * than `bytes`. It is mapped at a multiple of the huge page, so that the file's huge pages can be huge pages of every
 * process. */
enum halay_status halay_segment_map(struct halay_log *log, int fd, size_t bytes, void **base);
/* The same into address space that halay_segment_reserve gave: one system call in place of four for each of many. */
enum halay_status halay_segment_map_at(struct halay_log *log, int fd, size_t bytes, void *at);
/* Reserves address space at a multiple of the huge page, without access. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_segment_reserve(struct halay_log *log, size_t bytes, void **base);
/* Unmaps segments and what is reserved in this range. NULL is allowed. */
void halay_segment_unmap(void *base, size_t bytes);

/* Prefers a NUMA node for memory that the segment takes from now on, in any process. A hint. */
void halay_segment_wish_numa_node(struct halay_log *log, void *base, size_t bytes, int node);

/* Asks for the huge pages that are whole in [ptr, ptr + bytes) of a mapped segment and have memory already; keeps the
 * contents. A hint: without free ones, or without support, the pages stay small. */
void halay_segment_wish_huge(void *ptr, size_t bytes);

#endif
