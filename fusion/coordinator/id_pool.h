/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of names: assigned when ranks agree on a name; the least recently used are revoked.
 */
#ifndef HALAY_ID_POOL_H
#define HALAY_ID_POOL_H

#include "fusion/coordinator/coordinator_state.h"

/* Assigns an id to the entry's name. May revoke another name's. */
enum halay_status halay_coordinator_assign_id(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Takes a rank's answer to FORGET. HALAY_ERR_FORMAT: it was not asked. */
enum halay_status halay_coordinator_id_forgotten(struct halay_coordinator *c, uint32_t id);

#endif
