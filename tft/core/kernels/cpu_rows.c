/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays: copied, filled, added. Rows: added, filled, summed, taken from a table; and products of rank 1.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/vector.h"

void cpu_copy(struct queue *queue, const real *from, size_t n, real *to)
{
    memcpy(to, from, n * sizeof *to);
}

void cpu_fill(struct queue *queue, double value, size_t n, real *y)
{
    const double zero = 0;

    if (memcmp(&value, &zero, sizeof zero) == 0) /* not -0 */
        memset(y, 0, n * sizeof *y);
    else
        for (size_t i = 0; i < n; i++)
            y[i] = (real)value;
}

TFT_VECTOR static void add(real *restrict y, const real *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

void cpu_add(struct queue *queue, const real *x, size_t n, real *y)
{
    add(y, x, n);
}

TFT_VECTOR static void rows_add(real *restrict y, const real *restrict b, size_t R, size_t W)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            y[r * W + i] += b[i];
}

void cpu_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    rows_add(y, b, R, W);
}

void cpu_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    for (size_t r = 0; r < R; r++)
        memcpy(y + r * W, row, W * sizeof *y);
}

TFT_VECTOR static void rows_sum(const real *restrict x, size_t R, size_t W, real *restrict sum)
{
    size_t r = 0;

    for (; r + 4 <= R; r += 4) /* four rows at once: a quarter of the loads and stores of the sum */
        for (size_t i = 0; i < W; i++)
            sum[i] += (x[r * W + i] + x[(r + 1) * W + i]) + (x[(r + 2) * W + i] + x[(r + 3) * W + i]);
    for (; r < R; r++)
        for (size_t i = 0; i < W; i++)
            sum[i] += x[r * W + i];
}

void cpu_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum)
{
    if (!add)
        memset(sum, 0, W * sizeof *sum);
    rows_sum(x, R, W, sum);
}

void cpu_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum)
{
    for (size_t r = 0; r < R; r += B)
        add(sum, x + r * W, B * W);
}

void cpu_swap(struct queue *queue, const real *x, size_t A, size_t B, size_t C, real *y)
{
    for (size_t a = 0; a < A; a++)
        for (size_t b = 0; b < B; b++)
            memcpy(y + (b * A + a) * C, x + (a * B + b) * C, C * sizeof *y);
}

void cpu_rows_take(struct queue *queue, const real *table, const int32_t *codes, size_t R, size_t W, real *y)
{
    for (size_t r = 0; r < R; r++)
        memcpy(y + r * W, table + (size_t)codes[r] * W, W * sizeof *y);
}

size_t cpu_rows_scratch(size_t R, size_t W)
{
    return 0;
}

void cpu_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table,
                  real *scratch)
{
    for (size_t r = 0; r < R; r++)
        add(table + (size_t)codes[r] * W, x + r * W, W);
}

TFT_VECTOR static void outer(real *restrict y, const real *restrict x, const real *restrict w, const real *restrict b,
                             size_t R, size_t W)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            y[r * W + i] = x[r] * w[i] + b[i];
}

void cpu_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y)
{
    outer(y, x, wb, wb + W, R, W);
}

TFT_VECTOR static void outer_add(real *restrict y, const real *restrict x, const real *restrict w, size_t R, size_t W)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            y[r * W + i] += x[r] * w[i];
}

void cpu_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y)
{
    outer_add(y, x, w, R, W);
}

TFT_VECTOR static void outer_sum(const real *restrict d_y, const real *restrict x, size_t R, size_t W,
                                 real *restrict d_w)
{
    size_t r = 0;

    for (; r + 4 <= R; r += 4) /* as in rows_sum */
        for (size_t i = 0; i < W; i++)
            d_w[i] += (x[r] * d_y[r * W + i] + x[r + 1] * d_y[(r + 1) * W + i]) +
                      (x[r + 2] * d_y[(r + 2) * W + i] + x[r + 3] * d_y[(r + 3) * W + i]);
    for (; r < R; r++)
        for (size_t i = 0; i < W; i++)
            d_w[i] += x[r] * d_y[r * W + i];
}

void cpu_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w)
{
    outer_sum(d_y, x, R, W, d_w);
}
