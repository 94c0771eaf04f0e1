/* SPDX-License-Identifier: Apache-2.0
 *
 * Driven: the part of a context that only the driver touches, so that it needs no lock.
 */
#ifndef HALAY_DRIVEN_H
#define HALAY_DRIVEN_H

#include "fusion/requests/execution.h"
#include "fusion/requests/negotiation.h"
#include <stdint.h>

struct halay_replay;

struct halay_driven {
    int64_t now_us;     /* the clock at the beginning of this step */
    int64_t stepped_us; /* when the last step began that was a whole one */
    int64_t checked_us; /* when peers and stalls were looked at last */
    struct halay_negotiation negotiation;
    struct halay_execution execution;
    struct halay_events changes; /* owned: joins and changes of sets that wait for the end of plans (replay/replay.h) */
    enum halay_status changes_status; /* no memory for one of them */
    struct halay_replay *ended_plans; /* owned: of sets that have ended */
    struct halay_events resubmitted;  /* owned: events to be taken again after a plan */
};

#endif
