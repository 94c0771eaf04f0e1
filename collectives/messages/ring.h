/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk of data around a ring of all ranks, summing and then passing on: what the ring all-reduces are made of. The
 * picture is in allreduce_ring.c. Without the passing on it is a reduce-scatter.
 */
#ifndef HALAY_RING_H
#define HALAY_RING_H

#include "collectives/schedule/coll.h"

enum { HALAY_RING_LANES = 4 };

/* The same segment of every block: walks by itself. */
struct halay_ring_lane {
    size_t segment; /* which segment of each block; >= segments: nothing left to do */
    int step;       /* 0 .. 2 (N - 1) - 1, without passing on N - 2 */
    int posted;     /* this step's send is under way */
    int receiving;  /* receives posted: steps below this number */
    struct halay_transfer send;
    struct halay_transfer recv[2]; /* step s: recv[s & 1] */
    unsigned char *landing[3];     /* in scratch: what arrives while blocks are summed; step s: landing[s % places] */
};

struct halay_ring {
    struct halay_span part; /* elements of the collective's vectors that this ring takes care of: all-reduce */
    int scatters;           /* reduce-scatter: the blocks are the ranks' parts, and stay where they are summed */
    int direction;          /* 1: to the next rank, -1: to the previous one */
    uint32_t tag;           /* the first of HALAY_RING_LANES own tags */
    size_t segment_length;  /* elements */
    size_t segments;        /* of the longest block */
    struct halay_ring_lane lanes[HALAY_RING_LANES];
};

/* Bytes of scratch for a part of so many elements; a multiple of a cache line. */
size_t halay_ring_scratch(const struct halay_coll *c, size_t count);
/* The same for a reduce-scatter. */
size_t halay_ring_scatter_scratch(const struct halay_coll *c);
/* part or scatters, direction and tag are set, all else is zero; scratch as large as halay_ring_scratch says. Nothing
 * is posted yet. */
void halay_ring_start(const struct halay_coll *c, struct halay_ring *ring, unsigned char *scratch);
/* Do what can be done: nonzero while something is left. */
int halay_ring_progress(struct halay_coll *c, struct halay_ring *ring);
void halay_ring_cancel(struct halay_coll *c, struct halay_ring *ring);

/* Slots of struct halay_algorithm_ops for an algorithm that has one ring and nothing else for its state. */
size_t halay_ring_alone_bytes(int size);
enum halay_status halay_ring_alone_progress(struct halay_coll *c);
void halay_ring_alone_cancel(struct halay_coll *c);

#endif
