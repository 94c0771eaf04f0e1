/* SPDX-License-Identifier: Apache-2.0
 *
 * Route: how this rank reaches each rank of the job. Made once from the links and from the table of hosts; all groups
 * share it, and have no more than a list of ranks.
 *
 *     rank                0     1     2     3         this rank is 2, of host B
 *     host                A     A     B     B
 *     link, number        tcp 0 tcp 1 shm 0 shm 1
 *     number in memory    -     -     0     1
 *
 * Ranks are the job's. Lists of ranks (members): NULL is all ranks in order.
 */
#ifndef HALAY_ROUTE_H
#define HALAY_ROUTE_H

#include "collectives/transport/shared_memory.h"

struct halay_hop {
    struct halay_link *link; /* borrowed */
    int number;              /* of the rank in it */
    int shared;              /* its number in the memory that this rank shares with it; -1: it shares none */
};

struct halay_route {
    struct halay_link *data;            /* borrowed: it has all ranks */
    struct halay_link *near;            /* borrowed: the ranks of this host; `data` without another */
    struct halay_shared_memory *memory; /* borrowed: the ranks of this host; NULL: they share none */
    int size;
    struct halay_hop *to; /* owned, [rank] */
};

/* near, memory: of this host's ranks, which have the same node as this one, and their node_rank as numbers there
 * (memory that all ranks of data share: their rank); NULL: none. Links and memory are borrowed until fini, the rest for
 * the call. HALAY_ERR_NO_MEMORY. */
enum halay_status halay_route_init(struct halay_route *route, struct halay_link *data, struct halay_link *near,
                                   struct halay_shared_memory *memory, const int *node_of, const int *node_rank);
void halay_route_fini(struct halay_route *route); /* also of zeroed storage */

/* As the slots of a link. */

static inline void halay_route_send(const struct halay_route *route, int rank, uint64_t tag, const void *buf,
                                    size_t bytes, struct halay_transfer *x)
{
    const struct halay_hop *to = &route->to[rank];

    x->link = to->link;
    to->link->ops->send(to->link, to->number, tag, buf, bytes, x);
}

static inline void halay_route_recv(const struct halay_route *route, int rank, uint64_t tag, void *buf, size_t bytes,
                                    struct halay_transfer *x)
{
    const struct halay_hop *to = &route->to[rank];

    x->link = to->link;
    to->link->ops->recv(to->link, to->number, tag, buf, bytes, x);
}

/* Cancels a transfer that was posted by these. */
static inline void halay_route_cancel(struct halay_transfer *x)
{
    x->link->ops->cancel(x->link, x);
}

/* Has both links forget groups: see link.h. */
static inline void halay_route_forget(const struct halay_route *route, struct halay_group_range groups)
{
    route->data->ops->forget(route->data, groups);
    if (route->near != route->data)
        route->near->ops->forget(route->near, groups);
}

/* Returns nonzero if the transfer is one with this rank. */
static inline int halay_route_is_with(const struct halay_route *route, int rank, const struct halay_transfer *x)
{
    return route->to[rank].link == x->link && route->to[rank].number == x->peer;
}

/* Progresses all links. HALAY_ERR_PEER concerns only who needs the lost rank: *failed is its index among the members,
 * the first cause if that is one; HALAY_OK if none of them is lost. */
enum halay_status halay_route_progress(const struct halay_route *route, const int *members, int count, int *failed);

#endif
