/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of ranks in few bytes: most are like the one before, but for a process id or a name. Each byte is sent as its
 * difference from the record before (exclusive or; the first record's from zero), and zeros by their number:
 *
 *     zeros, literals, [literals] bytes        again and again, to the end of the records
 *
 * Both numbers are little-endian, 7 bits a byte, the highest bit of each but the last is set.
 */
#ifndef HALAY_TABLE_CODE_H
#define HALAY_TABLE_CODE_H

#include <stddef.h>

/* Returns the most bytes that encode writes. */
size_t halay_table_most(size_t bytes);
/* Encodes `bytes` bytes, in records of `record` (1 or more). Returns the number of bytes written to code. */
size_t halay_table_encode(const unsigned char *records, size_t bytes, size_t record, unsigned char *code);
/* Decodes. Returns zero if the code isn't that of `bytes` bytes; what records has then is undefined. */
int halay_table_decode(const unsigned char *code, size_t code_bytes, unsigned char *records, size_t bytes,
                       size_t record);

#endif
