/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch's columns, time-major; and rows that windows share. Consecutive windows of one entity have most of their rows
 * in common:
 *
 *   rows (time, sample)      a0 b1  b1 c2  c2 d3      gather:  a b c d      places: 0 1 1 2 2 3
 *
 * Rows are compared by their inputs' bits (an input that is relative to the window makes them differ), through a table
 * of slots with open addressing. A row moves to the front or stays, so gathering needs no second array.
 */
#include "tft/core/kernels/cpu.h"
#include <string.h>

void cpu_take_reals(struct queue *queue, const struct column *c, const real *x, real *y)
{
    for (size_t b = 0; b < c->B; b++)
        for (size_t t = 0; t < c->steps; t++)
            y[t * c->B + b] = x[(b * c->steps + t) * c->columns + c->column];
    for (size_t b = 0; c->padding && b < c->B; b++)
        for (size_t t = 0; t < c->padding[b]; t++)
            y[t * c->B + b] = 0;
}

void cpu_take_codes(struct queue *queue, const struct column *c, const int32_t *x, int32_t *y)
{
    for (size_t b = 0; b < c->B; b++)
        for (size_t t = 0; t < c->steps; t++)
            y[t * c->B + b] = x[(b * c->steps + t) * c->columns + c->column];
    for (size_t b = 0; c->padding && b < c->B; b++)
        for (size_t t = 0; t < c->padding[b]; t++)
            y[t * c->B + b] = 0;
}

/* A value's bits. */
static uint64_t bits_of(const struct shared_rows *rows, size_t j, size_t r)
{
    uint64_t bits = 0;

    if (rows->inputs[j].codes)
        return (uint32_t)rows->inputs[j].codes[r];
    memcpy(&bits, &rows->inputs[j].x[r], sizeof(real));
    return bits;
}

static uint64_t hash(const struct shared_rows *rows, size_t r)
{
    uint64_t h = 0;

    for (size_t j = 0; j < rows->V; j++) {
        h = (h ^ bits_of(rows, j, r)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return h;
}

static int equal(const struct shared_rows *rows, size_t a, size_t b)
{
    for (size_t j = 0; j < rows->V; j++)
        if (bits_of(rows, j, a) != bits_of(rows, j, b))
            return 0;
    return 1;
}

static void move(const struct shared_rows *rows, size_t from, size_t to)
{
    for (size_t j = 0; j < rows->V && from != to; j++) {
        const struct shared_input *input = &rows->inputs[j];

        if (input->codes)
            input->codes[to] = input->codes[from];
        else
            input->x[to] = input->x[from];
    }
}

void cpu_shared_rows_gather(struct queue *queue, const struct shared_rows *rows, size_t *found)
{
    size_t slots = shared_rows_slots(rows->R), count = 0, *taken = rows->slots; /* a place + 1; 0: free */

    memset(taken, 0, slots * sizeof *taken);
    for (size_t r = 0; r < rows->R; r++) {
        size_t slot = hash(rows, r) & (slots - 1);

        while (taken[slot] && !equal(rows, taken[slot] - 1, r))
            slot = (slot + 1) & (slots - 1);
        if (!taken[slot]) {
            move(rows, r, count);
            taken[slot] = ++count;
        }
        rows->places[r] = (int32_t)(taken[slot] - 1);
    }
    *found = count;
}
