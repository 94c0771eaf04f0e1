/* SPDX-License-Identifier: Apache-2.0
 *
 * Deciding: which tensors run next, in which order, and in which bucket.
 */
#ifndef HALAY_DECIDE_H
#define HALAY_DECIDE_H

#include "fusion/coordinator/coordinator_state.h"

/* Emits what runs now. is_idle: no collective is in flight on this rank, so everything that is ready runs at once;
 * otherwise it accumulates up to the threshold. *emitted: whether anything was emitted. Call it for the parent last:
 * the end of a job, or of a join, follows all sets' tensors. */
enum halay_status halay_coordinator_decide(struct halay_coordinator *c, int is_idle, int *emitted);

/* Calls halay_coordinator_decide for the children that have something to decide. is_idle(arg): of the child with that
 * argument of emit; called once for each. */
enum halay_status halay_coordinator_decide_children(struct halay_coordinator *parent, int (*is_idle)(const void *arg),
                                                    int *emitted);

#endif
