/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of a table of rows of which few were touched: these rows, each once, their codes ascending. What lies
 * where in it is the device's.
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

#endif
