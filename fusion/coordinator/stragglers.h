/* SPDX-License-Identifier: Apache-2.0
 *
 * Stragglers: how the ranks come, and who comes last.
 */
#ifndef HALAY_STRAGGLERS_H
#define HALAY_STRAGGLERS_H

#include "fusion/coordinator/coordinator_state.h"
#include "halay_tools.h"

/* How one rank comes. */
struct halay_arrivals {
    struct halay_roll *last;    /* borrowed: what it submitted last; NULL: nothing, or the name is forgotten */
    int64_t last_us;            /* when; 0: never */
    int is_asked, has_answered; /* for the stall report that is under way */
    enum halay_doing doing;     /* the answer */
    char waited[HALAY_NAME_MAX + 1];
    int waited_set; /* the number of its process set */
    /* As struct halay_straggler; written by the driver, relaxed, read by any thread. */
    _Atomic uint64_t times_last, late_ns, latest_ns;
};

/* How one of the coordinator's ranks comes. */
static inline struct halay_arrivals *halay_arrivals_of(struct halay_coordinator *c, int rank)
{
    return &halay_coordinator_parent(c)->arrivals[halay_coordinator_rank(c, rank)];
}

/* The rank has come for this one, which counts it already. */
void halay_arrivals_note(struct halay_coordinator *c, int rank, struct halay_roll *roll, int64_t now_us);
/* The roll is about to be freed. */
void halay_arrivals_forget(struct halay_coordinator *c, const struct halay_roll *roll);

/* As halay_stragglers_read; any thread. */
void halay_coordinator_straggler(struct halay_coordinator *c, int rank, struct halay_straggler *out);
/* Log at level info who came last how often, the worst first; nothing if nobody ever waited. */
void halay_coordinator_report_stragglers(struct halay_coordinator *c);

#endif
