/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor table: the entries of a coordinator, one for each name.
 */
#ifndef HALAY_TENSOR_TABLE_H
#define HALAY_TENSOR_TABLE_H

#include "fusion/coordinator/coordinator_state.h"

/* Returns the entry of a name, which is created if necessary; NULL: no memory. */
struct halay_tensor_entry *halay_coordinator_entry(struct halay_coordinator *c, const char *name, size_t length);
/* Resets an entry that was dispatched or refused: no rank has arrived. It may have been freed. */
void halay_coordinator_reset_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Frees the entry unless it still has a state. */
void halay_coordinator_release_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry);
void halay_coordinator_free_entries(struct halay_coordinator *c);

/* Prints "tensor 'x'", with the process set if it is not that of all ranks; "process sets [0,1]" for a change. */
enum { HALAY_SUBJECT_MAX = HALAY_NAME_MAX + 40 };
void halay_coordinator_subject(const struct halay_coordinator *c, const struct halay_tensor_entry *entry, char *text,
                               size_t size);

/* Ranks as "rank 1", "ranks 1, 3", or "ranks 1, 3, ..." where the text has no room for more. Zero-initialised. */
struct halay_rank_text {
    char text[256];
    int count;
};
void halay_rank_text_add(struct halay_rank_text *list, int rank);

#endif
