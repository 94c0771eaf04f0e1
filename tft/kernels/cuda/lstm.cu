/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps: the recurrent product of each, then one kernel for its element-wise part (the formulas:
 * tft/kernels/cpu_lstm.c). What passes a step that does not exist is decided in the same kernel.
 */
#include "tft/kernels/cuda/device.cuh"

namespace lstm_kernels
{

/* An element of the state. */
struct lstm_cell {
    size_t B, H, t;
    const size_t *padding; /* NULL: every step exists */
    float *gates;          /* (B, 4 H) of this step */
    const float *h_before, *c_before;
    float *h, *c;

    __device__ void operator()(size_t i) const
    {
        const size_t b = i / H, k = i % H;
        float *g = gates + b * 4 * H + k;
        const float in = sigmoid(g[0]), forget = sigmoid(g[H]), value = tanhf(g[2 * H]), out = sigmoid(g[3 * H]);
        const float cell = forget * c_before[i] + in * value;
        const bool passes = padding && t < padding[b];

        g[0] = in;
        g[H] = forget;
        g[2 * H] = value;
        g[3 * H] = out;
        c[i] = passes ? c_before[i] : cell;
        h[i] = passes ? h_before[i] : out * tanhf(cell);
    }
};

/* d_c: in of c_t, out of c_(t-1). The gradient of h_t is what came from step t + 1 and from above; for a step that does
 * not exist it goes on to h_(t-1), after the product of gates that are 0: `passed`. */
struct lstm_cell_backward {
    size_t B, H, t;
    const size_t *padding;
    float *gates;
    const float *c_before, *c, *d_h, *d_out;
    float *d_c, *passed;

    __device__ void operator()(size_t i) const
    {
        const size_t b = i / H, k = i % H;
        float *at = gates + b * 4 * H + k;

        if (padding && t < padding[b]) {
            at[0] = at[H] = at[2 * H] = at[3 * H] = 0;
            passed[i] = d_h[i];
            return;
        }
        const float in = at[0], forget = at[H], value = at[2 * H], out = at[3 * H], bent = tanhf(c[i]);
        const float dh = d_h[i] + d_out[i], dc = d_c[i] + dh * out * (1 - bent * bent);

        at[0] = dc * value * in * (1 - in);
        at[H] = dc * c_before[i] * forget * (1 - forget);
        at[2 * H] = dc * in * (1 - value * value);
        at[3 * H] = dh * bent * out * (1 - out);
        d_c[i] = dc * forget;
        passed[i] = 0;
    }
};

} // namespace lstm_kernels

using namespace lstm_kernels;

void cuda_lstm(struct queue *queue, const struct lstm_run *run)
{
    const size_t H = run->H, B = run->B;

    for (size_t t = 0; t < run->S; t++) {
        const size_t before = t * B * H, after = before + B * H;
        float *gates = run->gates + 4 * before;

        cuda_multiply(queue, matrix_of(run->h + before, H), matrix_of(run->u, 4 * H), B, 4 * H, H, added(gates, 4 * H));
        run_each(queue,
                 lstm_cell{ B, H, run->first + t, run->padding, gates, run->h + before, run->c + before, run->h + after,
                            run->c + after },
                 B * H);
    }
}

/* scratch: `passed`, (B, H), to which the product adds when it becomes d_h. */
void cuda_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *d)
{
    const size_t H = run->H, B = run->B;

    for (size_t t = run->S; t-- > 0;) {
        const size_t before = t * B * H, after = before + B * H;
        float *gates = run->gates + 4 * before;

        run_each(queue,
                 lstm_cell_backward{ B, H, run->first + t, run->padding, gates, run->c + before, run->c + after, d->d_h,
                                     d->d_out + before, d->d_c, d->scratch },
                 B * H);
        cuda_multiply(queue, matrix_of(gates, 4 * H), matrix_t(run->u, 4 * H), B, H, 4 * H, added(d->scratch, H));
        cuda_note(queue,
                  cudaMemcpyAsync(d->d_h, d->scratch, B * H * sizeof(float), cudaMemcpyDeviceToDevice, queue->stream));
    }
}

size_t cuda_lstm_scratch(size_t S, size_t B, size_t H)
{
    (void)S;
    return B * H;
}
