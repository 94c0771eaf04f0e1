/* SPDX-License-Identifier: Apache-2.0
 *
 * Block by block of steps: the input's product, then the steps, while its rows are near; backward, the steps, then the
 * products that give the gradients of W, U and x. Where rows of x are known to repeat, the input's product is made of
 * those that differ.
 */
#include "tft/core/layers/lstm.h"

/* Returns a run of the steps from `at` on, at most `most`. Without backward, a block's gates are not read later, so all
 * blocks use the memory of the first. */
static struct lstm_run run_of(const struct pass *pass, const struct lstm *lstm, const struct lstm_steps *steps,
                              size_t at, size_t most)
{
    size_t before = at * pass->B * lstm->H;

    return (struct lstm_run){ .S = steps->S - at < most ? steps->S - at : most,
                              .B = pass->B,
                              .H = lstm->H,
                              .first = at,
                              .padding = steps->padding,
                              .u = pass->p + lstm->recurrent.w,
                              .gates = steps->gates + (pass->g ? 4 * before : 0),
                              .h = steps->h + before,
                              .c = steps->c + before };
}

static void input_product(const struct pass *pass, const struct lstm *lstm, const real *x, size_t R, real *gates)
{
    linear_forward(pass, &lstm->input, x, R, gates);
    if (lstm->recurrent.b != TFT_NONE)
        kernel_rows_add(pass->queue, pass->p + lstm->recurrent.b, R, 4 * lstm->H, gates);
}

/* Returns the product of the distinct rows, stored after the gates of a block of R rows; NULL if they are not known, or
 * do not fit. */
static const real *distinct_product(const struct pass *pass, const struct lstm *lstm, const struct lstm_steps *steps,
                                    size_t R)
{
    real *made = steps->gates + 4 * R * lstm->H;

    if (!steps->count || steps->count > steps->S * pass->B - R)
        return NULL;
    input_product(pass, lstm, steps->distinct, steps->count, made);
    return made;
}

void lstm_forward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps)
{
    size_t B = pass->B, block = block_rows(pass, steps.S * B) / B;
    const real *made = distinct_product(pass, lstm, &steps, block * B);

    for (size_t at = 0; at < steps.S; at += block) {
        const struct lstm_run run = run_of(pass, lstm, &steps, at, block);

        if (made)
            kernel_rows_take(pass->queue, made, steps.places + at * B, run.S * B, 4 * lstm->H, run.gates);
        else
            input_product(pass, lstm, steps.x + at * B * lstm->H, run.S * B, run.gates);
        kernel_lstm(pass->queue, &run);
    }
}

void lstm_backward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps,
                   const struct lstm_backward *d)
{
    size_t B = pass->B, block = block_rows(pass, steps.S * B) / B;

    for (size_t end = steps.S; end > 0; end -= end < block ? end : block) {
        size_t at = end < block ? 0 : end - block, before = at * B * lstm->H;
        const struct lstm_run run = run_of(pass, lstm, &steps, at, end - at);
        int add = end < steps.S;

        kernel_lstm_backward(pass->queue, &run,
                             &(struct lstm_gradient){ .d_out = d->d_out + before,
                                                      .d_h = d->d_h,
                                                      .d_c = d->d_c,
                                                      .goes_on = add,
                                                      .scratch = pass_acts(pass, d->scratch) });
        linear_backward_kernel(pass, &lstm->recurrent, run.h, run.gates, run.S * B, add);
        linear_backward(pass, &lstm->input, steps.x + before, run.gates, run.S * B, add, d->d_x + before, 1);
    }
    if (lstm->recurrent.b != TFT_NONE)
        kernel_copy(pass->queue, pass->g + lstm->input.b, 4 * lstm->H, pass->g + lstm->recurrent.b);
}
