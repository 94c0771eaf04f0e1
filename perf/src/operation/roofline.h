/* SPDX-License-Identifier: Apache-2.0
 *
 * Roofline: the reads and writes of a collective over memory of this rank alone, with no peer and no synchronisation.
 * What an operation needs at the least, all ranks at once, with every rank able to read and write everybody's memory:
 *
 *     all-reduce          S bytes are read and written: a block of all N buffers
 *     reduce(-scatter)    S bytes are read: a block of all N buffers; S / N are written
 *     broadcast           S bytes are read and written by all but the root
 *     all-gather          S (N - 1) / N bytes are read and written
 *     all-to-all          S bytes are read and written
 */
#ifndef HALAY_PERF_ROOFLINE_H
#define HALAY_PERF_ROOFLINE_H

#include <stddef.h>

/* Read and write every byte in place. */
void perf_roofline_update(void *buffer, size_t bytes);
/* Read `parts` parts of `bytes` bytes each, one after the other, add them up, write the sum. to may be the first
 * part. */
void perf_roofline_combine(void *to, const void *from, size_t parts, size_t bytes);
/* Read every byte of one and write it to the other. */
void perf_roofline_copy(void *to, const void *from, size_t bytes);

#endif
