/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters, inside view: what the driver counts as it goes, at the price of an addition each.
 *
 * Each counter has one writer at a time, so that no locked instruction is needed: the driver (the role passes under
 * lock, which orders one driver's stores before the next one's loads), or who holds ctx->lock. Readers are any threads;
 * each value is whole, the values among each other are of slightly different moments.
 */
#ifndef HALAY_COUNTERS_H
#define HALAY_COUNTERS_H

#include "halay.h"
#include <stdatomic.h>
#include <stdint.h>

struct halay_tally {
    _Atomic uint64_t submissions; /* written under ctx->lock; all others by the driver only */
    _Atomic uint64_t ended[HALAY_COUNTERS_STATUSES];
    _Atomic uint64_t negotiations, cache_hits;
    _Atomic uint64_t collectives, fused_tensors, bytes;
    _Atomic uint64_t communication_ns; /* of the spells that are over */
    _Atomic int64_t busy_since_ns;     /* of the spell that lasts; 0: none */
    _Atomic uint64_t messages_received;
    _Atomic uint64_t sent_before; /* messages, by earlier messengers; written while there is no driver */
    _Atomic uint64_t steps, sleeps;
};

/* Relaxed: a count publishes nothing. The caller is the counter's only writer at this time. */
static inline void halay_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

/* A collective has started while none was under way; the last one has ended. Driver only. */
void halay_tally_busy(struct halay_tally *tally);
void halay_tally_idle(struct halay_tally *tally);

#endif
