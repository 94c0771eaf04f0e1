/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the processor's kernel table, for tft/core/kernels/cpu*.c. tft/core/kernels/kernels.h describes the
 * members.
 *
 * Everything is done when a member returns. Blocks of rows fit the second-level cache.
 */
#ifndef HALAY_TFT_CPU_H
#define HALAY_TFT_CPU_H

#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/kernels.h"

/* Members take a queue whether they need it or not. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* A second factor that is kept rounded. */
struct kept_factor {
    const real *data; /* NULL: a free place */
    int transposed;
    size_t K, N;
    const uint16_t *packed;
};

enum { CPU_KEPT = 1024 }; /* a power of two */

struct queue {
    struct queue_head head;
    struct queue_needs needs;
    /* With bf16. */
    enum tft_bf16 means;
    uint16_t *room; /* TFT_BF16_ROOM */
    /* Parameters, each rounded when it is first multiplied by since they changed: found by address; if the place is
     * taken, in one of the next. */
    const real *params, *folded; /* the blocks; NULL: none */
    struct kept_factor *kept;    /* (CPU_KEPT) */
    uint16_t *cache;             /* (needs.factors): the rounded copies */
    size_t cache_used;
    void *memory; /* owned: the arrays */
};

/* A product without batch and bias. */
void cpu_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                  struct target to);

void cpu_begin(struct queue *queue, const real *params, const real *folded);
size_t cpu_rows_scratch(size_t R, size_t W);
size_t cpu_lstm_scratch(size_t S, size_t B, size_t H);
size_t cpu_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d);

#define CUDA_KERNEL(name, parameters, arguments, condition, traffic)
#define KERNEL(name, parameters, arguments, condition, traffic) \
    void cpu_##name(struct queue *queue, KERNEL_LIST parameters);
#include "tft/core/kernels/kernels.def"

#endif
