/* SPDX-License-Identifier: Apache-2.0
 *
 * Negotiation, this rank's side. Driver only.
 */
#ifndef HALAY_NEGOTIATE_H
#define HALAY_NEGOTIATE_H

#include "fusion/protocol/messages.h"
#include "fusion/state/context.h"

/* Tell the coordinator what was submitted since the last time; returns how many events. */
size_t halay_negotiate_submitted(struct halay_context *ctx);
/* Send what plans have to send, and look for reasons to leave them; returns how many items. */
size_t halay_negotiate_replay(struct halay_context *ctx);
/* An item from the coordinator or, on rank 0, from a rank. */
enum halay_status halay_negotiate_receive(void *ctx, int rank, const struct halay_item *item);
/* From a process set's coordinator, on rank 0, to the set's ranks. */
enum halay_status halay_negotiate_emit(void *set, int rank, const struct halay_item *item);
/* Rank 0: report what stalls, and end it after the limit. */
void halay_negotiate_stalls(struct halay_context *ctx);
/* Say BYE once the program is leaving. Nonzero if it was said now: what follows from it needs another step. */
int halay_negotiate_leave(struct halay_context *ctx);

#endif
