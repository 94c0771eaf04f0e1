/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, sample by sample. Rows are time-major, so one sample's rows of q, k and v are B rows apart: matrices with
 * a large leading dimension, which the products take as they are. The heads' products with v share v and are one
 * product a sample.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/formulas.h"

/* Scores of one head to probabilities. */
TFT_VECTOR static void causal_softmax(real *a, size_t N, size_t T, size_t first, size_t strict, real scale)
{
    for (size_t n = 0; n < N; n++) {
        real *row = a + n * T, largest, sum = 0;
        size_t seen = T - N + n + 1 - strict, from = first < seen ? first : seen;

        for (size_t s = 0; s < from; s++)
            row[s] = 0;
        largest = row[from < T ? from : 0];
#pragma omp simd reduction(max : largest)
        for (size_t s = from + 1; s < seen; s++)
            largest = row[s] > largest ? row[s] : largest;
#pragma omp simd reduction(+ : sum)
        for (size_t s = from; s < seen; s++) {
            row[s] = real_exp((row[s] - largest) * scale);
            sum += row[s];
        }
        sum = 1 / sum;
        for (size_t s = from; s < seen; s++)
            row[s] *= sum;
        for (size_t s = seen; s < T; s++)
            row[s] = 0;
    }
}

/* d_a becomes the gradient of the products q k^T. Where a is 0 for the mask, so is it. */
TFT_VECTOR static void softmax_backward(const real *restrict a, real *restrict d_a, size_t N, size_t T, real scale)
{
    for (size_t n = 0; n < N; n++) {
        const real *row = a + n * T;
        real *d = d_a + n * T, dot = 0;

#pragma omp simd reduction(+ : dot)
        for (size_t s = 0; s < T; s++)
            dot += row[s] * d[s];
        for (size_t s = 0; s < T; s++)
            d[s] = softmax_d_z(row[s], d[s], dot) * scale;
    }
}

/* Returns a value after dropout; keep NULL: no dropout. */
static real drop_value(const uint8_t *keep, size_t i, real value, real scale)
{
    return keep ? dropout_value(keep[i], value, scale) : value;
}

/* The mask of query n and head h of sample b; NULL without dropout. */
static uint8_t *mask_at(const struct attention_run *run, size_t b, size_t h, size_t n)
{
    return run->dropout.threshold ? run->keep + ((b * run->heads + h) * run->N + n) * run->d : NULL;
}

static real scale_of(const struct attention_run *run)
{
    return (real)1 / (real)sqrt((real)run->d);
}

/* One sample's heads (heads, N, d): mean over heads after dropout, into mean's rows of that sample. */
static void mean_of_heads(const struct attention_run *run, const real *o, size_t b, real *means)
{
    size_t N = run->N, d = run->d;
    const real part = (real)1 / (real)run->heads;

    for (size_t n = 0; n < N; n++) {
        real *mean = means + (n * run->B + b) * d;

        memset(mean, 0, d * sizeof *mean);
        for (size_t h = 0; h < run->heads; h++) {
            const real *in = o + (h * N + n) * d;
            uint8_t *keep = mask_at(run, b, h, n);

            if (keep)
                dropout_row(&run->dropout, run->site.name, (run->T - N + n) * run->site.stride + h * d, b, d, keep);
            for (size_t i = 0; i < d; i++)
                mean[i] += drop_value(keep, i, in[i], run->dropout.scale);
        }
        for (size_t i = 0; i < d; i++)
            mean[i] *= part;
    }
}

static void heads_backward(const struct attention_run *run, const real *d_mean, size_t b, real *d_o)
{
    size_t N = run->N, d = run->d;
    const real part = (real)1 / (real)run->heads;

    for (size_t h = 0; h < run->heads; h++)
        for (size_t n = 0; n < N; n++) {
            const real *in = d_mean + (n * run->B + b) * d;
            const uint8_t *keep = mask_at(run, b, h, n);
            real *out = d_o + (h * N + n) * d;

            for (size_t i = 0; i < d; i++)
                out[i] = drop_value(keep, i, in[i], run->dropout.scale) * part;
        }
}

/* One sample's q k^T, (heads, N, T). */
static void multiply_scores(struct queue *queue, const struct attention_run *run, size_t b, real *a)
{
    size_t H = run->heads * run->d, N = run->N, T = run->T;
    const struct product scores = { .a = matrix_of(run->q + b * H, run->B * H),
                                    .b = matrix_t(run->k + b * H, run->B * H),
                                    .M = N,
                                    .N = T,
                                    .K = run->d,
                                    .to = written(a, T),
                                    .batch = run->heads,
                                    .step_a = run->d,
                                    .step_b = run->d,
                                    .step_to = N * T };

    cpu_product(queue, &scores);
}

/* Mean of the heads' probabilities (N, T). */
static void mean_of_scores(struct queue *queue, const struct attention_run *run, const real *a, real *average)
{
    size_t n = run->N * run->T;
    const real part = (real)1 / (real)run->heads;

    memcpy(average, a, n * sizeof *a);
    for (size_t h = 1; h < run->heads; h++)
        cpu_add(queue, a + h * n, n, average);
    for (size_t i = 0; i < n; i++)
        average[i] *= part;
}

void cpu_attention(struct queue *queue, const struct attention_run *run, real *mean)
{
    size_t d = run->d, N = run->N, T = run->T, heads = run->heads, B = run->B;
    real *o = run->scratch, *average = o + heads * N * d;

    for (size_t b = 0; b < B; b++) {
        real *a = run->a + b * heads * N * T;
        struct matrix v = matrix_of(run->v + b * d, B * d);

        multiply_scores(queue, run, b, a);
        for (size_t h = 0; h < heads; h++)
            causal_softmax(a + h * N * T, N, T, run->padding ? run->padding[b] : 0, run->strict != 0, scale_of(run));
        if (run->mean_first && !run->dropout.threshold) {
            mean_of_scores(queue, run, a, average);
            cpu_multiply(queue, matrix_of(average, T), v, N, d, T, written(mean + b * d, B * d));
        } else {
            cpu_multiply(queue, matrix_of(a, T), v, heads * N, d, T, written(o, d));
            mean_of_heads(run, o, b, mean);
        }
    }
}

void cpu_attention_backward(struct queue *queue, const struct attention_run *run, const struct attention_gradient *to)
{
    size_t d = run->d, N = run->N, T = run->T, heads = run->heads, B = run->B, H = heads * d;
    real *d_o = run->scratch, *d_a = d_o + heads * N * d;

    for (size_t b = 0; b < B; b++) {
        const real *a = run->a + b * heads * N * T;

        heads_backward(run, to->d_mean, b, d_o);
        cpu_multiply(queue, matrix_of(d_o, d), matrix_t(run->v + b * d, B * d), heads * N, T, d, written(d_a, T));
        cpu_multiply(queue, matrix_t(a, T), matrix_of(d_o, d), T, d, heads * N, written(to->d_v + b * d, B * d));
        for (size_t h = 0; h < heads; h++) {
            size_t column = b * H + h * d;
            const real *d_scores = d_a + h * N * T;

            softmax_backward(a + h * N * T, d_a + h * N * T, N, T, scale_of(run));
            cpu_multiply(queue, matrix_of(d_scores, T), matrix_of(run->k + column, B * H), N, d, T,
                         written(to->d_q + column, B * H));
            cpu_multiply(queue, matrix_t(d_scores, T), matrix_of(run->q + column, B * H), T, d, N,
                         written(to->d_k + column, B * H));
        }
    }
}

size_t cpu_attention_scratch(size_t B, size_t T, size_t N, size_t heads, size_t d)
{
    (void)B;
    return heads * N * d + heads * N * T + N * T;
}
