/* SPDX-License-Identifier: Apache-2.0
 *
 * Doorbell: the slow half of sleeping and waking. The protocol and its proof are in the header.
 */
#include "collectives/transport/shm/shm_doorbell.h"
#include "base/sync.h"
#include <limits.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { UNARMED_MOST_US = 1000 };

static int barrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

int halay_shm_barrier_register(void)
{
    /* The second call tells whether registering was of any use. */
    return barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) && barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

void halay_shm_ring(struct halay_shm_header *header)
{
    if (!atomic_exchange_explicit(&header->sleeping, 0, memory_order_acq_rel))
        return;
    atomic_fetch_add_explicit(&header->rings, 1, memory_order_release);
    halay_futex_wake(&header->rings, INT_MAX);
}

int halay_shm_heavy_barrier(int has_barrier)
{
    if (has_barrier) /* once registered it fails only for want of memory */
        return barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    halay_full_fence();
    return 1;
}

uint32_t halay_shm_arm(struct halay_shm_header *own, int has_barrier)
{
    /* S3 may be read before S1: rings is added to only by one who saw sleeping set. */
    uint32_t token = atomic_load_explicit(&own->rings, memory_order_acquire);

    atomic_store_explicit(&own->sleeping, 1, memory_order_seq_cst);
    /* A waker may miss us where the barrier could not be made: sleeping 0 keeps sleep short. */
    if (!halay_shm_heavy_barrier(has_barrier))
        halay_shm_disarm(own);
    return token;
}

void halay_shm_disarm(struct halay_shm_header *own)
{
    atomic_store_explicit(&own->sleeping, 0, memory_order_relaxed);
}

void halay_shm_doze(struct halay_shm_header *own, uint32_t token, long timeout_us)
{
    /* Not armed: somebody has just rung, or there was no barrier. */
    if (!atomic_load_explicit(&own->sleeping, memory_order_relaxed) && timeout_us > UNARMED_MOST_US)
        timeout_us = UNARMED_MOST_US;
    halay_futex_wait(&own->rings, token, timeout_us);
}

void halay_shm_wake(struct halay_shm_header *own)
{
    atomic_fetch_add_explicit(&own->rings, 1, memory_order_release);
    halay_futex_wake(&own->rings, INT_MAX);
}
