/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of names: given when ranks agree on a name, taken back from those used longest ago.
 */
#ifndef HALAY_ID_POOL_H
#define HALAY_ID_POOL_H

#include "fusion/coordinator/coordinator_state.h"

/* The entry's name gets an id. May take back another name's. */
enum halay_status halay_coordinator_assign_id(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* A rank has answered FORGET. HALAY_ERR_FORMAT: it was not asked. */
enum halay_status halay_coordinator_id_forgotten(struct halay_coordinator *c, uint32_t id);

#endif
