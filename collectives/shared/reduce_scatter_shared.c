/* SPDX-License-Identifier: Apache-2.0
 *
 * Reduce-scatter over shared memory, even and uneven: each rank adds its part of all buffers, where they lie.
 *
 *     three ranks, parts 0 1 2
 *
 *             arrive           reduce                          done
 *     A's     0 1 2            A's out = 0A+0B+0C              waits until B and C are
 *     B's     0 1 2            B's out = 1A+1B+1C
 *     C's     0 1 2            C's out = 2A+2B+2C
 *
 * It is the first half of the two-shot. Private buffers go through slots of the shared area, in chunks; where out lies
 * does not matter. Shared and private buffers mix.
 *
 * Cost: 2 exchanges; each rank reads S bytes and writes S / N (private: S more of each). Any number of ranks, any
 * counts, zero included; in and out of place. shared_reduce.c does the work.
 */
#include "collectives/shared/shared_reduce.h"

const struct halay_algorithm_ops halay_reduce_scatter_shared = {
    .state_bytes = shared_reduce_state_bytes,
    .start = shared_reduce_start,
    .progress = shared_reduce_progress,
};
