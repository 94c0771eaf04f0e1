/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs that a program hands over, built against another version of the library than the one that is loaded: the
 * first member, struct_size, says how many bytes the program's has. New members are added at the end, and zero in them
 * means what the library did before it had them.
 *
 *     program      | size | a | b |                 older: c is zero here
 *     library      | size | a | b | c |
 *     program      | size | a | b | c | d |         newer: d must be zero, as it asks for what is not known here
 */
#ifndef HALAY_STRUCT_SIZE_H
#define HALAY_STRUCT_SIZE_H

#include "base/log.h"
#include <stddef.h>

/* No struct of ours is larger in any version: a larger size was not filled in. */
enum { HALAY_STRUCT_MOST = 4096 };

/* Read a program's struct, whose name is for the log, into *out, of known bytes; first: those of the first version that
 * had this struct. HALAY_ERR_ARGUMENT, and a line in the log: smaller than that, larger than HALAY_STRUCT_MOST, or
 * something but zeros behind what is known. log may be NULL: standard error. */
enum halay_status halay_struct_read(struct halay_log *log, const char *name, const void *given, size_t first,
                                    size_t known, void *out);

/* The other way round: the library hands a struct to a program that has set its struct_size. */
int halay_struct_has_size(const void *out); /* ... to something possible */
/* Fill in the members that both know, zeros behind them; struct_size stays. all has `known` bytes. */
void halay_struct_write(const void *all, size_t known, void *out);

#endif
