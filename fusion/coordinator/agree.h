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

/* Refuses a tensor at which all ranks have arrived: sends an ERROR to all, and resets the entry, which may have been
 * freed. */
enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                           enum halay_status why, const char *text);

#endif
