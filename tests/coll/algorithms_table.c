/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the table of docs/reference/algorithms.md from algorithms.def.
 */
#include "collectives/choose/algorithms.h"
#include "collectives/schedule/coll.h"
#include <stdio.h>

static const char *mark(const struct halay_algorithm *a, unsigned flag)
{
    return a->flags & flag ? "yes" : "";
}

int main(void)
{
    for (size_t i = 0; i < halay_algorithm_count; i++) {
        const struct halay_algorithm *a = &halay_algorithms[i];
        printf("| %s | %s | %s.c | %s | %s | %s | %s | %s | `%s` |\n", halay_coll_kind_name(a->operation), a->name,
               a->file, a->flags & HALAY_ALGORITHM_NODES ? "inside nodes" : mark(a, HALAY_ALGORITHM_SHARED),
               mark(a, HALAY_ALGORITHM_TREE), mark(a, HALAY_ALGORITHM_WIDE), mark(a, HALAY_ALGORITHM_PIECES), a->what,
               a->cost);
    }
    return ferror(stdout) != 0;
}
