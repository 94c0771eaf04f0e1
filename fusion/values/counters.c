/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters: the spells in which collectives are under way.
 */
#include "fusion/values/counters.h"
#include "base/clock.h"

void halay_tally_busy(struct halay_tally *tally)
{
    atomic_store_explicit(&tally->busy_since_ns, halay_now_ns(), memory_order_relaxed);
}

void halay_tally_idle(struct halay_tally *tally)
{
    int64_t since = atomic_load_explicit(&tally->busy_since_ns, memory_order_relaxed);

    if (!since)
        return;
    halay_count(&tally->communication_ns, (uint64_t)(halay_now_ns() - since));
    atomic_store_explicit(&tally->busy_since_ns, 0, memory_order_relaxed);
}
