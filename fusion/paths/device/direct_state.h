/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct: how the ranks of a host reduce what is on their devices (direct.c). Driver only, where not said
 * otherwise.
 */
#ifndef HALAY_STATE_DIRECT_H
#define HALAY_STATE_DIRECT_H

#include "collectives/transport/device_ops.h"
#include <stdatomic.h>

struct halay_bucket;
struct halay_coll;
struct halay_device;

/* All ranks have the same from one bucket to the next. */
enum halay_direct_state {
    HALAY_DIRECT_REFUSED, /* the data go through the host's memory */
    HALAY_DIRECT_UNKNOWN, /* nobody has asked yet */
    HALAY_DIRECT_OPEN,
};

enum halay_direct_step {
    HALAY_DIRECT_SHARE, /* each rank says how its segment is reached */
    HALAY_DIRECT_AGREE, /* and whether it reaches the others' */
    HALAY_DIRECT_CONCLUDE,
    HALAY_DIRECT_STAGE, /* refused: the data come to the host */
    HALAY_DIRECT_PACK,
    HALAY_DIRECT_REDUCE,
    HALAY_DIRECT_UNPACK,
    HALAY_DIRECT_END,
};

struct halay_direct {
    _Atomic int state; /* enum halay_direct_state; stored by the driver, relaxed: a hint for the program's threads */
    /* The device of all that goes this way, set by the first submission; guarded by the devices' lock. */
    struct halay_device *device;
    void *stream, *done; /* owned: ours on the device, and an event: the end of what it was given last */
    void *segment;       /* owned, `bytes` of it; kept until the end, so that no rank loses what it reaches */
    size_t bytes;
    int is_shared; /* the others were told how to reach the segment */
    int is_lent;   /* a rank may have the segment open for good: one that did not come to the end with the others */
    struct halay_device_share mine, shares[HALAY_DEVICE_RANKS];
    void *segments[HALAY_DEVICE_RANKS]; /* as this rank reaches them; NULL: not */
    unsigned char says, said[HALAY_DEVICE_RANKS];
    size_t room;                       /* bytes of the least segment */
    struct halay_bucket *bucket;       /* borrowed: under way; nothing else of the set starts meanwhile */
    enum halay_direct_step step;       /* the next */
    struct halay_coll *coll;           /* owned: by which ranks wait for each other */
    int is_launched;                   /* the stream has something that the others wait for */
    int is_one_shot;                   /* each rank sums all */
    size_t base, total;                /* elements: of the bucket in front of what is in the segments, and all */
    struct halay_device_piece *pieces; /* owned array, kept */
    size_t piece_count, piece_capacity;
};

#endif
