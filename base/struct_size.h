/* SPDX-License-Identifier: Apache-2.0
 *
 * Structs of a program that was built against another version of the library than the one that is loaded: the first
 * member, struct_size, is the size of the program's. New members are added at the end, and zero in them means the
 * library's former behaviour.
 *
 *     program      | size | a | b |                 older: c is zero here
 *     library      | size | a | b | c |
 *     program      | size | a | b | c | d |         newer: d must be zero, as this version does not know it
 */
#ifndef HALAY_STRUCT_SIZE_H
#define HALAY_STRUCT_SIZE_H

#include "base/log.h"
#include <stddef.h>

/* Larger than a struct of any version: a larger struct_size was not set. */
enum { HALAY_STRUCT_MAX = 4096 };

/* Copies a program's struct into *out, of known bytes. first: its size in the first version; name: for the log; log may
 * be NULL: standard error. HALAY_ERR_ARGUMENT, logged: smaller than first, larger than HALAY_STRUCT_MAX, or nonzero
 * bytes after the known ones. */
enum halay_status halay_struct_read(struct halay_log *log, const char *name, const void *given, size_t first,
                                    size_t known, void *out);

/* Returns nonzero if a program that gets a struct has set a possible struct_size. */
int halay_struct_has_size(const void *out);
/* Copies the members that both know from all, of `known` bytes, and zeros after them; keeps struct_size. */
void halay_struct_write(const void *all, size_t known, void *out);

#endif
