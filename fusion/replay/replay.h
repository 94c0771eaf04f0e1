/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay, a rank's side (the protocol: fusion/protocol/replay.h). Driver only.
 */
#ifndef HALAY_RANK_REPLAY_H
#define HALAY_RANK_REPLAY_H

#include "fusion/protocol/messages.h"
#include "fusion/protocol/replay.h"
#include "fusion/requests/context.h"
#include "fusion/requests/request.h"

/* Handles PLANNED, PLAN, FREEZE, COMPLETE or RESUME of the coordinator. RESUME ends the plan: submissions to be taken
 * again are in ctx->queue.resubmitted then, in order. */
enum halay_status halay_replay_receive(struct halay_process_set *set, const struct halay_item *item);

/* Takes an event of the program's threads that concerns a plan. Returns nonzero if it was taken: it counts in a plan,
 * or is deferred until the set negotiates again. */
int halay_replay_take(struct halay_context *ctx, const struct halay_event *event);
/* Returns nonzero if the set negotiates: no plan is in force. */
int halay_replay_is_off(const struct halay_process_set *set);
/* Returns nonzero if a set is leaving its plan: ranks below this one in the tree may wait for its messages. */
int halay_replay_is_leaving(const struct halay_context *ctx);
/* Returns nonzero if all sets that this rank is in negotiate. */
int halay_replay_all_off(const struct halay_context *ctx);
/* Start to leave the plan of a set, if one is in force, or the plans of all sets. */
void halay_replay_break(struct halay_process_set *set, enum halay_break_reason reason);
void halay_replay_break_all(struct halay_context *ctx, enum halay_break_reason reason);

/* Handles BREAK, ENTERED or SETTLED of a rank below this one. */
enum halay_status halay_replay_gather(struct halay_process_set *set, const struct halay_item *item);
/* Returns nonzero if items from the coordinator have to wait for RESUME. */
int halay_replay_is_early(const struct halay_process_set *set);

/* Takes the next item to be sent: PLAN to the set's coordinator, others up the tree; item->payload is borrowed until it
 * is sent. Returns 0 if there is nothing to send. */
int halay_replay_next_item(struct halay_process_set *set, struct halay_item *item);

#endif
