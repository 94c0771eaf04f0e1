/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that windows share. A selection's output for a row depends only on that row's inputs and the static inputs, and
 * consecutive windows of one entity have most of their rows in common. In forecasts, which have no dropout, such a
 * granule computes each row once:
 *
 *   rows (time, sample)      a0 b1  b1 c2  c2 d3      gather:  a b c d      places: 0 1 1 2 2 3
 *
 * Rows are compared by their inputs' bits (an input that is relative to the window makes them differ), through a table
 * of slots with open addressing. A row never moves back, so gathering and spreading need no second array.
 */
#include "tft/model/network.h"
#include <string.h>

size_t shared_rows_slots(size_t rows)
{
    size_t slots = 1;

    while (slots < 2 * rows)
        slots *= 2;
    return slots;
}

int shared_rows_statics(const struct tft_workspace *workspace)
{
    const struct tft_columns *columns = &workspace->model->columns;
    const struct tft_batch *batch = &workspace->batch;
    size_t reals = columns->static_reals, cats = columns->static_cats;

    for (size_t b = 1; b < batch->B; b++)
        if (memcmp(batch->static_reals + b * reals, batch->static_reals, reals * sizeof(real)) != 0 ||
            memcmp(batch->static_cats + b * cats, batch->static_cats, cats * sizeof *batch->static_cats) != 0)
            return 0;
    return 1;
}

/* The rows of one selection: its inputs from `row` on. */
struct selection {
    struct tft_workspace *w;
    const struct vsn *vsn;
    size_t row;
};

/* A value's bits. */
static uint64_t bits_of(const struct selection *rows, size_t j, size_t r)
{
    size_t i = rows->vsn->chosen[j];
    uint64_t bits = 0;

    if (rows->w->codes[i])
        return (uint32_t)rows->w->codes[i][rows->row + r];
    memcpy(&bits, &rows->w->x[i][rows->row + r], sizeof(real));
    return bits;
}

static uint64_t hash(const struct selection *rows, size_t r)
{
    uint64_t h = 0;

    for (size_t j = 0; j < rows->vsn->V; j++) {
        h = (h ^ bits_of(rows, j, r)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

static int equal(const struct selection *rows, size_t a, size_t b)
{
    for (size_t j = 0; j < rows->vsn->V; j++)
        if (bits_of(rows, j, a) != bits_of(rows, j, b))
            return 0;
    return 1;
}

static void move(const struct selection *rows, size_t from, size_t to)
{
    struct tft_workspace *w = rows->w;

    for (size_t j = 0; j < rows->vsn->V && from != to; j++) {
        size_t i = rows->vsn->chosen[j], a = rows->row + from, b = rows->row + to;
        const struct variable *variable = &w->model->variables[i];

        if (w->codes[i])
            w->codes[i][b] = w->codes[i][a];
        else
            w->x[i][b] = w->x[i][a];
        if (!variable->rank1)
            memcpy(w->xi[i] + b * variable->embedding.W, w->xi[i] + a * variable->embedding.W,
                   variable->embedding.W * sizeof(real));
    }
}

size_t shared_rows_gather(struct tft_workspace *workspace, const struct vsn *vsn, size_t row, size_t R)
{
    const struct selection rows = { workspace, vsn, row };
    size_t slots = shared_rows_slots(R), count = 0, *taken = workspace->slots; /* a place + 1; 0: free */

    memset(taken, 0, slots * sizeof *taken);
    for (size_t r = 0; r < R; r++) {
        size_t slot = hash(&rows, r) & (slots - 1);

        while (taken[slot] && !equal(&rows, taken[slot] - 1, r))
            slot = (slot + 1) & (slots - 1);
        if (!taken[slot]) {
            move(&rows, r, count);
            taken[slot] = ++count;
        }
        workspace->places[row + r] = taken[slot] - 1;
    }
    return count;
}

void shared_rows_spread(const struct tft_workspace *workspace, size_t row, size_t R, size_t H, real *rows)
{
    const size_t *places = workspace->places + row;

    for (size_t r = R; r-- > 0;)
        if (places[r] != r)
            memcpy(rows + r * H, rows + places[r] * H, H * sizeof *rows);
}
