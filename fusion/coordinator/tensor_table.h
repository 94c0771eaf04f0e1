/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor table: those of a coordinator, one for each name.
 */
#ifndef HALAY_TENSOR_TABLE_H
#define HALAY_TENSOR_TABLE_H

#include "fusion/coordinator/coordinator_state.h"

/* The entry of a name, made if there is none; NULL: no memory. */
struct halay_tensor_entry *halay_coordinator_entry(struct halay_coordinator *c, const char *name, size_t length);
/* Nobody has come any more: it was given out, or refused. It may be gone afterwards. */
void halay_coordinator_reset_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry);
/* Free it if nothing is known about its name any more. */
void halay_coordinator_release_entry(struct halay_coordinator *c, struct halay_tensor_entry *entry);
void halay_coordinator_free_entries(struct halay_coordinator *c);

/* "tensor 'x'", for people, with the process set if it is not that of all ranks; "process sets [0,1]" of a change. */
enum { HALAY_SUBJECT_MAX = HALAY_NAME_MAX + 40 };
void halay_coordinator_subject(const struct halay_coordinator *c, const struct halay_tensor_entry *entry, char *text,
                               size_t size);

#endif
