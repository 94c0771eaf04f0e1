/* SPDX-License-Identifier: Apache-2.0
 *
 * Tell: what this rank says to the coordinator, which is in this process on rank 0. Driver only.
 */
#ifndef HALAY_TELL_H
#define HALAY_TELL_H

#include "fusion/protocol/messages.h"
#include "fusion/state/context.h"

/* An item about a set's tensors, or of all ranks' set about the rank. What goes wrong ends the engine. */
void halay_tell(struct halay_process_set *set, const struct halay_item *item);

#endif
