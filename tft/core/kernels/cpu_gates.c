/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the products of a layer: ELU, dropout, the gate with the norm and the sum that follow it.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/formulas.h"

TFT_VECTOR static void elu(real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = real_elu(x[i]);
}

void cpu_elu(struct queue *queue, size_t n, real *x)
{
    elu(x, n);
}

TFT_VECTOR static void elu_backward(const real *restrict e, real *restrict d_e, size_t R, size_t W, real *restrict sum)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            real y = e[r * W + i];
            real d = d_e[r * W + i] * elu_slope(y);

            d_e[r * W + i] = d;
            sum[i] += d;
        }
}

void cpu_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum)
{
    if (!add)
        memset(sum, 0, W * sizeof *sum);
    elu_backward(e, d_e, R, W, sum);
}

/* y = keep ? (x + bias) * scale : 0; bias may be NULL. */
TFT_VECTOR static void drop(const real *x, const real *restrict bias, const uint8_t *restrict keep, real scale,
                            size_t R, size_t W, real *u)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            real shift = bias ? bias[i] : 0;

            u[r * W + i] = dropout_value(keep[r * W + i], x[r * W + i] + shift, scale);
        }
}

TFT_VECTOR static void add_bias(const real *x, const real *restrict bias, size_t R, size_t W, real *u)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++)
            u[r * W + i] = x[r * W + i] + bias[i];
}

void cpu_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias, uint8_t *keep,
                 real *u)
{
    size_t R = rows->R, W = rows->W;

    if (rows->dropout.threshold) {
        dropout_rows(&rows->dropout, &rows->site, rows->row, R, rows->B, W, keep);
        drop(x, bias, keep, rows->dropout.scale, R, W, u);
    } else if (bias) {
        add_bias(x, bias, R, W, u);
    } else if (u != x) {
        memcpy(u, x, R * W * sizeof *u);
    }
}

void cpu_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t R, size_t W,
                          int add, real *d, real *sum)
{
    if (dropout->threshold)
        dropout_apply(dropout, keep, d, R * W, d);
    if (sum)
        cpu_rows_sum(queue, d, R, W, add, sum);
}

TFT_VECTOR static void gate(real *restrict v, real *restrict s, const real *restrict bias_v,
                            const real *restrict bias_g, const real *restrict skip, size_t R, size_t W,
                            real *restrict y)
{
    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            real value = v[r * W + i] + bias_v[i], open = real_sigmoid(s[r * W + i] + bias_g[i]);

            v[r * W + i] = value;
            s[r * W + i] = open;
            y[r * W + i] = skip[r * W + i] + value * open;
        }
}

void cpu_gate_norm(struct queue *queue, const struct gate_norm *g)
{
    const struct norm *norm = &g->norm;
    const struct weighted z = { norm->R, norm->W, g->V, g->weights, g->xhat, norm->gamma, norm->beta };

    gate(g->v, g->s, g->bias_v, g->bias_g, g->skip, norm->R, norm->W, g->xhat);
    cpu_norm(queue, norm, g->xhat, g->inverse, g->z);
    if (g->weights)
        cpu_weighted_sum(queue, &z, g->add, g->sum);
}

TFT_VECTOR static void gate_backward(const struct gate_norm_backward *in, real *restrict d_v, real *restrict d_g,
                                     real *restrict sum_v, real *restrict sum_g)
{
    const real *d_y = in->norm.d_z, *v = in->v, *s = in->s;
    size_t R = in->norm.R, W = in->norm.W;

    for (size_t r = 0; r < R; r++)
        for (size_t i = 0; i < W; i++) {
            size_t k = r * W + i;
            real dv = d_y[k] * s[k], dg = gate_d_g(dv, v[k], s[k]);

            d_v[k] = dv;
            d_g[k] = dg;
            sum_v[i] += dv;
            sum_g[i] += dg;
        }
}

void cpu_gate_norm_backward(struct queue *queue, const struct gate_norm_backward *b)
{
    const struct norm_backward *norm = &b->norm;
    const struct weighted z = { norm->R, norm->W, b->V, b->weights, norm->xhat, norm->gamma, b->beta };

    if (b->weights)
        cpu_weighted_sum_backward(queue, &z, b->d_sum, norm->d_z, b->d_weights);
    cpu_norm_backward(queue, norm);
    if (!norm->add) {
        memset(b->sum_v, 0, norm->W * sizeof *b->sum_v);
        memset(b->sum_g, 0, norm->W * sizeof *b->sum_g);
    }
    gate_backward(b, b->d_v, b->d_g, b->sum_v, b->sum_g);
}
