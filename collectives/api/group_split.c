/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups by colour: all ranks of a group tell each other their colour and key by an all-gather, so that each knows the
 * members of its new group, in order, and makes that as one of some ranks (group_subset.c).
 *
 *     rank               0  1  2  3  4
 *     colour             7  7  2  7  2       -> {3, 0, 1} and {2, 4}
 *     key                1  1  0  0  5
 */
#include "base/error_text.h"
#include "collectives/group/channel.h"
#include "collectives/group/group.h"
#include <stdint.h>
#include <stdlib.h>

struct colored {
    int32_t color, key, rank;
};

/* Colours of hosts are apart from those of programs. */
static int32_t color_of(const struct halay_group *group, int color)
{
    return color == HALAY_COLOR_HOST ? INT32_MIN + group->world->node_of[group->world->rank] : color;
}

static int compare_keys(const void *a, const void *b)
{
    const struct colored *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* Writes the ranks of this colour in the order of their keys; returns how many there are. */
static int list_members(struct colored *all, int size, int32_t color, int *members)
{
    int count = 0;

    for (int r = 0; r < size; r++)
        if (all[r].color == color)
            all[count++] = all[r];
    qsort(all, (size_t)count, sizeof *all, compare_keys);
    for (int i = 0; i < count; i++)
        members[i] = all[i].rank;
    return count;
}

static enum halay_status exchange(struct halay_group *parent, const struct colored *mine, struct colored *all)
{
    struct halay_coll *c;
    enum halay_status status =
        halay_group_allgather_start(parent, mine, all, sizeof *mine / sizeof mine->color, HALAY_I32, &c);

    return status == HALAY_OK ? halay_coll_finish(c) : status;
}

static enum halay_status split(struct halay_group *parent, int color, int key, struct halay_group **group)
{
    struct colored mine = { color_of(parent, color), key, parent->rank };
    struct colored *all = calloc((size_t)parent->size, sizeof *all);
    int *members = calloc((size_t)parent->size, sizeof *members);

    enum halay_status status = all && members ? exchange(parent, &mine, all)
                                              : halay_fail(parent->world->log, HALAY_ERR_NO_MEMORY,
                                                           "no memory for the colours of %d ranks", parent->size);
    if (status == HALAY_OK && color != HALAY_COLOR_NONE)
        status = halay_group_subset(parent, members, list_members(all, parent->size, mine.color, members), group);
    else if (status == HALAY_OK)
        *group = NULL;
    free(members);
    free(all);
    return status;
}

enum halay_status halay_group_split(struct halay_group *parent, int color, int key, struct halay_group **group)
{
    if (!parent || !group)
        return halay_returns(halay_fail_somewhere(parent ? parent->world->log : NULL, HALAY_ERR_ARGUMENT,
                                                  "halay_group_split: no %s",
                                                  parent ? "place for the group" : "parent"));
    if (color < HALAY_COLOR_HOST)
        return halay_returns(halay_fail(parent->world->log, HALAY_ERR_ARGUMENT,
                                        "halay_group_split: colour %d is not from 0 up, HALAY_COLOR_NONE or "
                                        "HALAY_COLOR_HOST",
                                        color));
    enum halay_status status = halay_group_check_process(parent);
    return status == HALAY_OK ? halay_returns(split(parent, color, key, group)) : status;
}
