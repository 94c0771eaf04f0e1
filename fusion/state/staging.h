/* SPDX-License-Identifier: Apache-2.0
 *
 * Staging: pinned memory of the host through which a submission's data on a device travel (device/staging.c).
 */
#ifndef HALAY_STATE_STAGING_H
#define HALAY_STATE_STAGING_H

#include "fusion/state/devices.h"

/* A submission's data, or those of one tensor of a group. NULL at a device: they are the host's, and host is theirs. */
struct halay_staged {
    const void *device_in; /* borrowed while in flight, as the next */
    void *device_out;
    const void *host_in; /* what the engine works on */
    void *host_out;
    size_t in_bytes, out_bytes; /* to be copied; of a result whose size is not known before, the room for it */
};

enum halay_staging_state {
    HALAY_STAGING_STILL,
    HALAY_STAGING_FOLLOWS, /* what it follows has not come */
    HALAY_STAGING_MOVES,   /* copies were started, and nobody has seen them end */
};

struct halay_staging {
    struct halay_staging *next;     /* of the idle ones */
    struct halay_staging *all_next; /* of all; guarded by the context's lock */
    struct halay_device *device;    /* borrowed: as long as the context */
    void *block;                    /* owned: `capacity` bytes, pinned; NULL: none */
    size_t capacity;
    void *aside;        /* owned: a stream that waits for the program's event; NULL: none was ever given */
    void *follows;      /* owned: an event, what the submission follows as it was then */
    const void *behind; /* the program's stream, if that is all it follows: compared, never used */
    void *moved;        /* owned: an event, the end of the copies that were started last */
    void *by;           /* a stream of ours in which devices reduce the data; NULL: they are copied */
    int is_direct;      /* it stays on the device unless it falls back */
    void *program_out;  /* of the submission: where its result goes in the end */
    int must_wait;      /* it follows something */
    int is_lost;        /* nobody will know when its copies end: the memory cannot be given back */
    enum halay_staging_state state;
    struct halay_staged *staged; /* owned, kept, [staged_capacity] */
    size_t count, staged_capacity;
};

#endif
