/* SPDX-License-Identifier: Apache-2.0
 *
 * Step: one bounded part of all work of the driver. Driver only.
 */
#ifndef HALAY_STEP_H
#define HALAY_STEP_H

#include "fusion/state/context.h"

/* Does one bounded piece of everything; never blocks. Returns nonzero if something happened. */
int halay_engine_step(struct halay_context *ctx);
/* Does what a plan needs, at now_us: takes submissions and moves data, but receives no message. Only where
 * halay_engine_is_steady; a whole step has to follow soon. */
int halay_engine_step_steady(struct halay_context *ctx, int64_t now_us);
/* Returns nonzero if a plan is in force, and nothing is known that a steady step would leave undone. */
int halay_engine_is_steady(const struct halay_context *ctx);
/* Returns nonzero if anything is in flight, here or (rank 0) on other ranks. */
int halay_engine_is_pending(const struct halay_context *ctx);

#endif
