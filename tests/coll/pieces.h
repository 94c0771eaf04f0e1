/* SPDX-License-Identifier: Apache-2.0
 *
 * In-place all-reduce of a list of pieces, as the engine starts it. pieces is borrowed until the end.
 */
#ifndef HALAY_TEST_PIECES_H
#define HALAY_TEST_PIECES_H

#include "collectives/api/calls.h"
#include "collectives/group/group.h"

enum { CHUNK_SHIFT_MOST = 3 }; /* and least: -3; of a group's chunk_shift */

static inline enum halay_status allreduce_pieces_start(struct halay_group *group, const struct halay_piece *pieces,
                                                       size_t count, enum halay_dtype dtype, enum halay_reduction op,
                                                       struct halay_coll **coll)
{
    const struct halay_lists lists = {
        .in = pieces, .out = pieces, .in_count = count, .out_count = count, .dtype = dtype
    };

    return halay_group_allreduce_lists_start(group, &lists, dtype, op, coll);
}

#endif
