/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts what halay itself asks of the allocator: calls from this program, which the library is linked into, and from
 * its modules. What MPI, UCX and the C library ask for on their own is not counted.
 */
#ifndef HALAY_TEST_COUNTING_H
#define HALAY_TEST_COUNTING_H

/* 0: not with this C library or under a sanitizer, which has an allocator of its own. */
int counting_is_possible(void);

void counting_start(void);
long counting_stop(void); /* calls since then */
/* Print who made the first calls of the newest count that had some. */
void counting_show(int rank);

#endif
