/* SPDX-License-Identifier: Apache-2.0
 *
 * Stragglers: how often each rank arrives last, and by what time; and each rank's last submission, for the stall
 * report.
 *
 * The coordinator sees the ranks arrive at each tensor:
 *
 *     rank 2 ----x
 *     rank 0 -----x
 *     rank 1 --------------x      late by the distance to the rank before it: the time saved if both arrived together
 *
 * Times are those of rank 0's steps, so ranks that are found in one step have arrived together and none of them was
 * late. This takes two additions for each arrival, no message and no clock reading.
 */
#include "base/meters.h"
#include "fusion/coordinator/coordinator.h"
#include "fusion/coordinator/coordinator_state.h"
#include "halay_tools.h"
#include <stdlib.h>

void halay_arrivals_note(struct halay_coordinator *c, int rank, struct halay_tensor_entry *entry, int64_t now_us)
{
    struct halay_coordinator *parent = halay_coordinator_parent(c);
    struct halay_arrivals *a = halay_arrivals_of(c, rank);

    a->last = entry;
    a->last_us = now_us;
    if (entry->present + entry->outsiders == c->options.size) {
        uint64_t late_ns =
            entry->latest_us && now_us > entry->latest_us ? (uint64_t)(now_us - entry->latest_us) * 1000 : 0;
        halay_count(&parent->met, 1);
        halay_count(&a->times_last, late_ns > 0);
        halay_count(&a->late_ns, late_ns);
        if (late_ns > atomic_load_explicit(&a->latest_ns, memory_order_relaxed))
            atomic_store_explicit(&a->latest_ns, late_ns, memory_order_relaxed);
    }
    entry->latest_us = now_us;
}

void halay_arrivals_forget(struct halay_coordinator *c, const struct halay_tensor_entry *entry)
{
    for (int r = 0; r < c->options.size; r++)
        if (halay_arrivals_of(c, r)->last == entry)
            halay_arrivals_of(c, r)->last = NULL;
}

void halay_coordinator_straggler(struct halay_coordinator *c, int rank, struct halay_straggler *out)
{
    struct halay_arrivals *a = &c->arrivals[rank];

    *out = (struct halay_straggler){ .struct_size = sizeof *out,
                                     .tensors = atomic_load_explicit(&c->met, memory_order_relaxed),
                                     .times_last = atomic_load_explicit(&a->times_last, memory_order_relaxed),
                                     .late_ns = atomic_load_explicit(&a->late_ns, memory_order_relaxed),
                                     .latest_ns = atomic_load_explicit(&a->latest_ns, memory_order_relaxed) };
}

void halay_coordinator_report_stragglers(struct halay_coordinator *c)
{
    enum { LINES_MAX = 5 };
    struct line {
        int rank;
        struct halay_straggler s;
    } worst[LINES_MAX + 1], found; /* the latest first; one more, which falls out */
    int count = 0;

    for (found.rank = 0; found.rank < c->options.size; found.rank++) {
        int at = count;
        halay_coordinator_straggler(c, found.rank, &found.s);
        if (!found.s.times_last)
            continue;
        for (; at > 0 && worst[at - 1].s.late_ns < found.s.late_ns; at--)
            worst[at] = worst[at - 1];
        worst[at] = found;
        count += count < LINES_MAX;
    }
    for (int i = 0; i < count; i++)
        halay_info(c->options.log,
                   "stragglers: rank %d was the last one for %llu of %llu tensors, late by %.3g ms on average, "
                   "%.3g ms at most",
                   worst[i].rank, (unsigned long long)worst[i].s.times_last, (unsigned long long)worst[i].s.tensors,
                   (double)worst[i].s.late_ns / (double)worst[i].s.times_last / 1e6,
                   (double)worst[i].s.latest_ns / 1e6);
}
