/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"
#include "tft/core/layers/pass.h"

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
