/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: those that this rank knows in a process set, and those given to collectives without a name.
 *
 * The n-th collective of one kind that the program submits without a name in a process set is `unnamed KIND n mod
 * HALAY_UNNAMED_MAX`, on every rank. Numbers are reused, so that the ranks agree on an id for each and keep a bounded
 * number of names. They depend on n alone, because everything else (requests in flight, ended requests) differs between
 * ranks at that moment. A reused number has the same shape as before if the program repeats itself after a number of
 * calls that divides HALAY_UNNAMED_MAX.
 */
#ifndef HALAY_NAMES_H
#define HALAY_NAMES_H

#include "fusion/requests/entry.h"

/* The number of names of one kind for collectives without a name, and so of those in flight: all kinds together fit
 * among the names that keep their ids (api/open.c). Divisible by 1 to 8, 10, 12, 14, 15, 16, ... */
enum { HALAY_UNNAMED_MAX = 1680 };

/* Returns the entry of a name, which is created if necessary. NULL: no memory. */
struct halay_entry *halay_entry_get_locked(struct halay_process_set *set, const char *name, size_t length,
                                           uint64_t hash);
/* Frees the entry unless it is still needed. */
void halay_entry_release_locked(struct halay_entry *entry);
/* Detaches a request from its name, which may then be submitted again. */
void halay_request_detach_locked(struct halay_request *request);
/* Frees the entry, which has been removed from its table. */
void halay_entry_free(struct halay_entry *entry);

/* Prints the name of a collective without one before it has its number: for errors. name: HALAY_NAME_MAX + 1. */
void halay_unnamed_print(int collective, char *name);
/* Prints the name of the next collective of this kind without one; returns its length. */
size_t halay_unnamed_print_next_locked(const struct halay_process_set *set, int collective, char *name);
/* Counts a collective without a name, once it has been submitted. */
void halay_unnamed_count_locked(struct halay_process_set *set, int collective);
/* Restarts the numbers in all sets, on all ranks: a join has ended, during which the joined ranks did not submit what
 * the others did. */
void halay_unnamed_restart_locked(struct halay_context *ctx);

#endif
