/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a table of rows of which few were touched: these rows, each once, their codes ascending.
 */
#ifndef HALAY_TFT_SPARSE_H
#define HALAY_TFT_SPARSE_H

#include "tft/core/kernels/real.h"
#include <stddef.h>
#include <stdint.h>

/* Room for `most` rows of W reals. */
struct sparse {
    size_t most, W;
};

/* Reals that it has: a cache line for how many rows there are, the codes, the rows. */
TFT_ANYWHERE static inline size_t sparse_reals(size_t most, size_t W)
{
    return (64 + (most * sizeof(int32_t) + 63) / 64 * 64) / sizeof(real) + most * W;
}

/* The parts of one. */
struct sparse_parts {
    int32_t *count, *codes; /* (1), (most) */
    real *rows;             /* (most, W) */
};

/* Takes a gradient that is only read, too. */
TFT_ANYWHERE static inline struct sparse_parts sparse_parts_of(const real *x, struct sparse shape)
{
    real *at = (real *)(uintptr_t)x;
    struct sparse_parts parts;

    parts.count = (int32_t *)(void *)at;
    parts.codes = parts.count + 64 / sizeof(int32_t);
    parts.rows = at + sparse_reals(shape.most, shape.W) - shape.most * shape.W;
    return parts;
}

/* The first of n ascending codes that is not below this one. */
TFT_ANYWHERE static inline size_t sparse_place(const int32_t *codes, size_t n, int32_t code)
{
    size_t from = 0;

    while (from < n) {
        size_t middle = from + (n - from) / 2;

        if (codes[middle] < code)
            from = middle + 1;
        else
            n = middle;
    }
    return from;
}

#endif
