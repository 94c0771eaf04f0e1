/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the processor's table, for tft/core/kernels/cpu*.c: what a member does stands in
 * tft/core/kernels/kernels.h.
 *
 * Everything is done when a member returns. Blocks of rows fit the second-level cache.
 */
#ifndef HALAY_TFT_CPU_H
#define HALAY_TFT_CPU_H

#include "tft/core/kernels/gemm_bf16.h"
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

/* One product without more. */
void cpu_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                  struct target to);

void cpu_begin(struct queue *queue, const real *params, const real *folded);
void cpu_product(struct queue *queue, const struct product *product);

/* cpu_rows.c */
void cpu_add(struct queue *queue, const real *x, size_t n, real *y);
void cpu_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y);
void cpu_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y);
void cpu_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum);
void cpu_swap(struct queue *queue, const real *x, size_t A, size_t B, size_t C, real *y);
void cpu_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum);
void cpu_rows_take(struct queue *queue, const real *table, const int32_t *codes, size_t R, size_t W, real *y);
void cpu_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W, real *table);
void cpu_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y);
void cpu_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y);
void cpu_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w);

/* cpu_gates.c */
void cpu_norm(struct queue *queue, const struct norm *norm, real *y, real *inverse, real *z);
void cpu_norm_output(struct queue *queue, const struct norm *norm, const real *xhat, real *z);
void cpu_norm_backward(struct queue *queue, const struct norm_backward *backward);
void cpu_elu(struct queue *queue, size_t n, real *x);
void cpu_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum);
void cpu_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias, uint8_t *keep,
                 real *u);
void cpu_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t n, real *d);
void cpu_gate(struct queue *queue, const struct gate *gate);
void cpu_gate_backward(struct queue *queue, const struct gate_backward *backward);

/* cpu_selection.c */
void cpu_softmax(struct queue *queue, size_t R, size_t V, real *z);
void cpu_softmax_backward(struct queue *queue, const real *w, size_t R, size_t V, real *d_w);
void cpu_weigh(struct queue *queue, const struct weigh *weigh, int add, real *out);
void cpu_weigh_backward(struct queue *queue, const struct weigh *weigh, const real *d_out, real *d_z, real *d_weights);
void cpu_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s);
void cpu_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in, size_t out, real *d_mask);

/* cpu_lstm.c, cpu_attention.c */
void cpu_lstm(struct queue *queue, const struct lstm_run *run);
void cpu_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *gradient);
size_t cpu_lstm_scratch(size_t S, size_t B, size_t H);
void cpu_attention(struct queue *queue, const struct attention_run *run, real *mean);
void cpu_attention_backward(struct queue *queue, const struct attention_run *run, const struct attention_gradient *to);
size_t cpu_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d);

/* cpu_inputs.c */
void cpu_take_reals(struct queue *queue, const struct column *column, const real *x, real *y);
void cpu_take_codes(struct queue *queue, const struct column *column, const int32_t *x, int32_t *y);
size_t cpu_shared_rows_gather(struct queue *queue, const struct shared_rows *rows);

void cpu_windows_take(struct queue *queue, const struct windows_run *run); /* cpu_windows.c */

/* cpu_sparse.c */
void cpu_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, struct sparse shape, real *to);
void cpu_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to);
void cpu_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum);
void cpu_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient, struct sparse shape,
                     real *m, real *v, real *p);

/* cpu_loss.c */
void cpu_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p);

/* cpu_outputs.c */
void cpu_ascending(struct queue *queue, size_t R, size_t Q, size_t O, real *o);
void cpu_ascending_backward(struct queue *queue, const real *p, size_t R, size_t Q, size_t O, real *d_p);
void cpu_samples_first(struct queue *queue, const struct outputs_run *run, real *y);
void cpu_average(struct queue *queue, double share, const real *x, size_t n, real *y);
void cpu_squares(struct queue *queue, const real *x, size_t n, double *sum);
void cpu_adam(struct queue *queue, const struct adam_run *run, const real *gradient, size_t n, real *m, real *v,
              real *p);

#endif
