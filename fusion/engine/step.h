/* SPDX-License-Identifier: Apache-2.0
 *
 * Step: one bounded piece of everything the driver does. Driver only.
 */
#ifndef HALAY_STEP_H
#define HALAY_STEP_H

#include "fusion/state/context.h"

/* What was submitted here, to the coordinator and the peers. Hears nothing, decides nothing, delivers nothing: a
 * submission does it, and returns at once. */
void halay_engine_say(struct halay_context *ctx);
/* One bounded piece of everything; never blocks. Nonzero if something happened. */
int halay_engine_step(struct halay_context *ctx);
/* Is something in flight, here or (rank 0) elsewhere? */
int halay_engine_is_pending(const struct halay_context *ctx);

#endif
