/* SPDX-License-Identifier: Apache-2.0
 *
 * Sending items from this rank to the coordinator, which is in this process on rank 0. Driver only.
 */
#ifndef HALAY_SEND_ITEM_H
#define HALAY_SEND_ITEM_H

#include "fusion/protocol/messages.h"
#include "fusion/requests/context.h"

/* Sends an item about a set's tensors, or one of all ranks' set about the rank. An error ends the engine. */
void halay_send_item(struct halay_process_set *set, const struct halay_item *item);

#endif
