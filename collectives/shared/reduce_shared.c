/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce over shared memory: each rank adds its slice of all buffers into the root's.
 *
 *     three ranks, slices 0 1 2, root A
 *
 *             arrive           reduce                                    done
 *     A's     0 1 2            0 = 0A+0B+0C  by A, written               0 1 2
 *     B's     0 1 2            1 = 1A+1B+1C  by B, into A's out          as they were
 *     C's     0 1 2            2 = 2A+2B+2C  by C                        as they were
 *
 * Private buffers go through slots of the shared area, in chunks. Shared and private ones mix.
 *
 * Cost: 2 exchanges; each rank reads S bytes and writes S / N (private: S more of each, and the root). Any number of
 * ranks, any count, in and out of place. shared_reduce.c does the work.
 */
#include "collectives/shared/shared_reduce.h"

const struct halay_algorithm_ops halay_reduce_shared = {
    .state_bytes = shared_reduce_state_bytes,
    .start = shared_reduce_start,
    .progress = shared_reduce_progress,
};
