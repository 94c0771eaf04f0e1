/* SPDX-License-Identifier: Apache-2.0
 *
 * Negotiation, this rank's side. Driver only.
 */
#ifndef HALAY_NEGOTIATE_H
#define HALAY_NEGOTIATE_H

#include "fusion/protocol/messages.h"
#include "fusion/requests/context.h"

/* Sends the submissions since the last call to the coordinator; returns the number of events. */
size_t halay_negotiate_submitted(struct halay_context *ctx);
/* Sends items of plans, and looks for reasons to leave them; returns the number of items. */
size_t halay_negotiate_replay(struct halay_context *ctx);
/* Takes an item from the coordinator or, on rank 0, from a rank. */
enum halay_status halay_negotiate_receive(void *ctx, int rank, const struct halay_item *item);
/* Emits an item of a process set's coordinator, on rank 0, to the set's ranks. */
enum halay_status halay_negotiate_emit(void *set, int rank, const struct halay_item *item);
/* Reports stalls on rank 0, and ends them after the limit. */
void halay_negotiate_stalls(struct halay_context *ctx);
/* Sends BYE once the program is leaving. Returns nonzero if it has sent it now: that requires another step. */
int halay_negotiate_leave(struct halay_context *ctx);

#endif
