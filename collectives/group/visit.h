/* SPDX-License-Identifier: Apache-2.0
 *
 * Visits: what another thread may do with groups that are used by one thread at a time.
 *
 * The thread that uses them notes its calls; a visitor has the groups to itself if none is under way. An abort that
 * finds one is carried out by that call, which the visitor wakes.
 *
 *     call                                      visitor
 *       inside = 1                                lock; wanted = 1
 *       barrier                                   barrier
 *       wanted? inside = 0; lock; inside = 1      inside? wake it
 *       the call                                         else: the visit
 *       inside = 0                                wanted = 0 (an abort stays wanted until it has been carried out);
 *       barrier                                   unlock
 *       an abort is wanted? the same again
 *
 * One of both sees the other's store. The barriers of the calls cost nothing where the kernel has membarrier (bell.h).
 */
#ifndef HALAY_VISIT_H
#define HALAY_VISIT_H

#include "collectives/transport/bell.h"

struct halay_world;

enum { HALAY_VISIT_LOOKS = 1, HALAY_VISIT_ABORTS = 2 };

struct halay_visits {
    /* Calls under way, one inside the other; written by the calling thread. Its release at the end of a call pairs with
     * the visitor's acquire. */
    _Atomic int inside;
    _Atomic int wanted;        /* what visitors want; cleared with release, which pairs with a call's acquire */
    int has_barrier;           /* set once */
    pthread_mutex_t lock;      /* of visitors */
    _Atomic pthread_t visitor; /* the thread that has the lock, or 0; relaxed: a thread looks for itself only */
};

/* drive.c */

/* Waits for a visitor, unless this thread is one, then carries out the aborts that are wanted. */
void halay_visits_give_way(struct halay_world *world);
/* Carries out the aborts that are wanted, within a call. */
void halay_visits_look(struct halay_world *world);

static inline int halay_visits_begin(struct halay_visits *v)
{
    int inside = atomic_load_explicit(&v->inside, memory_order_relaxed);

    atomic_store_explicit(&v->inside, inside + 1, memory_order_relaxed);
    halay_bell_light_barrier(v->has_barrier);
    return !inside && atomic_load_explicit(&v->wanted, memory_order_acquire);
}

/* Returns nonzero if an abort is wanted that this call has not seen. */
static inline int halay_visits_end(struct halay_visits *v)
{
    int inside = atomic_load_explicit(&v->inside, memory_order_relaxed);

    atomic_store_explicit(&v->inside, inside - 1, memory_order_release);
    halay_bell_light_barrier(v->has_barrier);
    return inside == 1 && atomic_load_explicit(&v->wanted, memory_order_relaxed) & HALAY_VISIT_ABORTS;
}

#endif
