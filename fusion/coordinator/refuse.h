/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusing what all ranks have submitted and cannot run.
 */
#ifndef HALAY_REFUSE_H
#define HALAY_REFUSE_H

#include "fusion/coordinator/coordinator_state.h"

/* All ranks have come and it can't run: they are told, and it is as if they had not come. The entry may be gone. */
enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                           enum halay_status why, const char *text);

#endif
