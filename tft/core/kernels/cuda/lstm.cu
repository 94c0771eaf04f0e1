/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps (the formulas: tft/core/kernels/cpu_lstm.c):
 *
 *     lstm_alone.cu   bf16 products, where U fits in a block's shared memory: one launch, of any number of samples
 *     lstm_split.cu   else, where U fits in that of all blocks and a block gets few samples: one launch
 *     here            else: the recurrent product of each step, then one kernel for its element-wise part
 */
#include "tft/core/kernels/cuda/lstm.cuh"
#include "tft/core/kernels/formulas.h"
#include <utility>

namespace lstm_kernels
{

/* An element of the state. */
template <class T> struct lstm_cell {
    size_t B, H, t;
    const size_t *padding; /* NULL: every step exists */
    float *gates;          /* (B, 4 H) of this step */
    const float *h_before, *c_before;
    float *h, *c;

    __device__ void operator()(size_t i) const
    {
        const size_t b = i / H, k = i % H;
        float *g = gates + b * 4 * H + k;
        const float in = real_sigmoid(get<T>(g)), forget = real_sigmoid(get<T>(g + H)),
                    value = real_tanh(get<T>(g + 2 * H)), out = real_sigmoid(get<T>(g + 3 * H));
        const float cell = lstm_c(in, forget, value, c_before[i]);
        const bool passes = padding && t < padding[b];

        put<T>(in, g);
        put<T>(forget, g + H);
        put<T>(value, g + 2 * H);
        put<T>(out, g + 3 * H);
        c[i] = passes ? c_before[i] : cell;
        put<T>(passes ? get<T>(h_before + i) : out * real_tanh(cell), h + i);
    }
};

/* d_c is of c_t, made of c_(t-1); they may be one array. The gradient of h_t is the sum of those from step t + 1 and
 * from above; for a step that does not exist it passes on to h_(t-1) (`passed`), after the product of gates that are
 * 0. */
template <class T> struct lstm_cell_backward {
    size_t B, H, t;
    const size_t *padding;
    float *gates;
    const float *c_before, *c, *d_h, *d_out, *d_c;
    float *made, *passed;

    __device__ void operator()(size_t i) const
    {
        const size_t b = i / H, k = i % H;
        float *at = gates + b * 4 * H + k;

        if (padding && t < padding[b]) {
            for (size_t gate = 0; gate < GATES; gate++)
                put<T>(0, at + gate * H);
            put<T>(get<T>(d_h + i), passed + i);
            store_any<1>(load_any<1>(d_c + i), made + i);
            return;
        }
        const lstm_unit_gradient d =
            lstm_unit_backward(get<T>(at), get<T>(at + H), get<T>(at + 2 * H), get<T>(at + 3 * H), c[i], c_before[i],
                               get<T>(d_h + i) + get<T>(d_out + i), load_any<1>(d_c + i).v[0]);

        put<T>(d.i, at);
        put<T>(d.f, at + H);
        put<T>(d.g, at + 2 * H);
        put<T>(d.o, at + 3 * H);
        store_any<1>({ { d.c } }, made + i);
        put<T>(0, passed + i);
    }
};

/* Returns true if all steps were launched as one. */
static bool run_together(struct queue *queue, const lstm_steps &steps)
{
    const int rounds = queue->needs.bf16 && steps.run.B > EXACT_ROWS && steps.run.H > EXACT_ROWS;

    return (rounds && cuda_lstm_alone(queue, steps)) || cuda_lstm_split(queue, steps, rounds);
}

} // namespace lstm_kernels

using namespace lstm_kernels;

void cuda_lstm(struct queue *queue, const struct lstm_run *run)
{
    const size_t H = run->H, B = run->B;

    if (run_together(queue, { *run, NULL, NULL, NULL }))
        return;
    for (size_t t = 0; t < run->S; t++) {
        const size_t before = t * B * H, after = before + B * H;
        float *gates = run->gates + 4 * before;

        cuda_multiply(queue, matrix_of(run->h + before, H), matrix_of(run->u, 4 * H), B, 4 * H, H, added(gates, 4 * H));
        with_element(gates, [&](auto element) {
            run_each(queue,
                     lstm_cell<decltype(element)>{ B, H, run->first + t, run->padding, gates, run->h + before,
                                                   run->c + before, run->h + after, run->c + after },
                     B * H);
        });
    }
}

/* d_h of a step is made beside that of the step after it: in scratch, then in d->d_h again, and so on. d_c is rounded
 * once: between the steps it is reals, in scratch after the others where d->d_c is narrow. */
void cuda_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *d)
{
    const size_t H = run->H, B = run->B;
    real *d_h = d->d_h, *made = d->scratch;
    real *const d_c = tft_is_narrow(d->d_c) ? static_cast<real *>(tft_place_of(d->scratch)) + B * H : d->d_c;

    if (run_together(queue, { *run, d->d_out, d->d_h, d->d_c }))
        return;
    for (size_t t = run->S; t-- > 0;) {
        const size_t before = t * B * H, after = before + B * H;
        float *gates = run->gates + 4 * before;

        with_element(gates, [&](auto element) {
            run_each(queue,
                     lstm_cell_backward<decltype(element)>{ B, H, run->first + t, run->padding, gates, run->c + before,
                                                            run->c + after, d_h, d->d_out + before,
                                                            t + 1 < run->S ? d_c : d->d_c, t > 0 ? d_c : d->d_c, made },
                     B * H);
        });
        cuda_multiply(queue, matrix_of(gates, 4 * H), matrix_t(run->u, 4 * H), B, H, 4 * H, added(made, H));
        std::swap(d_h, made);
    }
    if (d_h != d->d_h)
        cuda_copy(queue, d_h, B * H, d->d_h);
}

size_t cuda_lstm_scratch(size_t S, size_t B, size_t H)
{
    (void)S;
    return 2 * B * H;
}
