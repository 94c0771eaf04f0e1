/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrival: what a rank says of the tensors that its program submits. HALAY_ERR_FORMAT: no correct engine
 * says this. now_us: the clock.
 */
#ifndef HALAY_ARRIVE_H
#define HALAY_ARRIVE_H

#include "fusion/coordinator/coordinator_state.h"

/* ANNOUNCE: this is what the rank means by the name. */
enum halay_status halay_coordinator_announce(struct halay_coordinator *c, int rank, const struct halay_item *item,
                                             int64_t now_us);
/* READY: what is agreed. */
enum halay_status halay_coordinator_ready(struct halay_coordinator *c, int rank, const struct halay_id_range *range,
                                          int64_t now_us);

#endif
