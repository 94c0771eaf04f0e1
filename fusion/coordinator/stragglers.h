/* SPDX-License-Identifier: Apache-2.0
 *
 * Stragglers: statistics of the ranks' arrivals.
 */
#ifndef HALAY_STRAGGLERS_H
#define HALAY_STRAGGLERS_H

#include "fusion/coordinator/coordinator_state.h"
#include "halay_tools.h"

/* The arrivals of one rank. */
struct halay_arrivals {
    struct halay_tensor_entry *last; /* borrowed: its last submission; NULL: none yet, or the name is forgotten */
    int64_t last_us;                 /* its time; 0: never */
    int is_asked, has_answered;      /* for the stall report in progress */
    enum halay_doing doing;          /* the answer */
    char waited[HALAY_NAME_MAX + 1];
    int waited_set; /* the number of its process set */
    /* As struct halay_straggler; written by the driver, relaxed, read by any thread. */
    _Atomic uint64_t times_last, late_ns, latest_ns;
};

/* Returns the arrivals of one of the coordinator's ranks. */
static inline struct halay_arrivals *halay_arrivals_of(struct halay_coordinator *c, int rank)
{
    return &halay_coordinator_parent(c)->arrivals[halay_coordinator_rank(c, rank)];
}

/* Counts an arrival; the entry counts it already. */
void halay_arrivals_note(struct halay_coordinator *c, int rank, struct halay_tensor_entry *entry, int64_t now_us);
/* Forgets an entry that is about to be freed. */
void halay_arrivals_forget(struct halay_coordinator *c, const struct halay_tensor_entry *entry);

/* Reads the statistics, as halay_stragglers_read; any thread. */
void halay_coordinator_straggler(struct halay_coordinator *c, int rank, struct halay_straggler *out);
/* Logs at level info how often each rank arrived last, the worst first; nothing if no rank ever waited. */
void halay_coordinator_report_stragglers(struct halay_coordinator *c);

#endif
