/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion: what happens when all ranks have come to a name.
 */
#ifndef HALAY_COMPLETE_H
#define HALAY_COMPLETE_H

#include "fusion/coordinator/coordinator_state.h"

/* Have all ranks come that have not joined? */
int halay_coordinator_is_complete(const struct halay_coordinator *c, const struct halay_tensor_entry *entry);
/* They have: if they agree it will run, otherwise it is refused, and the entry may be gone. */
enum halay_status halay_coordinator_complete(struct halay_coordinator *c, struct halay_tensor_entry *entry);

#endif
