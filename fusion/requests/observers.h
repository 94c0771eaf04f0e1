/* SPDX-License-Identifier: Apache-2.0
 *
 * Observers: counters of the engine's actions, and records while they are on (observe/recorder.h).
 */
#ifndef HALAY_OBSERVERS_H
#define HALAY_OBSERVERS_H

#include "base/meters.h"
#include "base/record.h"
#include <pthread.h>

struct halay_recorder {
    _Atomic int is_on;         /* a ring takes records; relaxed: the rings are checked again afterwards */
    struct halay_ring *flight; /* owned, or NULL; set once before the engine starts */
    /* Takes records while it is not NULL: the ring below. Stored (release) once that is whole, loaded (acquire). */
    struct halay_ring *_Atomic timeline;

    pthread_mutex_t lock; /* guards the following members; start and stop hold it, and may block in a file under it */
    struct halay_ring *store; /* owned: the timeline's ring, made at the first start, kept until the end */
    uint64_t from;            /* records before this number belong to an earlier timeline */
    char *path;               /* owned: the timeline's file; NULL: no timeline is on */
};

static inline int halay_recording(const struct halay_recorder *recorder)
{
    return atomic_load_explicit(&((struct halay_recorder *)recorder)->is_on, memory_order_relaxed);
}

struct halay_observers {
    struct halay_recorder recorder;
    /* Meters: in the flight recorder's file if there is one, otherwise own. Set while no driver runs. */
    struct halay_meters *meters;
    struct halay_meters own;
};

#endif
