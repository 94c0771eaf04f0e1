/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse gradients: how many rows, their codes, ascending, and the rows, in the same order.
 *
 * Sums have the bits of whole tables: these begin at +0, and adding +0 changes no sum that began there. So do squares
 * where vectors end with rows: a lane adds the same numbers in the same order, and zeros change nothing.
 */
#include "tft/core/kernels/cpu.h"
#include <string.h>

void cpu_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to,
                    real *scratch)
{
    struct sparse_parts p = sparse_parts_of(to, shape);
    size_t n = 0, W = shape.W;

    for (size_t r = 0; r < R; r++) {
        size_t place = sparse_place(p.codes, n, codes[r]);

        if (place < n && p.codes[place] == codes[r])
            continue;
        memmove(p.codes + place + 1, p.codes + place, (n++ - place) * sizeof *codes);
        p.codes[place] = codes[r];
    }
    *p.count = (int32_t)n;
    memset(p.rows, 0, n * W * sizeof *p.rows);
    for (size_t r = 0; r < R; r++)
        cpu_add(queue, x + r * W, W, p.rows + sparse_place(p.codes, n, codes[r]) * W);
}

/* Returns the number of distinct rows of both together. */
static size_t count_union(const struct sparse_parts *a, const struct sparse_parts *b)
{
    size_t n = 0, i = 0, k = 0, left = (size_t)*a->count, right = (size_t)*b->count;

    for (; i < left && k < right; n++) {
        int32_t at = a->codes[i], other = b->codes[k];

        i += at <= other;
        k += other <= at;
    }
    return n + (left - i) + (right - k);
}

/* Works from the end, so that no row is overwritten before it is moved. */
void cpu_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to)
{
    const struct sparse_parts right = sparse_parts_of(x, shape);
    struct sparse_parts left = sparse_parts_of(to, shape);
    size_t W = shape.W, i = (size_t)*left.count, k = (size_t)*right.count, n = count_union(&left, &right);

    *left.count = (int32_t)n;
    while (k > 0) {
        int32_t code = right.codes[k - 1];

        n--;
        if (i > 0 && left.codes[i - 1] >= code) {
            int is_both = left.codes[--i] == code;

            left.codes[n] = left.codes[i];
            if (n != i)
                memcpy(left.rows + n * W, left.rows + i * W, W * sizeof *left.rows);
            if (!is_both)
                continue;
            cpu_add(queue, right.rows + --k * W, W, left.rows + n * W);
        } else {
            left.codes[n] = code;
            memcpy(left.rows + n * W, right.rows + --k * W, W * sizeof *left.rows);
        }
    }
}
