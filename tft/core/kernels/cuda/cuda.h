/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the CUDA table, for tft/core/kernels/cuda/: what a member does stands in tft/core/kernels/kernels.h,
 * what the same member means in tft/core/kernels/cpu_*.c.
 *
 * A queue is a stream. Members launch and return. The first error of a launch stays with the queue and fills what is
 * read back with no numbers. Sums over rows have a fixed shape: slabs of rows, then the slabs in turn, without atomics,
 * so that the same call gives the same bits.
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

/* A pass that can be launched as one. */
struct cuda_graph {
    struct pass_key key;
    int passes;           /* made by calls; fewer than 0: it cannot be captured */
    cudaGraphExec_t exec; /* owned; NULL: none yet */
};

enum { CUDA_GRAPHS = 4 };

struct queue {
    struct queue_head head;
    struct queue_needs needs;
    int multiprocessors; /* for kernels whose blocks wait for each other; 0: there are none such */
    cudaStream_t stream; /* owned, as what follows */
    struct cuda_plans *plans;
    float *partial;                                   /* sums of slabs: CUDA_PARTIAL */
    char *stage;                                      /* pinned: CUDA_STAGE */
    size_t staged;                                    /* bytes of it whose copy may be under way */
    struct pass_values *values;                       /* the device's: of the pass under way */
    const struct pass_values *current;                /* the same during a pass; NULL: calls have their own values */
    struct cuda_graph graphs[CUDA_GRAPHS], *captured; /* captured: borrowed, being made; or NULL */
    size_t next_graph;                                /* whose place is taken next */
    const char *failure;                              /* the text of the first, or NULL */
};

enum { CUDA_PARTIAL = 1 << 18, CUDA_SLABS = 64, CUDA_STAGE = 1 << 20 };

/* Keep the first failure; what follows runs and means nothing. */
static inline void cuda_note(struct queue *queue, cudaError_t error)
{
    if (error != cudaSuccess && !queue->failure)
        queue->failure = cudaGetErrorString(error);
}

/* ---- graph.c ---- */
int cuda_pass_begin(struct queue *queue, const struct pass_key *key, const struct pass_values *values);
int cuda_pass_end(struct queue *queue);
void cuda_graphs_destroy(struct queue *queue);

/* ---- product.cu ---- */
enum halay_status cuda_plans_create(struct queue *queue);
void cuda_plans_destroy(struct queue *queue);
void cuda_product(struct queue *queue, const struct product *product);
/* One product without more. */
void cuda_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                   struct target to);

/* ---- rows.cu ---- */
void cuda_fill(struct queue *queue, double value, size_t n, real *y);
void cuda_add(struct queue *queue, const real *x, size_t n, real *y);
void cuda_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y);
void cuda_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y);
void cuda_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum);
void cuda_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum);
void cuda_swap(struct queue *queue, const real *x, size_t A, size_t B, size_t C, real *y);
void cuda_take_reals(struct queue *queue, const struct column *column, const real *x, real *y);
void cuda_take_codes(struct queue *queue, const struct column *column, const int32_t *x, int32_t *y);
void cuda_rows_take(struct queue *queue, const real *table, const int32_t *codes, size_t R, size_t W, real *y);
void cuda_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table);
void cuda_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y);
void cuda_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y);
void cuda_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w);

void cuda_windows_take(struct queue *queue, const struct windows_run *run); /* windows.cu */

/* ---- gates.cu ---- */
void cuda_norm(struct queue *queue, const struct norm *norm, real *y, real *inverse, real *z);
void cuda_norm_output(struct queue *queue, const struct norm *norm, const real *xhat, real *z);
void cuda_norm_backward(struct queue *queue, const struct norm_backward *backward);
void cuda_elu(struct queue *queue, size_t n, real *x);
void cuda_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum);
void cuda_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias, uint8_t *keep,
                  real *u);
void cuda_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t n, real *d);
void cuda_draw_heads(struct queue *queue, const struct attention_run *run); /* the mask of attention's heads */
void cuda_gate(struct queue *queue, const struct gate *gate);
void cuda_gate_backward(struct queue *queue, const struct gate_backward *backward);

/* ---- selection.cu ---- */
void cuda_softmax(struct queue *queue, size_t R, size_t V, real *z);
void cuda_softmax_backward(struct queue *queue, const real *w, size_t R, size_t V, real *d_w);
void cuda_weigh(struct queue *queue, const struct weigh *weigh, int add, real *out);
void cuda_weigh_backward(struct queue *queue, const struct weigh *weigh, const real *d_out, real *d_z, real *d_weights);
void cuda_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s);
void cuda_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in, size_t out,
                            real *d_mask);

/* ---- lstm.cu, attention.cu ---- */
void cuda_lstm(struct queue *queue, const struct lstm_run *run);
void cuda_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *gradient);
size_t cuda_lstm_scratch(size_t S, size_t B, size_t H);
void cuda_attention(struct queue *queue, const struct attention_run *run, real *mean);
void cuda_attention_backward(struct queue *queue, const struct attention_run *run, const struct attention_gradient *to);
size_t cuda_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d);

/* ---- outputs.cu ---- */
void cuda_ascending(struct queue *queue, size_t R, size_t Q, size_t O, real *o);
void cuda_ascending_backward(struct queue *queue, const real *p, size_t R, size_t Q, size_t O, real *d_p);
void cuda_average(struct queue *queue, double share, const real *x, size_t n, real *y);
void cuda_samples_first(struct queue *queue, const struct outputs_run *run, real *y);
void cuda_squares_all(struct queue *queue, const struct chunks *chunks, const real *x, double *sums);
void cuda_adam_all(struct queue *queue, const struct adam_run *run, const struct chunks *chunks, const real *gradient,
                   real *m, real *v, real *p);

void cuda_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p); /* loss.cu */

/* ---- of sparse gradients ---- */
void cuda_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to);
void cuda_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to);
void cuda_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum);
void cuda_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient, struct sparse shape,
                      real *m, real *v, real *p);

#ifdef __cplusplus
}
#endif

#endif
