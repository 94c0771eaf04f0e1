/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap of a segment: ranges never overlap, come back whole, and are joined again.
 */
#include "../test.h"
#include "base/memory.h"
#include "collectives/transport/heap.h"
#include <stdint.h>

enum { PAGES = 64, SLOTS = 20 };

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void check_random(void)
{
    struct halay_heap heap;
    size_t offset[SLOTS], pages[SLOTS] = { 0 };
    unsigned char owner[PAGES] = { 0 };
    unsigned state = 11;

    REQUIRE(halay_heap_init(&heap, PAGES * HALAY_PAGE) == HALAY_OK);
    for (int step = 0; step < 5000; step++) {
        unsigned s = next_random(&state) % SLOTS;
        size_t bytes = 1 + next_random(&state) % (8 * HALAY_PAGE);
        if (pages[s]) {
            CHECK(halay_heap_size(&heap, offset[s]) == pages[s] * HALAY_PAGE);
            for (size_t p = 0; p < pages[s]; p++)
                owner[offset[s] / HALAY_PAGE + p] = 0;
            CHECK(halay_heap_give(&heap, offset[s]) == HALAY_OK);
            pages[s] = 0;
        } else if (halay_heap_take(&heap, bytes, &offset[s]) == HALAY_OK) {
            pages[s] = (bytes + HALAY_PAGE - 1) / HALAY_PAGE;
            for (size_t p = 0; p < pages[s]; p++) {
                unsigned char *o = &owner[offset[s] / HALAY_PAGE + p];
                CHECK(!*o, "page taken twice in step %d", step);
                *o = 1;
            }
        }
    }
    for (unsigned s = 0; s < SLOTS; s++)
        if (pages[s])
            CHECK(halay_heap_give(&heap, offset[s]) == HALAY_OK);
    CHECK(halay_heap_take(&heap, PAGES * HALAY_PAGE, &offset[0]) == HALAY_OK, "all of it is one range again");
    halay_heap_fini(&heap);
}

static void check_limits(void)
{
    struct halay_heap heap;
    size_t at;

    REQUIRE(halay_heap_init(&heap, PAGES * HALAY_PAGE) == HALAY_OK);
    CHECK(halay_heap_take(&heap, SIZE_MAX, &at) == HALAY_ERR_NO_MEMORY);
    CHECK(halay_heap_take(&heap, PAGES * HALAY_PAGE + 1, &at) == HALAY_ERR_NO_MEMORY);
    CHECK(halay_heap_give(&heap, 0) == HALAY_ERR_ARGUMENT);
    CHECK(halay_heap_take(&heap, 1, &at) == HALAY_OK && at == 0);
    CHECK(halay_heap_give(&heap, HALAY_PAGE) == HALAY_ERR_ARGUMENT);
    CHECK(halay_heap_give(&heap, 0) == HALAY_OK);
    CHECK(halay_heap_give(&heap, 0) == HALAY_ERR_ARGUMENT);
    halay_heap_fini(&heap);
}

/* Large blocks begin at a huge page, small ones fill the gaps, and all of it comes back. */
static void check_huge(void)
{
    struct halay_heap heap;
    size_t small, large, other;

    REQUIRE(halay_heap_init(&heap, 4 * HALAY_HUGE_PAGE) == HALAY_OK);
    CHECK(halay_heap_take(&heap, 1, &small) == HALAY_OK && small == 0);
    CHECK(halay_heap_take(&heap, HALAY_HUGE_PAGE + 1, &large) == HALAY_OK && large == HALAY_HUGE_PAGE);
    CHECK(halay_heap_take(&heap, HALAY_PAGE, &other) == HALAY_OK && other == HALAY_PAGE, "in the gap");
    CHECK(halay_heap_give(&heap, other) == HALAY_OK);
    CHECK(halay_heap_take(&heap, HALAY_HUGE_PAGE, &other) == HALAY_OK && other == 3 * HALAY_HUGE_PAGE);
    CHECK(halay_heap_give(&heap, other) == HALAY_OK);
    CHECK(halay_heap_take(&heap, 2 * HALAY_HUGE_PAGE, &other) == HALAY_ERR_NO_MEMORY, "no huge page for its start");
    CHECK(halay_heap_give(&heap, large) == HALAY_OK && halay_heap_give(&heap, small) == HALAY_OK);
    CHECK(halay_heap_take(&heap, 4 * HALAY_HUGE_PAGE, &large) == HALAY_OK && large == 0, "one range again");
    halay_heap_fini(&heap);
}

int main(void)
{
    check_random();
    check_huge();
    check_limits();
    return test_end();
}
