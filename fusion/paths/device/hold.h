/* SPDX-License-Identifier: Apache-2.0
 *
 * Hold: the deferred queue. Submissions whose data are being copied from a device wait in it, and so do events that
 * must not overtake them. Driver only.
 */
#ifndef HALAY_HOLD_H
#define HALAY_HOLD_H

#include "fusion/requests/context.h"

/* Takes an event of the program, and starts the copies of a submission. *held: the event is deferred until
 * halay_hold_release returns it. An error ends the engine. */
enum halay_status halay_hold_event(struct halay_context *ctx, const struct halay_event *event, int *held);
/* Returns the events that no longer have to wait, in order. *events is borrowed until the next call. */
enum halay_status halay_hold_release(struct halay_context *ctx, const struct halay_event **events, size_t *count);
/* Drops all events. Called when all requests have ended. */
void halay_hold_drop(struct halay_context *ctx);
void halay_hold_fini(struct halay_context *ctx);

#endif
