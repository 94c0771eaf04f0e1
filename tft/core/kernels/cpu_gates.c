/* SPDX-License-Identifier: Apache-2.0
 *
 * The element-wise parts between the products of a layer: ELU, dropout, the gate.
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

void cpu_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t n, real *d)
{
    if (dropout->threshold)
        dropout_apply(dropout, keep, d, n, d);
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

void cpu_gate(struct queue *queue, const struct gate *g)
{
    gate(g->v, g->s, g->bias_v, g->bias_g, g->skip, g->R, g->W, g->y);
}

TFT_VECTOR static void gate_backward(const struct gate_backward *in, real *restrict d_v, real *restrict d_g,
                                     real *restrict sum_v, real *restrict sum_g)
{
    const real *d_y = in->d_y, *v = in->v, *s = in->s;
    size_t R = in->R, W = in->W;

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

void cpu_gate_backward(struct queue *queue, const struct gate_backward *b)
{
    if (!b->add) {
        memset(b->sum_v, 0, b->W * sizeof *b->sum_v);
        memset(b->sum_g, 0, b->W * sizeof *b->sum_g);
    }
    gate_backward(b, b->d_v, b->d_g, b->sum_v, b->sum_g);
}
