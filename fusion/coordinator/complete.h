/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion: all ranks have arrived at a name.
 */
#ifndef HALAY_COMPLETE_H
#define HALAY_COMPLETE_H

#include "fusion/coordinator/coordinator_state.h"

/* Returns nonzero if all ranks that have not joined have arrived. */
int halay_coordinator_is_complete(const struct halay_coordinator *c, const struct halay_tensor_entry *entry);
/* Completes the entry, at which they have: runs the tensor if they agree, otherwise refuses it. The entry may have been
 * freed. */
enum halay_status halay_coordinator_complete(struct halay_coordinator *c, struct halay_tensor_entry *entry);

#endif
