/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes: the layout of a group, and the strips that this rank owns. nodes.h has the picture.
 *
 * Cleanup: zero-initialised, destroy accepts a half-built object.
 */
#include "collectives/group/nodes.h"
#include <stdlib.h>

/* Needed only while the nodes are being made. */
struct layout {
    const struct halay_group *group;
    int nodes, mine;
    int *node;  /* owned: [rank], numbered in order of their lowest rank in the group */
    int *count; /* owned: [node], its members */
    struct halay_cut cuts[HALAY_STRIPS_MAX + 1];
    int cut_count;
};

static int node_in_world(const struct halay_group *group, int rank)
{
    return group->world->node_of[halay_group_world_rank(group, rank)];
}

static enum halay_status layout_init(struct layout *l, const struct halay_group *group)
{
    int n = group->size;

    *l = (struct layout){ .group = group };
    l->node = malloc((size_t)n * sizeof *l->node);
    l->count = calloc((size_t)n, sizeof *l->count);
    if (!l->node || !l->count)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < n; r++) {
        int first = 0;
        while (node_in_world(group, first) != node_in_world(group, r))
            first++;
        l->node[r] = first == r ? l->nodes++ : l->node[first];
        l->count[l->node[r]]++;
    }
    l->mine = l->node[group->rank];
    return HALAY_OK;
}

static void layout_fini(struct layout *l)
{
    free(l->node);
    free(l->count);
}

static int compare_cuts(struct halay_cut a, struct halay_cut b)
{
    long long left = (long long)a.num * b.den, right = (long long)b.num * a.den;

    return (left > right) - (left < right);
}

/* Insert in order, each value once. Zero: too many. */
static int add_cut(struct layout *l, struct halay_cut cut)
{
    int at = l->cut_count;

    while (at > 0 && compare_cuts(l->cuts[at - 1], cut) > 0)
        at--;
    if (at > 0 && !compare_cuts(l->cuts[at - 1], cut))
        return 1;
    if (l->cut_count > HALAY_STRIPS_MAX)
        return 0;
    for (int i = l->cut_count++; i > at; i--)
        l->cuts[i] = l->cuts[i - 1];
    l->cuts[at] = cut;
    return 1;
}

static int add_all_cuts(struct layout *l)
{
    for (int node = 0; node < l->nodes; node++)
        for (int i = 0; i <= l->count[node]; i++)
            if (!add_cut(l, (struct halay_cut){ i, l->count[node] }))
                return 0;
    return 1;
}

static int is_worth_while(const struct layout *l)
{
    return l->nodes > 1 && l->nodes < l->group->size;
}

/* The group's number of the `index`-th member on a node. */
static int nth_member(const struct layout *l, int node, int index)
{
    int r = -1;

    while (index >= 0)
        index -= l->node[++r] == node;
    return r;
}

static enum halay_status find_owners(const struct layout *l, struct halay_cut from, int **out)
{
    int *owners = malloc((size_t)l->nodes * sizeof *owners);

    if (!owners)
        return HALAY_ERR_NO_MEMORY;
    for (int node = 0; node < l->nodes; node++) {
        int owner = nth_member(l, node, (int)((long long)from.num * l->count[node] / from.den));
        owners[node] = halay_group_world_rank(l->group, owner);
    }
    *out = owners;
    return HALAY_OK;
}

static enum halay_status fill_strips(struct halay_nodes *nodes, const struct layout *l)
{
    const struct halay_cut begin = { nodes->local, nodes->locals }, end = { nodes->local + 1, nodes->locals };

    nodes->strip = calloc((size_t)l->cut_count, sizeof *nodes->strip);
    if (!nodes->strip)
        return HALAY_ERR_NO_MEMORY;
    for (int i = 0; i + 1 < l->cut_count; i++) {
        struct halay_strip *s = &nodes->strip[nodes->strips];
        if (compare_cuts(l->cuts[i], begin) < 0 || compare_cuts(l->cuts[i], end) >= 0)
            continue;
        *s = (struct halay_strip){ .from = l->cuts[i], .to = l->cuts[i + 1], .index = i };
        enum halay_status status = find_owners(l, s->from, &s->owners);
        if (status != HALAY_OK)
            return status;
        nodes->strips++;
    }
    return HALAY_OK;
}

static enum halay_status fill_layout(struct halay_nodes *nodes, const struct layout *l)
{
    const struct halay_group *group = l->group;
    size_t locals = (size_t)l->count[l->mine];

    nodes->count = l->nodes;
    nodes->node = l->mine;
    nodes->rank = malloc(locals * sizeof *nodes->rank);
    if (!nodes->rank)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < group->size; r++) {
        if (l->node[r] != l->mine)
            continue;
        if (r == group->rank)
            nodes->local = nodes->locals;
        nodes->rank[nodes->locals++] = r;
    }
    return fill_strips(nodes, l);
}

enum halay_status halay_nodes_create(const struct halay_group *group, struct halay_nodes **out)
{
    struct halay_nodes *nodes = NULL;
    struct layout l;

    *out = NULL;
    if (!group->memory)
        return HALAY_OK;
    enum halay_status status = layout_init(&l, group);
    if (status != HALAY_OK || !is_worth_while(&l) || !add_all_cuts(&l))
        goto out_fini;
    nodes = calloc(1, sizeof *nodes);
    status = nodes ? fill_layout(nodes, &l) : HALAY_ERR_NO_MEMORY;
    if (status == HALAY_OK) {
        *out = nodes;
        nodes = NULL;
    }

out_fini:
    halay_nodes_destroy(nodes);
    layout_fini(&l);
    return status;
}

void halay_nodes_destroy(struct halay_nodes *nodes)
{
    if (!nodes)
        return;
    for (int i = 0; i < nodes->strips; i++)
        free(nodes->strip[i].owners);
    free(nodes->strip);
    free(nodes->rank);
    free(nodes);
}
