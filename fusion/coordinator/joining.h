/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining: ranks that have no more data.
 */
#ifndef HALAY_JOINING_H
#define HALAY_JOINING_H

#include "fusion/coordinator/coordinator_state.h"

/* Takes the join of a rank; tensors that waited for it alone can run, in all sets. */
enum halay_status halay_coordinator_join(struct halay_coordinator *c, int rank);

#endif
