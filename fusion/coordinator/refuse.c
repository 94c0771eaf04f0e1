/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusing: sends an ERROR to all ranks, and resets the entry as if none had arrived.
 */
#include "fusion/coordinator/refuse.h"
#include "fusion/coordinator/tensor_table.h"
#include <string.h>

enum halay_status halay_coordinator_refuse(struct halay_coordinator *c, struct halay_tensor_entry *entry,
                                           enum halay_status why, const char *text)
{
    if (!entry->is_change) /* the callers get the error, on every rank */
        halay_log_write(c->options.log, halay_log_reported_level(c->options.log), "%s", text);
    enum halay_status status = halay_coordinator_emit(c, -1,
                                                      &(struct halay_item){ .kind = HALAY_ITEM_ERROR,
                                                                            .name = entry->node.name,
                                                                            .name_length = entry->node.length,
                                                                            .status = why,
                                                                            .text = text,
                                                                            .text_length = strlen(text) });
    halay_coordinator_reset_entry(c, entry);
    return status;
}
