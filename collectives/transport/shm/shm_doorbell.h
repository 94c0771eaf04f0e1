/* SPDX-License-Identifier: Apache-2.0
 *
 * Doorbell: how a rank sleeps and how others wake it, with next to nothing to pay while it is awake.
 *
 *     sleeper                                  waker
 *     S1  sleeping = 1                         W1  store what the sleeper waits for (release)
 *     S2  full barrier                         W2  barrier
 *     S3  token = rings                        W3  sleeping ? exchange it with 0, add to rings, wake the futex
 *     S4  look at everything once more
 *     S5  sleep while rings == token
 *
 * A wake would be lost if W3 read 0 while S4 did not see W1. Two full barriers forbid it: one of the two must see the
 * other's store. The waker's one (W2) would be paid for every message: it waits for the store buffer, in which the line
 * that the peer is reading lies. So where the kernel can, the sleeper pays for both: membarrier in S2 makes every
 * running thread of every registered process pass a full barrier (those not running did when they were switched), and
 * W2 is left to the compiler alone. All ranks must agree on that: a rank that cannot register makes all of them use
 * full barriers.
 *
 * The rank that exchanges sleeping for 0 is the one that wakes; others see 0 and go on. rings changes before the futex
 * is woken, so a sleeper that has not got to S5 yet does not sleep.
 *
 * References: membarrier(2) (MEMBARRIER_CMD_GLOBAL_EXPEDITED), futex(2).
 */
#ifndef HALAY_SHM_DOORBELL_H
#define HALAY_SHM_DOORBELL_H

#include "base/sync.h"
#include "collectives/transport/shm/shm_segment.h"
#include <stdatomic.h>

/* Register this process; nonzero if membarrier can be used by it. */
int halay_shm_barrier_register(void);

/* W2; also wherever else a store must not be overtaken by a load of what a sleeper stored before S2. */
static inline void halay_shm_light_barrier(int has_barrier)
{
    if (has_barrier)
        atomic_signal_fence(memory_order_seq_cst);
    else
        halay_full_fence();
}

/* The other half: pairs with the light ones of all ranks. 0: it could not be made, once in a long while. */
int halay_shm_heavy_barrier(int has_barrier);

/* W3 when sleeping was seen. */
void halay_shm_ring(struct halay_shm_header *header);

static inline void halay_shm_notify(struct halay_shm_header *header, int has_barrier)
{
    halay_shm_light_barrier(has_barrier);
    if (atomic_load_explicit(&header->sleeping, memory_order_relaxed))
        halay_shm_ring(header);
}

uint32_t halay_shm_arm(struct halay_shm_header *own, int has_barrier);
void halay_shm_disarm(struct halay_shm_header *own);
/* Returns after timeout_us at the latest. Does not disarm. */
void halay_shm_doze(struct halay_shm_header *own, uint32_t token, long timeout_us);
/* End the dozes of this process's threads, armed or not. */
void halay_shm_wake(struct halay_shm_header *own);

#endif
