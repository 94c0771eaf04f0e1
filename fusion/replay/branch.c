/* SPDX-License-Identifier: Apache-2.0
 *
 * Branch: the ranks at the places of a tree. Ranks of a host have neighbouring numbers, so the tree has few edges
 * between hosts even without blocks.
 */
#include "fusion/replay/branch.h"
#include "collectives/transport/bootstrap/tree.h"
#include "fusion/protocol/messenger.h"

/* Returns the place of the set's first rank: 1 if rank 0 of the job, which always has place 0, is not a member. */
static int first_place(const struct halay_process_set *set)
{
    return set->ranks && set->ranks[0] != 0;
}

static struct halay_tree tree_of(const struct halay_process_set *set)
{
    return (struct halay_tree){ .size = set->size + first_place(set), .block = 1, .degree = set->ctx->degree };
}

static int place_of(const struct halay_process_set *set)
{
    return set->ctx->rank ? set->rank + first_place(set) : 0;
}

static int rank_at(const struct halay_process_set *set, int place)
{
    return !place || !set->ranks ? place : set->ranks[place - first_place(set)];
}

enum halay_status halay_branch_reach(struct halay_process_set *set)
{
    struct halay_messenger *m = set->ctx->messenger;
    struct halay_tree tree = tree_of(set);
    int place = place_of(set), child = place;

    enum halay_status status =
        place ? halay_messenger_reach(m, rank_at(set, halay_tree_parent(&tree, place))) : HALAY_OK;
    while (status == HALAY_OK && (child = halay_tree_next_child(&tree, place, child)) > 0)
        status = halay_messenger_reach(m, rank_at(set, child));
    return status;
}

int halay_branch_ranks(const struct halay_process_set *set)
{
    struct halay_tree tree = tree_of(set);
    int place = place_of(set);

    return place ? halay_tree_span(&tree, place) : 1;
}

enum halay_status halay_branch_send_up(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_tree tree = tree_of(set);

    return halay_messenger_append(set->ctx->messenger, rank_at(set, halay_tree_parent(&tree, place_of(set))), item);
}

enum halay_status halay_branch_send_down(struct halay_process_set *set, const struct halay_item *item)
{
    struct halay_tree tree = tree_of(set);
    enum halay_status status = HALAY_OK;
    int place = place_of(set), child = place;

    while (status == HALAY_OK && (child = halay_tree_next_child(&tree, place, child)) > 0)
        status = halay_messenger_append(set->ctx->messenger, rank_at(set, child), item);
    return status;
}
