/* SPDX-License-Identifier: Apache-2.0
 *
 * Copying through shared memory: what broadcast and all-gather over shared memory have in common. Some ranks give, each
 * a row of elements; everybody takes all rows. Of two ranks a giver who takes nothing may give by half: see `pushes`.
 */
#ifndef HALAY_SHARED_COPY_H
#define HALAY_SHARED_COPY_H

#include "collectives/shared/shared.h"

struct shared_giver {
    const unsigned char *data; /* its row here; NULL: private, or a list of pieces */
    size_t in_table;           /* pieces of a list in shared memory */
    struct halay_cursor at;    /* in that list */
    int is_private;            /* through its slots */
    size_t length;             /* elements; 0: gives nothing */
    size_t start;              /* where its row goes in everybody's out */
    unsigned char *target;     /* with pushes, of who takes: its out here; NULL: private */
};

struct shared_copy {
    uint64_t base;        /* chunks of this channel before this collective */
    size_t chunks, chunk; /* of the longest row; elements of one */
    size_t slot;          /* bytes of a chunk */
    int met;              /* givers below have arrived */
    size_t filled, taken; /* chunks of this rank */
    int pushes; /* the one giver writes the second half of each chunk into the taker's memory, if that is shared */
    struct halay_cursor filling, taking;
    struct shared_giver giver[]; /* c->t->size of them */
};

size_t shared_copy_state_bytes(int size);

/* state is a shared_copy whose givers' length and start are set. This rank's own row is c->in. */
void shared_copy_start(struct halay_coll *c);
enum halay_status shared_copy_progress(struct halay_coll *c);

#endif
