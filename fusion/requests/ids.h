/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids: those that all ranks have agreed on. Driver only.
 */
#ifndef HALAY_IDS_H
#define HALAY_IDS_H

#include "fusion/protocol/messages.h"
#include "fusion/requests/set.h"

struct halay_entry;

enum halay_status halay_ids_agree(struct halay_process_set *set, const struct halay_item *item);
/* NULL: no such id */
enum halay_status halay_ids_forget(struct halay_process_set *set, uint32_t id);

#endif
