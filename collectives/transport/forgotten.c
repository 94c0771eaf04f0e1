/* SPDX-License-Identifier: Apache-2.0
 *
 * Forgotten groups: see forgotten.h.
 */
#include "collectives/transport/forgotten.h"
#include "base/memory.h"
#include <string.h>

/* Returns the index of the first range that ends at that number or above it. */
static size_t find_range(const struct halay_forgotten *forgotten, uint64_t number)
{
    size_t low = 0, high = forgotten->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (forgotten->ranges[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void halay_forgotten_add(struct halay_forgotten *forgotten, struct halay_group_range groups)
{
    size_t at = find_range(forgotten, groups.first ? groups.first - 1 : 0), end = at;
    struct halay_group_range *ranges;

    if (halay_list_grow(&forgotten->ranges, forgotten->count, &forgotten->room, sizeof *ranges) != HALAY_OK)
        return;
    ranges = forgotten->ranges;
    while (end < forgotten->count && ranges[end].first <= (uint64_t)groups.last + 1)
        end++;
    if (end > at) { /* those from at on become one with the new one */
        groups.first = ranges[at].first < groups.first ? ranges[at].first : groups.first;
        groups.last = ranges[end - 1].last > groups.last ? ranges[end - 1].last : groups.last;
    }
    memmove(&ranges[at + 1], &ranges[end], (forgotten->count - end) * sizeof *ranges);
    ranges[at] = groups;
    forgotten->count += at + 1 - end;
}

void halay_forgotten_fini(struct halay_forgotten *forgotten)
{
    free(forgotten->ranges);
    *forgotten = (struct halay_forgotten){ 0 };
}

int halay_forgotten_has(const struct halay_forgotten *forgotten, uint64_t tag)
{
    size_t at = find_range(forgotten, tag >> 32);

    return at < forgotten->count && halay_group_range_has(forgotten->ranges[at], tag);
}
