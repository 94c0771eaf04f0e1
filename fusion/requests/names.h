/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: those that this rank knows in a process set, and those that collectives without a name get.
 *
 * The n-th collective of one kind that the program submits without a name in a process set is `unnamed KIND n mod
 * HALAY_UNNAMED_MAX`, on every rank alike. Numbers come again, so that the ranks agree on an id for each and keep a
 * bounded number of names; they depend on n alone, as all else (what is in flight, what has ended) differs between
 * ranks at that moment. A number that comes again has the same shape as before if the program repeats itself after a
 * count of calls that divides HALAY_UNNAMED_MAX.
 */
#ifndef HALAY_NAMES_H
#define HALAY_NAMES_H

#include "fusion/state/entry.h"

/* Names of one kind without a name, and how many of them can be in flight: all kinds together fit among those that
 * keep their ids (api/open.c). Divisible by 1 to 8, 10, 12, 14, 15, 16, ... */
enum { HALAY_UNNAMED_MAX = 1680 };

/* The entry of a name; made if there is none. NULL: no memory. */
struct halay_entry *halay_entry_get_locked(struct halay_process_set *set, const char *name, size_t length,
                                           uint64_t hash);
/* Free the entry if nothing needs it any more. */
void halay_entry_release_locked(struct halay_entry *entry);
/* Frees the entry, which is in no table any more. */
void halay_entry_free(struct halay_entry *entry);

/* Prints what a collective without a name is called before it has its number: for errors. name: HALAY_NAME_MAX + 1. */
void halay_unnamed_print(int collective, char *name);
/* Prints the name of the next collective of this kind without one; returns its length. */
size_t halay_unnamed_print_next_locked(const struct halay_process_set *set, int collective, char *name);
/* Counts it, once it has been submitted. */
void halay_unnamed_count_locked(struct halay_process_set *set, int collective);
/* Begins again in all sets, on all ranks alike: a join has ended, whose ranks did not submit what the others did. */
void halay_unnamed_restart_locked(struct halay_context *ctx);

#endif
