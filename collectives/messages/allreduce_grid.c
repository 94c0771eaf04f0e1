/* SPDX-License-Identifier: Apache-2.0
 *
 * All-reduce by rings on a grid: the ranks are R rows of C, R the largest divisor of N up to its root. Blocks are
 * summed around the rows, then all-reduced around the columns, then passed on around the rows.
 *
 *     six ranks    A B C      1. reduce-scatter in each row: A, D get third 0, B, E third 1, C, F third 2
 *                  D E F      2. ring all-reduce of each third in its column: A and D, B and E, C and F
 *                             3. all-gather in each row
 *
 * Two steps for each row and column where a ring has two for each rank: for medium data and many ranks. The bytes are
 * those of a ring. If N is a prime, it is a ring. In chunks, four under way.
 *
 * Cost: 2 (R + C - 2) steps, 2 S (N - 1) / N bytes sent and received by each rank. Memory: for each of 4 chunks, 3 / C
 * and 3 / N of it. Any number of ranks, any count, in and out of place. The order of additions depends on the block;
 * f16 and bf16 are rounded at every hop.
 *
 * Source: Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", arXiv:1811.05233 (2018).
 */
#include "collectives/messages/steps.h"
#include "collectives/schedule/tree.h"

enum { BUFFERS = 3 };

/* A ring that a rank is on. */
struct ring {
    int ranks, rank;
    int first, stride; /* rank number i of it is first + i stride of the job */
};

static int buffer(const struct halay_place *at, int index)
{
    int rows = halay_grid_rows(at->ranks);

    if (rows == 1)
        return index < BUFFERS;
    return index < BUFFERS ? rows : index < 2 * BUFFERS;
}

/* Step and direction of a ring: the peer, the tag, and which of its blocks. */
static int block_at(const struct ring *r, int step, int takes, int back, struct halay_step *out)
{
    out->what = takes ? HALAY_PLACE : HALAY_GIVE;
    out->peer = r->first + (r->rank + (takes ? r->ranks - 1 : 1)) % r->ranks * r->stride;
    out->tag = (unsigned char)(step % HALAY_STEP_TAGS);
    out->buffer = HALAY_STEP_OUT;
    return (r->rank + 3 * r->ranks - step % r->ranks - takes - back) % r->ranks;
}

static void sum_in(struct halay_step *out, int step, int takes, int first_buffer, int before)
{
    out->what = takes ? HALAY_ADD_LEFT : HALAY_GIVE;
    out->buffer = (signed char)(first_buffer + (step + BUFFERS - !takes) % BUFFERS);
    out->own = (signed char)before;
    if (!takes && !step)
        out->buffer = (signed char)before;
}

static int steps(const struct halay_place *at, int index, struct halay_step *out)
{
    int rows = halay_grid_rows(at->ranks), columns = at->ranks / rows, takes = index % 2, step = index / 2;
    struct ring row = { columns, at->rank % columns, at->rank / columns * columns, 1 };
    struct ring column = { rows, at->rank / columns, row.rank, columns };

    *out = (struct halay_step){ .own = HALAY_STEP_IN };
    if (step < columns - 1) {
        out->block = block_at(&row, step, takes, 1, out) * rows;
        out->blocks = rows;
        sum_in(out, step, takes, 0, HALAY_STEP_IN);
        out->is_raw = !step;
        out->is_last = rows == 1 && takes && step == columns - 2;
        return 1;
    }
    step -= columns - 1;
    if (step < 2 * (rows - 1)) {
        out->block = row.rank * rows + block_at(&column, step, takes, 0, out);
        out->blocks = 1;
        if (step < rows - 1) {
            sum_in(out, step, takes, BUFFERS, (columns - 2) % BUFFERS);
            out->is_last = takes && step == rows - 2;
        }
        return 1;
    }
    step -= 2 * (rows - 1);
    out->block = block_at(&row, step, takes, 0, out) * rows;
    out->blocks = rows;
    return step < columns - 1;
}

const struct halay_algorithm_ops halay_allreduce_grid =
    HALAY_STEPS_OPS(.steps = steps, .buffer = buffer, .cut = HALAY_CUT_CHUNKS, .lanes = 4, .least = HALAY_STEP_LEAST,
                    .multiple = 4);
