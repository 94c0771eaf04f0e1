/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs algorithms that are schedules: schedule/step.h.
 */
#ifndef HALAY_STEPS_H
#define HALAY_STEPS_H

#include "collectives/schedule/step.h"

size_t halay_steps_state_bytes(int size);
size_t halay_steps_scratch_bytes(const struct halay_coll *c);
void halay_steps_start(struct halay_coll *c);
enum halay_status halay_steps_progress(struct halay_coll *c);
void halay_steps_cancel(struct halay_coll *c);

/* The ops of an algorithm that is this schedule. */
#define HALAY_STEPS_OPS(by)                                                                         \
    {                                                                                               \
        .tags = HALAY_STEP_LANES * HALAY_STEP_TAGS, .schedule = (by), .clears_state = 1,            \
        .state_bytes = halay_steps_state_bytes, .scratch_bytes = halay_steps_scratch_bytes,         \
        .start = halay_steps_start, .progress = halay_steps_progress, .cancel = halay_steps_cancel, \
    }

#endif
