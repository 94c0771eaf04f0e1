/* SPDX-License-Identifier: Apache-2.0
 *
 * A bootstrap for tests: ranks that were forked from one program meet in a piece of memory that it shared before.
 */
#ifndef HALAY_SHARED_BOOT_H
#define HALAY_SHARED_BOOT_H

#include "collectives/transport/bootstrap/boot.h"

struct shared_board; /* where they meet */

struct shared_board *shared_board_create(int size); /* before the fork; exits 99 without memory */
void shared_board_destroy(struct shared_board *board);

/* After the fork, one in each rank; freed by its destroy. */
struct halay_boot *shared_boot_create(struct shared_board *board, int rank, struct halay_log *log);

#endif
