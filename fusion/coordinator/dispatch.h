/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: the last step of a decision.
 */
#ifndef HALAY_DISPATCH_H
#define HALAY_DISPATCH_H

#include "fusion/coordinator/coordinator_state.h"

/* Chooses a tensor that runs alone, after all that were chosen before. */
enum halay_status halay_coordinator_choose(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Sends the chosen tensors as BUCKETs; averages with other divisors go into a BUCKET of their own. */
enum halay_status halay_coordinator_dispatch(struct halay_coordinator *c);

/* Adds an id to c->ranges, which has room and this number of them. Returns the new number of them. */
size_t halay_coordinator_add_range(struct halay_coordinator *c, size_t ranges, uint32_t id);

#endif
