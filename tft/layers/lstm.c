/* SPDX-License-Identifier: Apache-2.0
 *
 * The input's product is made for all steps at once, before them; the gradients of W, U and x are products over all
 * steps, after them.
 */
#include "tft/layers/lstm.h"

static struct lstm_run run_of(const struct pass *pass, const struct lstm *lstm, const struct lstm_steps *steps)
{
    return (struct lstm_run){ .S = steps->S,
                              .B = pass->B,
                              .H = lstm->H,
                              .padding = steps->padding,
                              .u = pass->p + lstm->recurrent.w,
                              .gates = steps->gates,
                              .h = steps->h,
                              .c = steps->c };
}

void lstm_forward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps)
{
    size_t rows = steps.S * pass->B;
    const struct lstm_run run = run_of(pass, lstm, &steps);

    linear_forward(pass, &lstm->input, steps.x, rows, steps.gates);
    if (lstm->recurrent.b != TFT_NONE)
        kernel_rows_add(pass->queue, pass->p + lstm->recurrent.b, rows, 4 * lstm->H, steps.gates);
    kernel_lstm(pass->queue, &run);
}

void lstm_backward(const struct pass *pass, const struct lstm *lstm, struct lstm_steps steps,
                   const struct lstm_backward *d)
{
    size_t rows = steps.S * pass->B;
    const struct lstm_run run = run_of(pass, lstm, &steps);

    kernel_lstm_backward(
        pass->queue, &run,
        &(struct lstm_gradient){ .d_out = d->d_out, .d_h = d->d_h, .d_c = d->d_c, .scratch = d->scratch });
    linear_backward_kernel(pass, &lstm->recurrent, steps.h, steps.gates, rows, 0);
    linear_backward(pass, &lstm->input, steps.x, steps.gates, rows, 0, d->d_x, 1);
    if (lstm->recurrent.b != TFT_NONE)
        kernel_copy(pass->queue, pass->g + lstm->input.b, 4 * lstm->H, pass->g + lstm->recurrent.b);
}
