/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals of the CUDA kernel table, for tft/core/kernels/cuda/. tft/core/kernels/kernels.h describes the members;
 * tft/core/kernels/cpu_*.c is their reference implementation.
 *
 * Activations are bf16 in memory where products round their factors to it (narrow.h); kernels are templates over the
 * element, which is chosen once a call, by the address (device.cuh).
 *
 * A queue is a stream. Members launch and return. The queue keeps the first error of a launch, and what is read back
 * after it is NaN. Sums over rows have a fixed order: slabs of rows, then the slabs one after the other, without
 * atomics, so that the same call gives the same bits.
 */
#ifndef HALAY_TFT_CUDA_H
#define HALAY_TFT_CUDA_H

#include "tft/core/kernels/kernels.h"
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_plans; /* of products: product.cu */

/* A pass up to a call of the host, or to its end. */
struct cuda_launch {
    cudaGraphExec_t exec; /* owned; NULL: nothing is launched */
    void (*call)(void *arg, size_t what);
    void *arg;
    size_t what;
};

/* A pass that can be launched as a few graphs. */
struct cuda_graph {
    struct pass_key key;
    int passes;                   /* made by calls; fewer than 0: it cannot be captured */
    struct cuda_launch *launches; /* owned, in order */
    size_t count, capacity;       /* count 0: none yet */
};

enum { CUDA_GRAPHS = 4 };

enum {
    CUDA_PARTIAL = 1 << 18,
    CUDA_SLABS = 256,
    CUDA_SLAB_ALONE = 512, /* rows that are one slab */
    CUDA_ROW_MOST = 256,   /* numbers of a row that a warp has in registers */
    CUDA_STAGE = 1 << 20,
    CUDA_READS = 16,
    CUDA_SORT_TILE = 1024, /* keys that a block sorts, and those that a thread adds up (sparse.cu) */
    CUDA_SUM_CHUNK = 32,
    CUDA_MEETINGS = 256,
    CUDA_MEETING_STEP = 32,
};

/* Bytes that are on their way through `stage`. */
struct cuda_read {
    void *host;
    size_t at, bytes;
};

struct queue {
    struct queue_head head;
    struct queue_needs needs;
    int multiprocessors; /* for kernels whose blocks wait for each other; 0: they are not used */
    size_t shared_most;  /* bytes of a block's shared memory */
    cudaStream_t stream; /* owned, as what follows */
    struct cuda_plans *plans;
    const real *params, *folded;        /* borrowed until `begin` */
    real *rounded;                      /* narrow: params from needs.inputs on; NULL: the queue is not narrow */
    real *rounded_folded;               /* narrow: folded, from its first product on */
    int has_folded;                     /* rounded_folded is what folded is */
    real *others;                       /* narrow: a product's factor that is neither that nor an activation */
    float *partial;                     /* sums of slabs: CUDA_PARTIAL */
    unsigned *meetings;                 /* words that blocks of a kernel meet by, CUDA_MEETING_STEP apart */
    char *stage;                        /* pinned: CUDA_STAGE */
    size_t staged;                      /* bytes of it whose copy may be under way */
    struct cuda_read reads[CUDA_READS]; /* what the host waits for, in stage */
    size_t read_count;
    struct pass_values *values;                       /* the device's: of the pass under way */
    const struct pass_values *current;                /* the same during a pass; NULL: calls have their own values */
    struct cuda_graph graphs[CUDA_GRAPHS], *captured; /* captured: borrowed, being made; or NULL */
    int capture_failed;                               /* its calls are made again */
    size_t next_graph;                                /* whose place is taken next */
    const char *failure;                              /* the text of the first, or NULL */
    int warned;                                       /* of a product that is our own */
};

/* Keep the first failure; what follows runs and means nothing. */
static inline void cuda_note(struct queue *queue, cudaError_t error)
{
    if (error != cudaSuccess && !queue->failure)
        queue->failure = cudaGetErrorString(error);
}

/* ---- graph.c ---- */
int cuda_pass_begin(struct queue *queue, const struct pass_key *key, const struct pass_values *values);
int cuda_pass_end(struct queue *queue);
void cuda_pass_call(struct queue *queue, void (*call)(void *arg, size_t what), void *arg, size_t what);
void cuda_graphs_destroy(struct queue *queue);

/* ---- product.cu ---- */
enum halay_status cuda_plans_create(struct queue *queue);
void cuda_plans_destroy(struct queue *queue);
/* A product without batch and bias. */
void cuda_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                   struct target to);

void cuda_draw_heads(struct queue *queue, const struct attention_run *run); /* gates.cu: attention's mask */
size_t cuda_lstm_scratch(size_t S, size_t B, size_t H);
size_t cuda_rows_scratch(size_t R, size_t W);
size_t cuda_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d);

#define CPU_KERNEL(name, parameters, arguments, condition)
#define KERNEL(name, parameters, arguments, condition, traffic) \
    void cuda_##name(struct queue *queue, KERNEL_LIST parameters);
#include "tft/core/kernels/kernels.def"

#ifdef __cplusplus
}
#endif

#endif
