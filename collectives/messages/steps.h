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

/* The ops of an algorithm that is a schedule, given as the designated initialisers of struct halay_schedule. */
#define HALAY_STEPS_OPS(...)                                                                                      \
    {                                                                                                             \
        .tags = HALAY_STEP_LANES * HALAY_STEP_TAGS, .clears_state = 1,                                            \
        .schedule = &(const struct halay_schedule){ __VA_ARGS__ }, .state_bytes = halay_steps_state_bytes,        \
        .scratch_bytes = halay_steps_scratch_bytes, .start = halay_steps_start, .progress = halay_steps_progress, \
        .cancel = halay_steps_cancel,                                                                             \
    }

/* Fields of a schedule for a vector as one block, in chunks of the configured length that follow each other. */
#define HALAY_STEPS_PIPELINED(lanes_)                                                                        \
    .blocks = halay_one_block, .cut = HALAY_CUT_CHUNKS, .lanes = (lanes_), .least = HALAY_STEP_WHOLE_CHUNKS, \
    .multiple = 1

#endif
