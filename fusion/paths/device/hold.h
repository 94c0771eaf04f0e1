/* SPDX-License-Identifier: Apache-2.0
 *
 * Hold: submissions whose data are on their way from a device wait here, and so does what must not overtake
 * them. Driver only.
 */
#ifndef HALAY_HOLD_H
#define HALAY_HOLD_H

#include "fusion/state/context.h"

/* A program's event: *held: it is kept until halay_hold_release gives it out. Starts a submission's copies. An error is
 * the engine's end. */
enum halay_status halay_hold_event(struct halay_context *ctx, const struct halay_event *event, int *held);
/* What need not wait any longer, in order: *events is borrowed until the next call. */
enum halay_status halay_hold_release(struct halay_context *ctx, const struct halay_event **events, size_t *count);
/* All requests have ended: nothing is held any more. */
void halay_hold_drop(struct halay_context *ctx);
void halay_hold_fini(struct halay_context *ctx);

#endif
