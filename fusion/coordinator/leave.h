/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaving and joining: ranks that submit no more, and ranks that have no more data.
 */
#ifndef HALAY_LEAVE_H
#define HALAY_LEAVE_H

#include "fusion/coordinator/coordinator_state.h"

/* Takes the join of a rank; tensors that waited for it alone can run, in all sets. */
enum halay_status halay_coordinator_join(struct halay_coordinator *c, int rank);
/* Takes BYE: the rank leaves all sets. */
enum halay_status halay_coordinator_leave(struct halay_coordinator *c, int rank);
/* Ends the job if the name, at which a rank has arrived, lacks a rank that has left. */
enum halay_status halay_coordinator_check_left(struct halay_coordinator *c, const struct halay_tensor_entry *entry);

#endif
