/* SPDX-License-Identifier: Apache-2.0
 *
 * Route: see route.h.
 */
#include "collectives/transport/route.h"
#include <stdlib.h>

enum halay_status halay_route_init(struct halay_route *route, struct halay_link *data, struct halay_link *near,
                                   struct halay_shared_memory *memory, const int *node_of, const int *node_rank)
{
    int size = data->size;
    struct halay_hop *to = malloc((size_t)size * sizeof *to);

    if (!to)
        return HALAY_ERR_NO_MEMORY;
    for (int r = 0; r < size; r++) {
        int is_near = node_of[r] == node_of[data->rank];
        to[r] = (struct halay_hop){ .link = data, .number = r, .shared = -1 };
        if (is_near && near) {
            to[r].link = near;
            to[r].number = node_rank[r];
        }
        if (is_near && memory)
            to[r].shared = memory->size == size ? r : node_rank[r];
    }
    *route = (struct halay_route){ .data = data, .near = near ? near : data, .memory = memory, .size = size, .to = to };
    return HALAY_OK;
}

void halay_route_fini(struct halay_route *route)
{
    free(route->to);
    route->to = NULL;
}

/* Returns the member that the error names, else one that is lost too, else -1. */
static int find_lost(const struct halay_route *route, const int *members, int count)
{
    int lost = -1;

    for (int i = 0; i < count; i++) {
        const struct halay_hop *to = &route->to[members ? members[i] : i];
        if (to->number == to->link->failed_peer)
            return i;
        if (lost < 0 && to->link->lost[to->number])
            lost = i;
    }
    return lost;
}

enum halay_status halay_route_progress(const struct halay_route *route, const int *members, int count, int *failed)
{
    enum halay_status status = route->data->ops->progress(route->data);

    if (route->near != route->data && (status == HALAY_OK || status == HALAY_ERR_PEER)) {
        enum halay_status near = route->near->ops->progress(route->near);
        status = near == HALAY_OK ? status : near;
    }
    *failed = -1;
    if (status != HALAY_ERR_PEER)
        return status;
    *failed = find_lost(route, members, count);
    return *failed < 0 ? HALAY_OK : status;
}
