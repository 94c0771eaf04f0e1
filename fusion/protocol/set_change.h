/* SPDX-License-Identifier: Apache-2.0
 *
 * Change of process sets: the payload of a call that creates or removes sets. It is sent under a name
 * (signature.h), so that the coordinator compares the ranks' calls as it compares tensors.
 *
 *     make      0 | number of ranks | the ranks, ascending | the same for the next set ...   sent by all ranks
 *     form      1 | number of ranks | the ranks, ascending     one set, sent by its ranks
 *     remove    2 | number | its ranks                         sent by its ranks
 *     busy      3 | number | its ranks                         as remove, but an operation of the set is in flight here
 *
 * Each set that is formed or removed has a name of its own, so that several calls may be in flight at the same time.
 */
#ifndef HALAY_SET_CHANGE_H
#define HALAY_SET_CHANGE_H

#include <stddef.h>
#include <stdint.h>

enum { HALAY_SET_MAKE, HALAY_SET_FORM, HALAY_SET_REMOVE, HALAY_SET_BUSY };

/* Returns the index of the first of the ranks that send this payload, and their number in *members; 0: all ranks send
 * it. The payload may have any contents and alignment. */
size_t halay_set_change_members(const void *payload, size_t count, size_t *members);

/* Prints the change after "rank 3 ": "makes [0,2] [1,3]", "removes 2". Truncated to size. */
void halay_set_change_print(const uint64_t *payload, size_t count, char *text, size_t size);

/* Parses sets like "0,1; 2-4,7" into the payload of "make", without the leading 0, ranks in the order given. payload
 * may be NULL: then its words are only counted. Returns nonzero if the text does not parse. */
int halay_set_change_parse(const char *text, size_t *payload, size_t *count);

/* Returns nonzero if the change is impossible in a job of this number of ranks: *text has the reason. Numbers of sets
 * are not looked up. */
int halay_set_change_fault(const uint64_t *payload, size_t count, int ranks, char *text, size_t size);

#endif
