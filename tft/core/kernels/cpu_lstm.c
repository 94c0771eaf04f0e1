/* SPDX-License-Identifier: Apache-2.0
 *
 * An LSTM's steps. The input's product is there for all of them; each adds the recurrent product to its rows in place.
 * Backward, the gates' gradients overwrite the gates; only d_h_(t-1) = d_gates U^T is left to the steps, with a copy of
 * U transposed once, unless products round U anyway.
 */
#include "tft/core/kernels/cpu.h"
#include "tft/core/kernels/formulas.h"

/* One step's element-wise part, one sample a row: gates (B, 4 H) from sums to activations. */
TFT_VECTOR static void step(real *restrict gates, const real *restrict c_before, size_t B, size_t H, real *restrict c,
                            real *restrict h)
{
    for (size_t b = 0; b < B; b++) {
        real *gi = gates + b * 4 * H, *gf = gi + H, *gg = gf + H, *go = gg + H;

        for (size_t k = 0; k < H; k++) {
            real i = real_sigmoid(gi[k]), f = real_sigmoid(gf[k]), g = real_tanh(gg[k]), o = real_sigmoid(go[k]);
            real cell = lstm_c(i, f, g, c_before[b * H + k]);

            gi[k] = i;
            gf[k] = f;
            gg[k] = g;
            go[k] = o;
            c[b * H + k] = cell;
            h[b * H + k] = o * real_tanh(cell);
        }
    }
}

/* d_c in: gradient of c_t from the step after it; out: of c_(t-1). */
TFT_VECTOR static void step_backward(real *restrict gates, const real *restrict c_before, const real *restrict c,
                                     const real *restrict d_h, const real *restrict d_out, size_t B, size_t H,
                                     real *restrict d_c)
{
    for (size_t b = 0; b < B; b++) {
        real *gi = gates + b * 4 * H, *gf = gi + H, *gg = gf + H, *go = gg + H;

        for (size_t k = 0; k < H; k++) {
            struct lstm_unit_gradient d =
                lstm_unit_backward(gi[k], gf[k], gg[k], go[k], c[b * H + k], c_before[b * H + k],
                                   d_h[b * H + k] + d_out[b * H + k], d_c[b * H + k]);

            gi[k] = d.i;
            gf[k] = d.f;
            gg[k] = d.g;
            go[k] = d.o;
            d_c[b * H + k] = d.c;
        }
    }
}

/* Step t of the samples for which it does not exist: the state passes. */
static void pass_state(const size_t *padding, size_t t, size_t B, size_t H, const real *before, real *after)
{
    for (size_t b = 0; b < B; b++)
        if (t < padding[b])
            memcpy(after + b * H, before + b * H, H * sizeof *after);
}

static void zero_padded(const size_t *padding, size_t t, size_t B, size_t W, real *rows)
{
    for (size_t b = 0; b < B; b++)
        if (t < padding[b])
            memset(rows + b * W, 0, W * sizeof *rows);
}

/* to (C, R) is the transpose of from (R, C), a few rows at a time: what is written then stays in the cache. */
static void transpose(const real *from, size_t R, size_t C, real *to)
{
    enum { ROWS = 16 };

    for (size_t r = 0; r < R; r += ROWS)
        for (size_t c = 0; c < C; c++)
            for (size_t i = r; i < R && i < r + ROWS; i++)
                to[c * R + i] = from[i * C + c];
}

void cpu_lstm(struct queue *queue, const struct lstm_run *run)
{
    size_t H = run->H, B = run->B;

    for (size_t t = 0; t < run->S; t++) {
        size_t before = t * B * H, after = before + B * H;
        real *gates = run->gates + 4 * before;

        cpu_multiply(queue, matrix_of(run->h + before, H), matrix_of(run->u, 4 * H), B, 4 * H, H, added(gates, 4 * H));
        step(gates, run->c + before, B, H, run->c + after, run->h + after);
        if (run->padding) {
            pass_state(run->padding, run->first + t, B, H, run->h + before, run->h + after);
            pass_state(run->padding, run->first + t, B, H, run->c + before, run->c + after);
        }
    }
}

void cpu_lstm_backward(struct queue *queue, const struct lstm_run *run, const struct lstm_gradient *d)
{
    size_t H = run->H, B = run->B;
    int rounds = queue->needs.bf16;                            /* then U is rounded once a step, transposed */
    real *copy = d->scratch;                                   /* (4 H, H): U transposed */
    real *kept_h = copy + 4 * H * H, *kept_c = kept_h + B * H; /* (B, H) */
    struct matrix u_t = rounds ? matrix_t(run->u, 4 * H) : matrix_of(copy, H);

    if (!rounds && !d->goes_on)
        transpose(run->u, H, 4 * H, copy);
    for (size_t t = run->S; t-- > 0;) {
        size_t before = t * B * H, after = before + B * H;
        real *gates = run->gates + 4 * before;

        if (run->padding) {
            memcpy(kept_h, d->d_h, B * H * sizeof *kept_h);
            memcpy(kept_c, d->d_c, B * H * sizeof *kept_c);
        }
        step_backward(gates, run->c + before, run->c + after, d->d_h, d->d_out + before, B, H, d->d_c);
        if (run->padding)
            zero_padded(run->padding, run->first + t, B, 4 * H, gates);
        cpu_multiply(queue, matrix_of(gates, 4 * H), u_t, B, H, 4 * H, written(d->d_h, H));
        if (run->padding) {
            pass_state(run->padding, run->first + t, B, H, kept_h, d->d_h);
            pass_state(run->padding, run->first + t, B, H, kept_c, d->d_c);
        }
    }
}

size_t cpu_lstm_scratch(size_t S, size_t B, size_t H)
{
    (void)S;
    return (4 * H + 2 * B) * H;
}
