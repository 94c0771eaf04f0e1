/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrival: submissions of tensors that a rank sends. HALAY_ERR_FORMAT: no correct engine sends this. now_us: the clock.
 */
#ifndef HALAY_ARRIVE_H
#define HALAY_ARRIVE_H

#include "fusion/coordinator/coordinator_state.h"

/* Takes ANNOUNCE: the rank's signature of the name. */
enum halay_status halay_coordinator_announce(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                             int64_t now_us);
/* Takes READY: the rank submitted what is agreed. */
enum halay_status halay_coordinator_ready(struct halay_coordinator *c, int rank, const struct halay_id_range *range,
                                          int64_t now_us);

#endif
