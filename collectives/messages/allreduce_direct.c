/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct all-reduce: each block is sent to its owner, who adds all and sends the sum to all.
 *
 *     three ranks, blocks 0 1 2; block r belongs to rank r
 *
 *           to the owners              the owners add           to all
 *     A     1 -> B,  2 -> C            0 = 0A + 0B + 0C         0 -> B, C
 *     B     0 -> A,  2 -> C            1 = 1A + 1B + 1C         1 -> A, C
 *     C     0 -> A,  1 -> B            2 = 2A + 2B + 2C         2 -> A, B
 *
 * Cost: 2 steps, 2 S (N - 1) / N bytes sent and received by each rank, all pairs at once (needs a network that can do
 * that); 2 (N - 1) chunks of memory. Any number of ranks, any count, in and out of place. direct.c does the work.
 */
#include "collectives/messages/direct.h"

const struct halay_algorithm_ops halay_allreduce_direct = {
    .tags = DIRECT_TAGS,
    .state_bytes = direct_state_bytes,
    .scratch_bytes = direct_scratch_bytes,
    .start = direct_start,
    .progress = direct_progress,
    .cancel = direct_cancel,
};
