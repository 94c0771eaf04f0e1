/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives over lists of pieces, which the engine starts beyond the calls of include/halay_coll.h.
 */
#ifndef HALAY_CALLS_H
#define HALAY_CALLS_H

#include "collectives/schedule/vector.h"
#include "halay_coll.h"

/* Starts an all-reduce of lists: the elements of in, multiplied by its factors and converted to dtype, are reduced; the
 * results, multiplied by the factors of out, are written. It is in place if both are one array. The arrays are borrowed
 * until the end. Nothing is copied where every rank's pieces are in shared memory and need no conversion; otherwise the
 * data pass through the group's scratch memory. */
enum halay_status halay_group_allreduce_lists_start(struct halay_group *group, const struct halay_lists *lists,
                                                    enum halay_dtype dtype, enum halay_reduction op,
                                                    struct halay_coll **coll);
/* Starts a broadcast of a list in place; the count of a piece is its bytes. */
enum halay_status halay_group_broadcast_pieces_start(struct halay_group *group, const struct halay_piece *pieces,
                                                     size_t piece_count, int root, struct halay_coll **coll);

#endif
