/* SPDX-License-Identifier: Apache-2.0
 *
 * Direct reduce-scatter, even and uneven: each part is sent to its owner, who adds all.
 *
 *     three ranks, parts 0 1 2; part r belongs to rank r
 *
 *           to the owners              the owners add
 *     A     1 -> B,  2 -> C            0 = 0A + 0B + 0C
 *     B     0 -> A,  2 -> C            1 = 1A + 1B + 1C
 *     C     0 -> A,  1 -> B            2 = 2A + 2B + 2C
 *
 * Cost: 1 step, S (N - 1) / N bytes sent and received by each rank, all pairs at once (needs a network that can do
 * that); 2 (N - 1) chunks of memory. Any number of ranks, any counts, zero included; in place (out is this rank's part
 * of in, which nobody is sent) and out of place. direct.c does the work.
 */
#include "collectives/messages/direct.h"

const struct halay_algorithm_ops halay_reduce_scatter_direct = {
    .tags = DIRECT_TAGS,
    .state_bytes = direct_state_bytes,
    .scratch_bytes = direct_scratch_bytes,
    .start = direct_start,
    .progress = direct_progress,
    .cancel = direct_cancel,
};
