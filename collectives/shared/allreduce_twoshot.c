/* SPDX-License-Identifier: Apache-2.0
 *
 * Two-shot all-reduce over shared memory: each rank reduces its slice of all buffers, in place, into all of them.
 *
 *     three ranks, slices 0 1 2
 *
 *             arrive           reduce                                    done
 *     A's     0 1 2            0 = 0A+0B+0C  by A, written               0 1 2
 *     B's     0 1 2            1 = 1A+1B+1C  by B, into all three        0 1 2
 *     C's     0 1 2            2 = 2A+2B+2C  by C                        0 1 2
 *
 * Private buffers go through slots of the shared area, in chunks. Shared and private ones mix.
 *
 * Cost: 2 exchanges; each rank reads and writes S bytes in all (private: 3 S). No memory but the slots. Any number of
 * ranks, any count, in and out of place, lists of pieces (in place). shared_reduce.c does the work.
 */
#include "collectives/shared/shared_reduce.h"

const struct halay_algorithm_ops halay_allreduce_twoshot = {
    .state_bytes = shared_reduce_state_bytes,
    .start = shared_reduce_start,
    .progress = shared_reduce_progress,
};
