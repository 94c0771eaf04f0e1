/* SPDX-License-Identifier: Apache-2.0
 *
 * The element-wise parts between the products of a layer: ELU, dropout, the gate.
 */
#include "tft/core/kernels/cuda/device.cuh"
#include "tft/core/kernels/formulas.h"
#include "tft/core/kernels/philox.h"

namespace gates_kernels
{

/* ---- ELU ---- */

template <int V> struct elu_of {
    float *x;

    __device__ void operator()(size_t i) const
    {
        pack<V> p = load<V>(x + V * i);

        for (int k = 0; k < V; k++)
            p.v[k] = p.v[k] > 0 ? p.v[k] : expm1f(p.v[k]);
        store<V>(p, x + V * i);
    }
};

struct elu_backward {
    static constexpr int SUMS = 1;
    const float *e;
    size_t W;
    float *d_e;

    __device__ void operator()(size_t r, size_t i, float *sums) const
    {
        const float y = e[r * W + i], d = d_e[r * W + i] * elu_slope(y);

        d_e[r * W + i] = d;
        sums[0] += d;
    }
};

/* ---- dropout ---- */

/* Returns one of the four draws of a Philox counter, as tft/core/kernels/philox.c. */
static __device__ uint32_t draw_lane(uint32_t k0, uint32_t k1, uint64_t block, uint32_t step, uint32_t sample,
                                     unsigned lane)
{
    uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = step, c3 = sample;

    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t p0 = static_cast<uint64_t>(PHILOX_M0) * c0, p1 = static_cast<uint64_t>(PHILOX_M1) * c2;

        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(p0);
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    const uint32_t low = lane % 2 ? c1 : c0, high = lane % 2 ? c3 : c2;
    return lane / 2 ? high : low;
}

/* pass: whose values are the device's, NULL: those of the call. */
static __device__ bool is_kept(const struct dropout &dropout, const struct pass_values *pass, uint32_t site,
                               uint64_t element, size_t sample)
{
    const uint32_t seed = pass ? pass->seed : dropout.seed, step = pass ? pass->step : dropout.step;
    const uint64_t position = pass ? pass->position : dropout.position;

    return draw_lane(seed, site, element / 4, step, static_cast<uint32_t>(position + sample),
                     static_cast<unsigned>(element % 4)) >= dropout.threshold;
}

/* An element draws its own lane: four times the generator's work, and no thread writes another one's bytes. */
struct drop {
    struct masked_rows rows;
    const struct pass_values *pass;
    const float *x, *bias; /* bias may be NULL */
    uint8_t *keep;
    float *u;

    __device__ void operator()(size_t i) const
    {
        const size_t r = i / rows.W, column = i % rows.W, row = rows.row + r;
        const uint64_t element = row / rows.B * rows.site.stride + rows.site.first + column;
        const bool is_in = is_kept(rows.dropout, pass, rows.site.name, element, row % rows.B);

        keep[i] = is_in;
        u[i] = dropout_value(is_in, x[i] + (bias ? bias[column] : 0), rows.dropout.scale);
    }
};

/* The mask of attention, (B, heads, N, d). */
struct draw_heads {
    struct attention_run run;
    const struct pass_values *pass;

    __device__ void operator()(size_t i) const
    {
        const size_t column = i % run.d, n = i / run.d % run.N, h = i / run.d / run.N % run.heads,
                     b = i / run.d / run.N / run.heads;
        const uint64_t element = (run.T - run.N + n) * run.site.stride + h * run.d + column;

        run.keep[i] = is_kept(run.dropout, pass, run.site.name, element, b);
    }
};

struct add_bias {
    const float *x, *bias;
    size_t W;
    float *u;

    __device__ void operator()(size_t i) const
    {
        u[i] = x[i] + bias[i % W];
    }
};

struct drop_backward {
    const uint8_t *keep;
    float scale, *d;

    __device__ void operator()(size_t i) const
    {
        d[i] = dropout_value(keep[i], d[i], scale);
    }
};

/* ---- the gate ---- */

template <int V> struct open_gate {
    struct gate g;

    __device__ void operator()(size_t i) const
    {
        const size_t at = V * i, column = at % g.W;
        pack<V> v = load<V>(g.v + at), s = load<V>(g.s + at), y = load<V>(g.skip + at);
        const pack<V> bias_v = load<V>(g.bias_v + column), bias_g = load<V>(g.bias_g + column);

        for (int k = 0; k < V; k++) {
            v.v[k] += bias_v.v[k];
            s.v[k] = real_sigmoid(s.v[k] + bias_g.v[k]);
            y.v[k] += v.v[k] * s.v[k];
        }
        store<V>(v, g.v + at);
        store<V>(s, g.s + at);
        store<V>(y, g.y + at);
    }
};

struct gate_slopes {
    static constexpr int SUMS = 2;
    struct gate_backward g;

    __device__ void operator()(size_t r, size_t i, float *sums) const
    {
        const size_t at = r * g.W + i;
        const float dv = g.d_y[at] * g.s[at], dg = gate_d_g(dv, g.v[at], g.s[at]);

        g.d_v[at] = dv;
        g.d_g[at] = dg;
        sums[0] += dv;
        sums[1] += dg;
    }
};

} // namespace gates_kernels

using namespace gates_kernels;

void cuda_elu(struct queue *queue, size_t n, real *x)
{
    if (takes_four(n, x))
        run_each(queue, elu_of<4>{ x }, n / 4);
    else
        run_each(queue, elu_of<1>{ x }, n);
}

void cuda_elu_backward(struct queue *queue, const real *e, size_t R, size_t W, int add, real *d_e, real *sum)
{
    run_columns(queue, elu_backward{ e, W, d_e }, R, W, add, sum);
}

void cuda_dropout(struct queue *queue, const struct masked_rows *rows, const real *x, const real *bias, uint8_t *keep,
                  real *u)
{
    const size_t n = rows->R * rows->W;

    if (rows->dropout.threshold)
        run_each(queue, drop{ *rows, queue->current, x, bias, keep, u }, n);
    else if (bias)
        run_each(queue, add_bias{ x, bias, rows->W, u }, n);
    else if (u != x)
        cuda_note(queue, cudaMemcpyAsync(u, x, n * sizeof *u, cudaMemcpyDeviceToDevice, queue->stream));
}

void cuda_dropout_backward(struct queue *queue, const struct dropout *dropout, const uint8_t *keep, size_t n, real *d)
{
    if (dropout->threshold)
        run_each(queue, drop_backward{ keep, dropout->scale, d }, n);
}

void cuda_draw_heads(struct queue *queue, const struct attention_run *run)
{
    run_each(queue, draw_heads{ *run, queue->current }, run->B * run->heads * run->N * run->d);
}

void cuda_gate(struct queue *queue, const struct gate *g)
{
    if (takes_four(g->W, g->v, g->s, g->skip, g->y, g->bias_v, g->bias_g))
        run_each(queue, open_gate<4>{ *g }, g->R * g->W / 4);
    else
        run_each(queue, open_gate<1>{ *g }, g->R * g->W);
}

void cuda_gate_backward(struct queue *queue, const struct gate_backward *b)
{
    run_columns(queue, gate_slopes{ *b }, b->R, b->W, b->add, b->sum_v, b->sum_g);
}
