/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "tft/layers/pass.h"
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

void *arena_memory(size_t bytes)
{
    void *memory;

    if (bytes < 4 * (size_t)HUGE_PAGE)
        return halay_aligned_alloc(HALAY_PAGE, bytes);
    memory = halay_aligned_alloc(HUGE_PAGE, bytes);
#ifdef MADV_HUGEPAGE
    if (memory && madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE) != 0)
        return memory; /* a kernel without them uses small pages */
#endif
    return memory;
}

void *arena_bytes(struct arena *arena, size_t count, size_t size)
{
    size_t bytes, begin = arena->used, end;

    if (halay_mul_overflows(count, size, &bytes) || halay_add_overflows(bytes, HALAY_CACHE_LINE - 1, &bytes) ||
        halay_add_overflows(begin, bytes / HALAY_CACHE_LINE * HALAY_CACHE_LINE, &end)) {
        arena->used = SIZE_MAX;
        return NULL;
    }
    arena->used = end;
    return arena->base ? arena->base + begin : NULL;
}
