/* SPDX-License-Identifier: Apache-2.0
 *
 * Process set: functions of the struct alone.
 */
#include "fusion/requests/set.h"
#include <stdio.h>

void halay_process_set_init(struct halay_process_set *set, struct halay_context *ctx, int size, int rank)
{
    *set = (struct halay_process_set){ .ctx = ctx, .size = size, .rank = rank };
    set->waiting_last = &set->waiting;
}

int halay_process_set_rank_of(const struct halay_process_set *set, int rank)
{
    if (!set->ranks)
        return rank < set->size ? rank : -1;
    int first = 0, end = set->size; /* ascending numbers: binary search of `rank` */

    while (first < end) {
        int middle = first + (end - first) / 2;
        if (set->ranks[middle] < rank)
            first = middle + 1;
        else
            end = middle;
    }
    return first < set->size && set->ranks[first] == rank ? first : -1;
}

void halay_process_set_print_ranks(const struct halay_process_set *set, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int r = 0; r < set->size && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s%d", r ? "," : "", set->ranks ? set->ranks[r] : r);
    if (used < size)
        snprintf(text + used, size - used, "]");
}
