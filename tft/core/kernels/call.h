/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a device's kernels, with what tft/core/kernels/kernels.h says of shapes asserted (without NDEBUG). kernel_x
 * calls the member x.
 */
#ifndef HALAY_TFT_CALL_H
#define HALAY_TFT_CALL_H

#include "tft/core/kernels/kernels.h"
#include <assert.h>

/* Whether n elements at a and m at b of `size` bytes each share none. */
static inline int is_apart(const void *a, size_t n, const void *b, size_t m, size_t size)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x + n * size <= y || y + m * size <= x;
}

static inline int reals_apart(const real *a, size_t n, const real *b, size_t m)
{
    return is_apart(a, n, b, m, sizeof(real));
}

/* The reals that op(A), (rows, columns), spans. */
static inline size_t matrix_span(struct matrix m, size_t rows, size_t columns)
{
    return m.transposed ? (columns - 1) * m.ld + rows : (rows - 1) * m.ld + columns;
}

static inline int is_matrix(struct matrix m, size_t rows, size_t columns)
{
    return m.data && m.ld >= (m.transposed ? rows : columns);
}

static inline void kernel_begin(struct queue *queue, const real *params, const real *folded)
{
    assert(params);
    kernels_of(queue)->begin(queue, params, folded);
}

static inline int kernel_pass_begin(struct queue *queue, const struct pass_key *key, const struct pass_values *values)
{
    assert(key->params && key->gradients && key->B);
    return kernels_of(queue)->pass_begin && kernels_of(queue)->pass_begin(queue, key, values);
}

static inline int kernel_pass_end(struct queue *queue)
{
    return kernels_of(queue)->pass_end && kernels_of(queue)->pass_end(queue);
}

static inline void kernel_to_device(struct queue *queue, const void *host, size_t bytes, void *memory)
{
    kernels_of(queue)->to_device(queue, host, bytes, memory);
}

static inline void kernel_to_host(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    kernels_of(queue)->to_host(queue, memory, bytes, host);
}

static inline void kernel_copy(struct queue *queue, const real *from, size_t n, real *to)
{
    assert(from && to && reals_apart(from, n, to, n));
    kernels_of(queue)->copy(queue, from, n * sizeof *from, to);
}

static inline void kernel_fill(struct queue *queue, double value, size_t n, real *y)
{
    assert(y || !n);
    kernels_of(queue)->fill(queue, value, n, y);
}

static inline void kernel_zero(struct queue *queue, size_t n, real *y)
{
    kernel_fill(queue, 0, n, y);
}

static inline void kernel_product_all(struct queue *queue, const struct product *p)
{
    assert(p->M && p->N && p->to.data && p->to.ld >= p->N && (!p->bias || p->to.ld == p->N));
    assert(!p->K || (is_matrix(p->a, p->M, p->K) && is_matrix(p->b, p->K, p->N)));
    assert(!p->K || reals_apart(p->a.data, matrix_span(p->a, p->M, p->K), p->to.data, (p->M - 1) * p->to.ld + p->N));
    assert(!p->K || reals_apart(p->b.data, matrix_span(p->b, p->K, p->N), p->to.data, (p->M - 1) * p->to.ld + p->N));
    kernels_of(queue)->product(queue, p);
}

static inline void kernel_product(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                                  struct target to)
{
    kernel_product_all(queue, &(struct product){ .a = a, .b = b, .M = M, .N = N, .K = K, .to = to });
}

static inline void kernel_add(struct queue *queue, const real *x, size_t n, real *y)
{
    assert(n && reals_apart(x, n, y, n));
    kernels_of(queue)->add(queue, x, n, y);
}

static inline void kernel_rows_add(struct queue *queue, const real *b, size_t R, size_t W, real *y)
{
    assert(R && W && reals_apart(b, W, y, R * W));
    kernels_of(queue)->rows_add(queue, b, R, W, y);
}

static inline void kernel_rows_fill(struct queue *queue, const real *row, size_t R, size_t W, real *y)
{
    assert(R && W && reals_apart(row, W, y, R * W));
    kernels_of(queue)->rows_fill(queue, row, R, W, y);
}

static inline void kernel_rows_sum(struct queue *queue, const real *x, size_t R, size_t W, int add, real *sum)
{
    assert(R && W && reals_apart(x, R * W, sum, W));
    kernels_of(queue)->rows_sum(queue, x, R, W, add, sum);
}

static inline void kernel_samples_sum(struct queue *queue, const real *x, size_t R, size_t B, size_t W, real *sum)
{
    assert(R && B && W && R % B == 0 && reals_apart(x, R * W, sum, B * W));
    kernels_of(queue)->samples_sum(queue, x, R, B, W, sum);
}

static inline void kernel_rows_take(struct queue *queue, const real *table, const int32_t *codes, size_t R, size_t W,
                                    real *y)
{
    assert(table && codes && R && W && y);
    kernels_of(queue)->rows_take(queue, table, codes, R, W, y);
}

static inline void kernel_rows_put(struct queue *queue, const real *x, const int32_t *codes, size_t R, size_t W,
                                   real *table)
{
    assert(table && codes && R && W && x);
    kernels_of(queue)->rows_put(queue, x, codes, R, W, table);
}

static inline void kernel_sparse_put(struct queue *queue, const real *x, const int32_t *codes, size_t R,
                                     struct sparse shape, real *to)
{
    assert(shape.most && shape.W && to && (!R || (codes && reals_apart(x, R * shape.W, to, 1))));
    kernels_of(queue)->sparse_put(queue, x, codes, R, shape, to);
}

static inline void kernel_sparse_add(struct queue *queue, const real *x, struct sparse shape, real *to)
{
    assert(shape.most && shape.W);
    assert(reals_apart(x, sparse_reals(shape.most, shape.W), to, sparse_reals(shape.most, shape.W)));
    kernels_of(queue)->sparse_add(queue, x, shape, to);
}

static inline void kernel_outer(struct queue *queue, const real *x, const real *wb, size_t R, size_t W, real *y)
{
    assert(R && W && reals_apart(x, R, y, R * W) && reals_apart(wb, 2 * W, y, R * W));
    kernels_of(queue)->outer(queue, x, wb, R, W, y);
}

static inline void kernel_outer_add(struct queue *queue, const real *x, const real *w, size_t R, size_t W, real *y)
{
    assert(R && W && reals_apart(x, R, y, R * W) && reals_apart(w, W, y, R * W));
    kernels_of(queue)->outer_add(queue, x, w, R, W, y);
}

static inline void kernel_outer_sum(struct queue *queue, const real *d_y, const real *x, size_t R, size_t W, real *d_w)
{
    assert(R && W && reals_apart(x, R, d_w, W) && reals_apart(d_y, R * W, d_w, W));
    kernels_of(queue)->outer_sum(queue, d_y, x, R, W, d_w);
}

static inline void kernel_norm(struct queue *queue, const struct norm *norm, real *y, real *inverse, real *z)
{
    size_t R = norm->R, W = norm->W;

    assert(R && W && norm->epsilon > 0 && reals_apart(y, R * W, inverse, R));
    assert(!z || (norm->gamma && norm->beta && reals_apart(y, R * W, z, R * W)));
    kernels_of(queue)->norm(queue, norm, y, inverse, z);
}

static inline void kernel_norm_output(struct queue *queue, const struct norm *norm, const real *xhat, real *z)
{
    assert(norm->R && norm->W && norm->gamma && norm->beta);
    assert(reals_apart(xhat, norm->R * norm->W, z, norm->R * norm->W));
    kernels_of(queue)->norm_output(queue, norm, xhat, z);
}

static inline void kernel_norm_backward(struct queue *queue, const struct norm_backward *b)
{
    assert(b->R && b->W && b->inverse && b->gamma && reals_apart(b->d_gamma, b->W, b->d_beta, b->W));
    assert(reals_apart(b->xhat, b->R * b->W, b->d_z, b->R * b->W));
    kernels_of(queue)->norm_backward(queue, b);
}

static inline void kernel_elu(struct queue *queue, size_t n, real *x)
{
    assert(n && x);
    kernels_of(queue)->elu(queue, n, x);
}

static inline void kernel_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e,
                                       real *sum)
{
    assert(R && W && reals_apart(e, R * W, d_e, R * W) && reals_apart(d_e, R * W, sum, W));
    kernels_of(queue)->elu_backward(queue, e, R, W, add, d_e, sum);
}

static inline void kernel_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias,
                                  uint8_t *keep, real *u)
{
    size_t n = rows->R * rows->W;

    assert(n && rows->B && rows->row % rows->B == 0 && (keep || !rows->dropout.threshold));
    assert(u && (u == x || reals_apart(x, n, u, n)) && (!bias || reals_apart(bias, rows->W, u, n)));
    kernels_of(queue)->dropout(queue, rows, x, bias, keep, u);
}

static inline void kernel_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep,
                                           size_t n, real *d)
{
    assert(n && d && (keep || !dropout->threshold));
    kernels_of(queue)->dropout_backward(queue, dropout, keep, n, d);
}

static inline void kernel_gate(struct queue *queue, const struct gate *g)
{
    size_t n = g->R * g->W;

    assert(n && g->bias_v && g->bias_g && reals_apart(g->v, n, g->s, n) && reals_apart(g->skip, n, g->y, n));
    assert(reals_apart(g->v, n, g->y, n) && reals_apart(g->s, n, g->y, n));
    kernels_of(queue)->gate(queue, g);
}

static inline void kernel_gate_backward(struct queue *queue, const struct gate_backward *b)
{
    size_t n = b->R * b->W;

    assert(n && b->d_y && b->v && b->s && reals_apart(b->d_v, n, b->d_g, n) && reals_apart(b->d_y, n, b->d_v, n));
    assert(reals_apart(b->d_y, n, b->d_g, n) && reals_apart(b->sum_v, b->W, b->sum_g, b->W));
    kernels_of(queue)->gate_backward(queue, b);
}

static inline void kernel_swap(struct queue *queue, const real *x, size_t A, size_t B, size_t C, real *y)
{
    assert(A && B && C && reals_apart(x, A * B * C, y, A * B * C));
    kernels_of(queue)->swap(queue, x, A, B, C, y);
}

static inline void kernel_softmax(struct queue *queue, size_t R, size_t V, real *z)
{
    assert(R && V && z);
    kernels_of(queue)->softmax(queue, R, V, z);
}

static inline void kernel_softmax_backward(struct queue *queue, const real *w, size_t R, size_t V, real *d_w)
{
    assert(R && V && reals_apart(w, R * V, d_w, R * V));
    kernels_of(queue)->softmax_backward(queue, w, R, V, d_w);
}

static inline void assert_weigh(const struct weigh *w)
{
    assert(w->R && w->W && w->V && w->weights && w->xhat && w->gamma && w->beta);
    (void)w;
}

static inline void kernel_weigh(struct queue *queue, struct weigh w, int add, real *out)
{
    assert_weigh(&w);
    assert(reals_apart(w.xhat, w.R * w.W, out, w.R * w.W));
    kernels_of(queue)->weigh(queue, &w, add, out);
}

static inline void kernel_weigh_backward(struct queue *queue, struct weigh w, const real *d_out, real *d_z,
                                         real *d_weights)
{
    assert_weigh(&w);
    assert(d_weights && reals_apart(d_out, w.R * w.W, d_z, w.R * w.W));
    kernels_of(queue)->weigh_backward(queue, &w, d_out, d_z, d_weights);
}

static inline void kernel_resample(struct queue *queue, const real *mask, size_t in, size_t out, real *s)
{
    assert(in && out && s);
    kernels_of(queue)->resample(queue, mask, in, out, s);
}

static inline void kernel_resample_backward(struct queue *queue, const real *mask, const real *d_s, size_t in,
                                            size_t out, real *d_mask)
{
    assert(in && out && mask && d_s && reals_apart(d_s, in * out, d_mask, out));
    kernels_of(queue)->resample_backward(queue, mask, d_s, in, out, d_mask);
}

static inline void assert_lstm(const struct lstm_run *run)
{
    size_t state = (run->S + 1) * run->B * run->H;

    assert(run->S && run->B && run->H && run->u && run->gates && reals_apart(run->h, state, run->c, state));
    (void)state;
}

static inline void kernel_lstm(struct queue *queue, const struct lstm_run *run)
{
    assert_lstm(run);
    kernels_of(queue)->lstm(queue, run);
}

static inline void kernel_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *d)
{
    assert_lstm(run);
    assert(d->d_out && d->scratch && reals_apart(d->d_h, run->B * run->H, d->d_c, run->B * run->H));
    kernels_of(queue)->lstm_backward(queue, run, d);
}

static inline void assert_attention(const struct attention_run *run)
{
    assert(run->B && run->heads && run->d && run->N && run->N + (run->strict != 0) <= run->T);
    assert(run->q && run->k && run->v && run->a && run->scratch && (run->keep || !run->dropout.threshold));
    (void)run;
}

static inline void kernel_attention(struct queue *queue, const struct attention_run *run, real *mean)
{
    assert_attention(run);
    assert(mean);
    kernels_of(queue)->attention(queue, run, mean);
}

static inline void kernel_attention_backward(struct queue *queue, const struct attention_run *run,
                                             const struct attention_gradient *to)
{
    assert_attention(run);
    assert(to->d_mean && to->d_q && to->d_k && to->d_v);
    kernels_of(queue)->attention_backward(queue, run, to);
}

static inline void kernel_windows_take(struct queue *queue, const struct windows_run *run)
{
    const struct windows_data *d = run->data;

    assert(run->B && d->E && d->D && d->O && d->O <= d->reals && d->values && d->weights);
    assert(run->places && run->scaled_by && run->reals && run->targets && run->weights);
    assert(run->offsets && run->units);
    (void)d;
    kernels_of(queue)->windows_take(queue, run);
}

static inline void kernel_take_reals(struct queue *queue, const struct column *column, const real *x, real *y)
{
    assert(column->B && column->steps && column->column < column->columns && x && y);
    kernels_of(queue)->take_reals(queue, column, x, y);
}

static inline void kernel_take_codes(struct queue *queue, const struct column *column, const int32_t *x, int32_t *y)
{
    assert(column->B && column->steps && column->column < column->columns && x && y);
    kernels_of(queue)->take_codes(queue, column, x, y);
}

static inline size_t kernel_shared_rows_gather(struct queue *queue, const struct shared_rows *rows)
{
    assert(rows->R && rows->V && rows->places && rows->slots);
    return kernels_of(queue)->shared_rows_gather(queue, rows);
}

static inline void kernel_ascending(struct queue *queue, size_t R, size_t Q, size_t O, real *o)
{
    assert(R && Q && O && o);
    kernels_of(queue)->ascending(queue, R, Q, O, o);
}

static inline void kernel_ascending_backward(struct queue *queue, const real *p, size_t R, size_t Q, size_t O,
                                             real *d_p)
{
    assert(R && Q && O && reals_apart(p, R * Q * O, d_p, R * Q * O));
    kernels_of(queue)->ascending_backward(queue, p, R, Q, O, d_p);
}

static inline void kernel_loss(struct queue *queue, const struct outputs_run *run, double *loss, real *d_p)
{
    size_t n = run->D * run->B * run->P * run->O;

    assert(n && run->y && run->w && loss && (!d_p || reals_apart(run->p, n, d_p, n)));
    assert(run->loss == TFT_LOSS_QUANTILES ? run->quantiles != NULL : run->P == tft_loss_outputs(run->loss, 0));
    assert(!tft_loss_is_distribution(run->loss) || (run->offsets && run->units));
    (void)n;
    kernels_of(queue)->loss(queue, run, loss, d_p);
}

static inline void kernel_samples_first(struct queue *queue, const struct outputs_run *run, real *y)
{
    size_t n = run->D * run->B * run->P * run->O;

    assert(n && reals_apart(run->p, n, y, n));
    (void)n;
    kernels_of(queue)->samples_first(queue, run, y);
}

static inline void kernel_average(struct queue *queue, double share, const real *x, size_t n, real *y)
{
    assert(n && reals_apart(x, n, y, n));
    kernels_of(queue)->average(queue, share, x, n, y);
}

static inline void kernel_squares(struct queue *queue, const real *x, size_t n, double *sum)
{
    assert(n && x && sum);
    kernels_of(queue)->squares(queue, x, n, sum);
}

static inline void kernel_adam(struct queue *queue, const struct adam_run *run, const real *gradient, size_t n, real *m,
                               real *v, real *p)
{
    assert(n && gradient && (!run->squares || run->count) && reals_apart(m, n, v, n) && reals_apart(m, n, p, n));
    kernels_of(queue)->adam(queue, run, gradient, n, m, v, p);
}

static inline void kernel_squares_all(struct queue *queue, const struct chunks *chunks, const real *x, double *sums)
{
    assert(chunks->count && chunks->all && chunks->partial && x && sums);
    kernels_of(queue)->squares_all(queue, chunks, x, sums);
}

static inline void kernel_adam_all(struct queue *queue, const struct adam_run *run, const struct chunks *chunks,
                                   const real *gradient, real *m, real *v, real *p)
{
    assert(chunks->count && chunks->all && gradient && (!run->squares || run->count) && m && v && p);
    kernels_of(queue)->adam_all(queue, run, chunks, gradient, m, v, p);
}

static inline void kernel_sparse_squares(struct queue *queue, const real *x, struct sparse shape, double *sum)
{
    assert(shape.most && shape.W && x && sum);
    kernels_of(queue)->sparse_squares(queue, x, shape, sum);
}

static inline void kernel_sparse_adam(struct queue *queue, const struct adam_run *run, const real *gradient,
                                      struct sparse shape, real *m, real *v, real *p)
{
    assert(shape.most && shape.W && gradient && (!run->squares || run->count) && m && v && p);
    kernels_of(queue)->sparse_adam(queue, run, gradient, shape, m, v, p);
}

#endif
