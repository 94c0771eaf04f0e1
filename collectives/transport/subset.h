/* SPDX-License-Identifier: Apache-2.0
 *
 * Subset: some ranks of a transport as a transport of their own, numbered anew. It translates numbers of peers and does
 * nothing else, so that algorithms need not know of it; a group of all ranks uses the transport itself.
 *
 * Tags and areas are the inner transport's: a user of several subsets of one keeps them apart by the group in the tag
 * and by the number of the area. Progress, sleep and memory are the inner one's too, for all subsets at once.
 */
#ifndef HALAY_SUBSET_H
#define HALAY_SUBSET_H

#include "collectives/transport/link.h"

/* The view of ranks[0 .. count - 1] of inner, this process being ranks[rank]. caps: what to offer of inner's. inner is
 * borrowed until close, ranks for the call. Local: other ranks need not call it, and close tells them nothing.
 * HALAY_ERR_NO_MEMORY. */
enum halay_status halay_subset_open(struct halay_link *inner, const int *ranks, int count, int rank, unsigned caps,
                                    struct halay_link **out);

/* The number of a rank of t in the transport that t is a view of, or a view of a view: that of transfers' peers. */
int halay_subset_inner_rank(const struct halay_link *t, int rank);

#endif
