/* SPDX-License-Identifier: Apache-2.0
 *
 * Observers: what is kept of what the engine does: counters, and records where they are wanted (observe/recorder.h).
 */
#ifndef HALAY_OBSERVERS_H
#define HALAY_OBSERVERS_H

#include "base/meters.h"
#include "base/record.h"
#include <pthread.h>

struct halay_recorder {
    _Atomic int is_on;         /* a ring takes records; relaxed: the rings are checked again behind it */
    struct halay_ring *flight; /* owned, or NULL; set once before the engine starts */
    /* Takes records while it is not NULL: the ring below. Stored (release) once that is whole, loaded (acquire). */
    struct halay_ring *_Atomic timeline;

    pthread_mutex_t lock;     /* of what follows; start and stop hold it, and may block in a file under it */
    struct halay_ring *store; /* owned: the timeline's ring, made at the first start, kept until the end */
    uint64_t from;            /* records before this number belong to an earlier timeline */
    char *path;               /* owned: where the timeline goes; NULL: none is on */
};

static inline int halay_recording(const struct halay_recorder *recorder)
{
    return atomic_load_explicit(&((struct halay_recorder *)recorder)->is_on, memory_order_relaxed);
}

struct halay_observers {
    struct halay_recorder recorder;
    /* Where meters are: in the flight recorder's file if there is one, else own. Set while there is no driver. */
    struct halay_meters *meters;
    struct halay_meters own;
};

#endif
