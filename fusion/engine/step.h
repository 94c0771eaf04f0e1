/* SPDX-License-Identifier: Apache-2.0
 *
 * Step: a bounded part of all the driver's work. Driver only.
 */
#ifndef HALAY_STEP_H
#define HALAY_STEP_H

#include "fusion/requests/context.h"

/* Makes a whole step; never blocks. Returns nonzero if something happened. */
int halay_engine_step(struct halay_context *ctx);
/* Makes the part of a step that a plan needs, at now_us: takes submissions and moves data, but receives no message.
 * Only if halay_engine_is_steady; a whole step has to follow soon. */
int halay_engine_step_steady(struct halay_context *ctx, int64_t now_us);
/* Returns nonzero if a plan is in force, and no work is known that needs a whole step. */
int halay_engine_is_steady(const struct halay_context *ctx);
/* Returns nonzero if anything is in flight, here or (rank 0) on other ranks. */
int halay_engine_is_pending(const struct halay_context *ctx);

#endif
