/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay, a rank's side (the protocol: fusion/protocol/replay.h). Driver only.
 */
#ifndef HALAY_RANK_REPLAY_H
#define HALAY_RANK_REPLAY_H

#include "fusion/protocol/messages.h"
#include "fusion/protocol/replay.h"
#include "fusion/state/context.h"
#include "fusion/state/request.h"

/* PLANNED, PLAN, FREEZE, COMPLETE or RESUME from the coordinator. */
enum halay_status halay_replay_receive(struct halay_process_set *set, const struct halay_item *item);

/* Takes what the program's threads have announced, if a plan has to do with it. Returns nonzero if it was taken: it
 * counts in a plan, or is kept until the set negotiates again. */
int halay_replay_take(struct halay_context *ctx, const struct halay_event *event);
/* Returns nonzero if the set negotiates: no plan is in force. */
int halay_replay_is_off(const struct halay_process_set *set);
/* Returns nonzero if a set is leaving its plan: ranks below this one may depend on it. */
int halay_replay_is_leaving(const struct halay_context *ctx);
/* Returns nonzero if all sets that this rank is in negotiate. */
int halay_replay_all_off(const struct halay_context *ctx);
/* Asks to leave the plan of a set, if one is in force; of all sets. */
void halay_replay_break(struct halay_process_set *set, enum halay_break_reason reason);
void halay_replay_break_all(struct halay_context *ctx, enum halay_break_reason reason);

/* BREAK, ENTERED or SETTLED from a rank below this one. */
enum halay_status halay_replay_gather(struct halay_process_set *set, const struct halay_item *item);
/* Returns nonzero if items from the coordinator have to wait for RESUME. */
int halay_replay_is_early(const struct halay_process_set *set);

/* Takes the next item that is to be sent: PLAN to the set's coordinator, others up the tree; item->words is borrowed
 * until it is sent. Returns 0 if there is none. */
int halay_replay_next_item(struct halay_process_set *set, struct halay_item *item);
/* Ends the plans for which RESUME has come. *again: what is to be submitted anew, in order; kept for the next time. */
enum halay_status halay_replay_release(struct halay_context *ctx, struct halay_events *again);

#endif
