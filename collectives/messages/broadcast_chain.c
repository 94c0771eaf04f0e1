/* SPDX-License-Identifier: Apache-2.0
 *
 * Chain broadcast: from the root to the next rank, from there to the next, and so on; in chunks that follow each other.
 *
 *     four ranks, root B, chunks 1 2 3
 *
 *     time      0    1    2    3    4
 *     B -> C    1    2    3
 *     C -> D         1    2    3
 *     D -> A              1    2    3
 *
 * A rank sends a chunk on while it receives the next one, so that all links are busy at once.
 *
 * Cost: N - 2 + K steps for K chunks; each rank sends and receives S bytes once, whatever N: the least for large data.
 * No memory. Any number of ranks, any count.
 *
 * Source: van de Geijn and Watts, "SUMMA: scalable universal matrix multiplication algorithm", 1997, section on
 * pipelined broadcast around a ring.
 */
#include "collectives/messages/steps.h"

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    int n = at->ranks, next = (at->rank + 1) % n;

    if (at->rank != at->root && !index--)
        return halay_step_take(out, HALAY_PLACE, (at->rank + n - 1) % n, 0, HALAY_STEP_OUT, 0, 1);
    return next != at->root && !index && halay_step_give(out, next, 0, HALAY_STEP_OUT, 0, 1);
}

const struct halay_algorithm_ops halay_broadcast_chain = HALAY_STEPS_OPS(.steps = steps, HALAY_STEPS_PIPELINED(4));
