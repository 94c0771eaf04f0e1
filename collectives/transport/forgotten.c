/* SPDX-License-Identifier: Apache-2.0
 *
 * Forgotten groups: see forgotten.h.
 */
#include "collectives/transport/forgotten.h"
#include "base/memory.h"

void halay_forgotten_add(struct halay_forgotten *forgotten, uint32_t group)
{
    if (halay_list_grow(&forgotten->groups, forgotten->count, &forgotten->room, sizeof *forgotten->groups) == HALAY_OK)
        forgotten->groups[forgotten->count++] = group;
}

void halay_forgotten_fini(struct halay_forgotten *forgotten)
{
    free(forgotten->groups);
    *forgotten = (struct halay_forgotten){ 0 };
}

int halay_forgotten_has(const struct halay_forgotten *forgotten, uint64_t tag)
{
    for (size_t i = 0; i < forgotten->count; i++)
        if (forgotten->groups[i] == tag >> 32)
            return 1;
    return 0;
}
