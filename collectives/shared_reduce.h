/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducing through shared memory into one place: what reduce and reduce-scatter over shared memory have in common. Each
 * rank owns a slice of everybody's in; it adds that slice and writes it into one rank's out.
 */
#ifndef HALAY_SHARED_REDUCE_H
#define HALAY_SHARED_REDUCE_H

#include "collectives/shared.h"

/* What a rank said when it arrived. */
struct shared_reduce_peer {
    const unsigned char *in; /* its buffer here; NULL: private */
    unsigned char *out;      /* of a rank that others write to */
    int in_private, out_private;
};

struct shared_reduce {
    uint64_t base;                   /* chunks of this channel before this collective */
    size_t chunks;                   /* of the longest slice; the same on all ranks */
    size_t chunk;                    /* elements */
    size_t place;                    /* bytes of one owner's place in a slot */
    int arrived;                     /* ranks below have */
    int slotted;                     /* some rank uses slots */
    size_t filled, reduced, drained; /* chunks of this rank */
    struct halay_cursor filling, draining;
    const void **src; /* behind the peers: size */
    struct shared_reduce_peer peer[];
};

size_t shared_reduce_state_bytes(int size);
void shared_reduce_start(struct halay_coll *c);
enum halay_status shared_reduce_progress(struct halay_coll *c);

#endif
