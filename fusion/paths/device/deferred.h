/* SPDX-License-Identifier: Apache-2.0
 *
 * Deferred queue: submissions whose data are being copied from a device wait in it, and so do events that
 * must not overtake them. Driver only.
 */
#ifndef HALAY_DEFERRED_H
#define HALAY_DEFERRED_H

#include "fusion/requests/context.h"

/* Takes an event of the program, and starts the copies of a submission. *is_deferred: the event is deferred until
 * halay_deferred_release. An error ends the engine. */
enum halay_status halay_deferred_add(struct halay_context *ctx, const struct halay_event *event, int *is_deferred);
/* Moves the events that no longer have to wait to ctx->queue.resubmitted, in order. An error ends the engine. */
enum halay_status halay_deferred_release(struct halay_context *ctx);
/* Drops all events. Called when all requests have ended. */
void halay_deferred_drop(struct halay_context *ctx);

#endif
