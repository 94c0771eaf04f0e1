/* SPDX-License-Identifier: Apache-2.0
 *
 * Deciding: what runs next, in which order, and what is fused.
 */
#ifndef HALAY_DECIDE_H
#define HALAY_DECIDE_H

#include "fusion/coordinator/coordinator_state.h"

/* Give out what is to run now. is_idle: nothing is under way on this rank, so everything that is ready runs at once;
 * otherwise it accumulates up to the threshold. *emitted: something was given out. Call it for the parent last: the end
 * of a job, or of a join, comes after all sets' tensors. */
enum halay_status halay_coordinator_decide(struct halay_coordinator *c, int is_idle, int *emitted);

/* The same for those children that have something to decide. is_idle(arg): of the child with that argument of emit;
 * called once for each. */
enum halay_status halay_coordinator_decide_children(struct halay_coordinator *parent, int (*is_idle)(const void *arg),
                                                    int *emitted);

#endif
