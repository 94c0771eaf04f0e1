/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusing: tensors that all ranks have submitted and that cannot run.
 */
#ifndef HALAY_REFUSE_H
#define HALAY_REFUSE_H

#include "fusion/coordinator/coordinator_state.h"

/* Refuses a tensor at which all ranks have arrived: sends the error, and resets the entry, which may have been
 * freed. */
enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                           enum halay_status why, const char *text);

#endif
