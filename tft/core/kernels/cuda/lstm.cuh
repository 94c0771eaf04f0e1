/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps in one launch (lstm.cu chooses): in blocks that need nothing of each other (lstm_alone.cu), or with
 * the recurrent weights split over blocks (lstm_split.cu).
 */
#ifndef HALAY_TFT_CUDA_LSTM_CUH
#define HALAY_TFT_CUDA_LSTM_CUH

#include "tft/core/kernels/cuda/device.cuh"

constexpr size_t GATES = 4;

/* By the instructions for 2^x and 1 / x: some units of the last place off, in fewer instructions. */
static __device__ __forceinline__ float quick_sigmoid(float x)
{
    return __fdividef(1, 1 + __expf(-x));
}

/* Arguments of both directions; the gradients are backward's. */
struct lstm_steps {
    struct lstm_run run;
    const float *d_out;
    float *d_h, *d_c;
};

/* Each launches all steps, or returns false where the device has no room for that. rounds: the factors, to bf16. */
bool cuda_lstm_alone(struct queue *queue, const lstm_steps &steps);
bool cuda_lstm_split(struct queue *queue, const lstm_steps &steps, int rounds);

#endif
