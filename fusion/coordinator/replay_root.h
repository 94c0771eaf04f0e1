/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay, the coordinator's side (the protocol: fusion/protocol/replay.h).
 */
#ifndef HALAY_REPLAY_ROOT_H
#define HALAY_REPLAY_ROOT_H

#include "fusion/coordinator/coordinator_state.h"

/* Starts a plan if the turn that has just been dispatched is due for one. *emitted: it did. */
enum halay_status halay_replay_root_start(struct halay_coordinator *c, int *emitted);
/* Returns nonzero if an item of this kind from a rank is to be ignored now, because the rank will send it again. */
int halay_replay_root_ignores(const struct halay_coordinator *c, enum halay_item_kind kind);
/* Takes an answer to PLAN, BREAK, ENTERED or SETTLED from a rank; HALAY_ERR_FORMAT if the rank cannot send that now. */
enum halay_status halay_replay_root_receive(struct halay_coordinator *c, const struct halay_item *item);
void halay_replay_root_fini(struct halay_coordinator *c);

#endif
