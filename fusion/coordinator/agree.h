/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement: compares the ranks' announcements of a name.
 */
#ifndef HALAY_AGREE_H
#define HALAY_AGREE_H

#include "fusion/coordinator/coordinator_state.h"

/* Compares the announcements; all ranks have sent theirs. *agreed: they are equal; otherwise all ranks have been sent
 * an error, and the entry may have been freed. */
enum halay_status halay_coordinator_agree(struct halay_coordinator *c, struct halay_tensor_entry *entry, int *agreed);

#endif
