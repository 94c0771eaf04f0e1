/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows cut from rows on the device, and scaled: a block a sample. Rows of a window are contiguous in the data and in
 * the batch.
 */
#include "tft/core/kernels/cuda/device.cuh"

__align__(16) extern __shared__ unsigned char dynamic_shared[];

namespace windows_kernels
{

constexpr int TAKE_THREADS = 256;

/* A sample's part of the run. */
struct sample {
    size_t begin, steps, length; /* begin: the first step that is there, of E + D */
    const float *values;         /* the data's, from its first row on, as the next two */
    const int32_t *codes;
    const float *weights;
    float *x; /* the batch's, from step `begin` on */
    int32_t *cats;
    float *targets, *offsets, *units;
};

static __device__ sample find_sample(const windows_run &run, const windows_data &d, size_t b)
{
    const window_place place = run.places[b];
    const size_t row = place.row, length = place.length, begin = d.E - length, T = d.E + d.D;

    return { begin,
             length + d.D,
             length,
             d.values + row * d.reals,
             d.codes + row * d.cats,
             d.weights + row * d.O,
             run.reals + (b * T + begin) * d.reals,
             run.cats + (b * T + begin) * d.cats,
             run.targets + b * d.D * d.O,
             run.offsets + b * d.D * d.O,
             run.units + b * d.O };
}

template <class N> static __device__ void copy(const N *from, size_t n, N *to)
{
    for (size_t i = threadIdx.x; i < n; i += TAKE_THREADS)
        to[i] = from[i];
}

static __device__ void copy_rows(const windows_run &run, const windows_data &d, const sample &s, size_t b)
{
    const size_t entity = run.places[b].entity;

    copy(s.values, s.steps * d.reals, s.x);
    copy(s.codes, s.steps * d.cats, s.cats);
    copy(d.static_values + entity * d.statics, d.statics, run.static_reals + b * d.statics);
    copy(d.static_codes + entity * d.static_cats, d.static_cats, run.static_cats + b * d.static_cats);
    copy(s.weights + s.length * d.O, d.D * d.O, run.weights + b * d.D * d.O);
    for (size_t i = threadIdx.x; i < d.D * d.O; i += TAKE_THREADS) {
        s.targets[i] = s.values[(s.length + i / d.O + 1) * d.reals - d.O + i % d.O];
        s.offsets[i] = 0;
    }
    for (size_t o = threadIdx.x; o < d.O; o += TAKE_THREADS)
        s.units[o] = 1;
}

static __device__ void patch_rows(const windows_run &run, const windows_data &d, const sample &s, size_t b)
{
    const window_place place = run.places[b];

    for (uint32_t i = 0; i < place.patches; i++) {
        const window_patch p = run.patches[place.patch + i];

        for (size_t t = p.from + threadIdx.x; t < p.to; t += TAKE_THREADS)
            if (p.array == WINDOW_REALS)
                s.x[(t - s.begin) * d.reals + p.column] = p.value;
            else if (p.array == WINDOW_CODES)
                s.cats[(t - s.begin) * d.cats + p.column] = p.code;
            else
                run.static_cats[b * d.static_cats + p.column] = p.code;
    }
}

static __device__ void find_level(const windows_run &run, const windows_data &d, const sample &s, size_t column,
                                  float *level)
{
    const int32_t by = run.scaled_by[column];
    double sum = 0, squares = 0;

    if (by < 0)
        return;
    for (size_t t = 0; t < s.length; t++)
        sum += static_cast<double>(s.x[t * d.reals + by]);
    const double middle = sum / static_cast<double>(s.length);
    for (size_t t = 0; t < s.length; t++) {
        const double away = static_cast<double>(s.x[t * d.reals + by]) - middle;
        squares += away * away;
    }
    level[0] = static_cast<float>(middle);
    level[1] =
        static_cast<float>(fmax(sqrt(squares / static_cast<double>(s.length)), static_cast<double>(run.spread_least)));
}

static __device__ void scale_targets(const windows_run &run, const windows_data &d, const sample &s,
                                     const float *levels)
{
    for (size_t i = threadIdx.x; i < d.D * d.O; i += TAKE_THREADS) {
        const size_t h = i / d.O, o = i % d.O;
        const float *level = levels + 2 * (d.reals - d.O + o);

        if (run.scaled_by[d.reals - d.O + o] < 0)
            continue;
        s.offsets[i] = level[0];
        s.targets[i] = (s.targets[i] - s.offsets[i]) / level[1];
        if (h == 0)
            s.units[o] = level[1];
    }
}

static __device__ void scale_columns(const windows_run &run, const windows_data &d, const sample &s,
                                     const float *levels)
{
    for (size_t i = threadIdx.x; i < s.steps * d.reals; i += TAKE_THREADS) {
        const float *level = levels + 2 * (i % d.reals);

        if (run.scaled_by[i % d.reals] >= 0)
            s.x[i] = (s.x[i] - level[0]) / level[1];
    }
}

static __global__ void __launch_bounds__(TAKE_THREADS) cut_windows(windows_run run, windows_data d)
{
    for (size_t b = blockIdx.x; b < run.B; b += gridDim.x) {
        const sample s = find_sample(run, d, b);

        copy_rows(run, d, s, b);
        __syncthreads();
        patch_rows(run, d, s, b);
        __syncthreads();
    }
}

/* Computes all levels before any column changes. */
static __global__ void __launch_bounds__(TAKE_THREADS) scale_windows(windows_run run, windows_data d)
{
    float *levels = reinterpret_cast<float *>(dynamic_shared);

    for (size_t b = blockIdx.x; b < run.B; b += gridDim.x) {
        const sample s = find_sample(run, d, b);

        for (size_t k = threadIdx.x; k < d.reals; k += TAKE_THREADS)
            find_level(run, d, s, k, levels + 2 * k);
        __syncthreads();
        scale_targets(run, d, s, levels);
        __syncthreads();
        scale_columns(run, d, s, levels);
        __syncthreads();
    }
}

} // namespace windows_kernels

using namespace windows_kernels;

void cuda_windows_take(struct queue *queue, const struct windows_run *run)
{
    const size_t shared = 2 * run->data->reals * sizeof(float); /* of 128 variables at most: 1 KiB */
    const unsigned blocks = blocks_for(run->B, 1);

    cuda_note(queue, cuda_launch(cut_windows, blocks, TAKE_THREADS, 0, queue->stream, *run, *run->data));
    if (run->scales)
        cuda_note(queue, cuda_launch(scale_windows, blocks, TAKE_THREADS, shared, queue->stream, *run, *run->data));
}
