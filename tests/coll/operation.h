/* SPDX-License-Identifier: Apache-2.0
 *
 * Any operation by its number, for tests that only want it to be under way.
 */
#ifndef HALAY_TEST_OPERATION_H
#define HALAY_TEST_OPERATION_H

#include "collectives/group/group.h"
#include "collectives/schedule/coll.h"

/* On f32: data and all have size * part elements; source: the root of a broadcast, that of a reduction is rank 0. */
static inline enum halay_status operation_start(struct halay_group *group, enum halay_coll_kind operation, float *data,
                                                float *all, size_t part, int source, struct halay_coll **c)
{
    size_t count = (size_t)halay_group_size(group) * part;

    switch (operation) {
    case HALAY_COLL_ALLREDUCE:
        return halay_group_allreduce_start(group, data, data, count, HALAY_F32, HALAY_SUM, c);
    case HALAY_COLL_ALLREDUCE_ADASUM:
        return halay_group_allreduce_start(group, data, data, count, HALAY_F32, HALAY_ADASUM, c);
    case HALAY_COLL_BROADCAST:
        return halay_group_broadcast_start(group, data, count, HALAY_F32, source, c);
    case HALAY_COLL_REDUCE:
        return halay_group_reduce_start(group, data, all, count, HALAY_F32, HALAY_SUM, 0, c);
    case HALAY_COLL_REDUCE_SCATTER:
        return halay_group_reduce_scatter_start(group, data, all, part, HALAY_F32, HALAY_SUM, c);
    case HALAY_COLL_ALLTOALL:
        return halay_group_alltoall_start(group, data, all, part, HALAY_F32, c);
    case HALAY_COLL_ALLGATHER:
        return halay_group_allgather_start(group, data, all, part, HALAY_F32, c);
    default:
        return halay_group_barrier_start(group, c);
    }
}

#endif
