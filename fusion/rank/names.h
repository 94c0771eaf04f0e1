/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: those that this rank knows in a process set.
 */
#ifndef HALAY_NAMES_H
#define HALAY_NAMES_H

#include "fusion/state/entry.h"

/* The entry of a name; made if there is none. NULL: no memory. */
struct halay_entry *halay_entry_get_locked(struct halay_process_set *set, const char *name, size_t length,
                                           uint64_t hash);
/* Free the entry if nothing needs it any more. */
void halay_entry_release_locked(struct halay_entry *entry);
/* Frees the entry, which is in no table any more. */
void halay_entry_free(struct halay_entry *entry);

#endif
