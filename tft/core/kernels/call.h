/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a device's kernels: kernel_<name> asserts the condition of its row in tft/core/kernels/kernels.def (without
 * NDEBUG) and calls the member <name>.
 */
#ifndef HALAY_TFT_CALL_H
#define HALAY_TFT_CALL_H

#include "tft/core/kernels/kernels.h"
#include <assert.h>

/* ---- conditions of rows ------------------------------------------------------------------------------------------ */

/* Returns nonzero if n reals at a and m at b do not overlap. */
static inline int apart(const real *a, size_t n, const real *b, size_t m)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

    return x + n * sizeof *a <= y || y + m * sizeof *b <= x;
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

static inline int is_product(const struct product *p)
{
    size_t written = (p->M - 1) * p->to.ld + p->N;

    return p->M && p->N && p->to.data && p->to.ld >= p->N && (!p->bias || p->to.ld == p->N) &&
           (!p->K || (is_matrix(p->a, p->M, p->K) && is_matrix(p->b, p->K, p->N) &&
                      apart(p->a.data, matrix_span(p->a, p->M, p->K), p->to.data, written) &&
                      apart(p->b.data, matrix_span(p->b, p->K, p->N), p->to.data, written)));
}

static inline int is_weighted(const struct weighted *z)
{
    return z->R && z->W && z->V && z->weights && z->xhat && z->gamma && z->beta;
}

static inline int is_gate_norm(const struct gate_norm *g)
{
    size_t n = g->norm.R * g->norm.W;

    return n && g->norm.gamma && g->norm.beta && g->bias_v && g->bias_g && g->inverse && apart(g->v, n, g->s, n) &&
           apart(g->skip, n, g->xhat, n) && apart(g->v, n, g->xhat, n) && apart(g->s, n, g->xhat, n) &&
           (!g->z || apart(g->xhat, n, g->z, n)) && (!g->weights || (g->V && apart(g->xhat, n, g->sum, n)));
}

static inline int is_gate_norm_backward(const struct gate_norm_backward *b)
{
    const struct norm_backward *norm = &b->norm;
    size_t n = norm->R * norm->W;

    return n && norm->inverse && norm->gamma && norm->d_gamma && norm->d_beta && b->bias_v && b->bias_g && b->v &&
           b->s && b->sum_v && b->sum_g && apart(norm->xhat, n, norm->d_z, n) && apart(b->d_v, n, b->d_g, n) &&
           apart(norm->d_z, n, b->d_v, n) && apart(norm->d_z, n, b->d_g, n) &&
           (!b->weights || (b->V && b->beta && b->d_weights && apart(b->d_sum, n, norm->d_z, n)));
}

static inline int is_lstm(const struct lstm_run *run)
{
    size_t state = (run->S + 1) * run->B * run->H;

    return run->S && run->B && run->H && run->u && run->gates && apart(run->h, state, run->c, state);
}

static inline int is_attention(const struct attention_run *run)
{
    return run->B && run->heads && run->d && run->N && run->N + (run->strict != 0) <= run->T && run->q && run->k &&
           run->v && run->a && run->scratch && (run->keep || !run->dropout.threshold);
}

static inline int is_loss(const struct outputs_run *run)
{
    return outputs_reals(run) && run->y && run->w &&
           (run->loss == TFT_LOSS_QUANTILES ? run->quantiles != NULL : run->P == tft_loss_outputs(run->loss, 0)) &&
           (!tft_loss_is_distribution(run->loss) || (run->offsets && run->units));
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

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

static inline void kernel_pass_call(struct queue *queue, void (*call)(void *arg, size_t what), void *arg, size_t what)
{
    if (queue && kernels_of(queue)->pass_call)
        kernels_of(queue)->pass_call(queue, call, arg, what);
    else
        call(arg, what);
}

static inline void kernel_to_device(struct queue *queue, const void *host, size_t bytes, void *memory)
{
    kernels_of(queue)->to_device(queue, host, bytes, memory);
}

static inline void kernel_to_host_later(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    kernels_of(queue)->to_host_later(queue, memory, bytes, host);
}

static inline void kernel_to_host(struct queue *queue, const void *memory, size_t bytes, void *host)
{
    kernels_of(queue)->to_host(queue, memory, bytes, host);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

#define KERNEL(name, parameters, arguments, condition, traffic)                   \
    static inline void kernel_##name(struct queue *queue, KERNEL_LIST parameters) \
    {                                                                             \
        assert(condition);                                                        \
        kernels_of(queue)->name(queue, KERNEL_LIST arguments);                    \
    }
#include "tft/core/kernels/kernels.def"

static inline void kernel_zero(struct queue *queue, size_t n, real *y)
{
    kernel_fill(queue, 0, n, y);
}

/* A product without batch and bias. */
static inline void kernel_multiply(struct queue *queue, struct matrix a, struct matrix b, size_t M, size_t N, size_t K,
                                   struct target to)
{
    kernel_product(queue, &(struct product){ .a = a, .b = b, .M = M, .N = N, .K = K, .to = to });
}

#endif
