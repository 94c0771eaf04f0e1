/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate finder: the steps, and a report of them.
 */
#include "tft/core/train/rate_finder.h"
#include "base/number_text.h"
#include "tft/core/run/run_length.h"
#include <math.h>

static const double first_rate = 1e-6, last_rate = 1,
                    too_much = 16; /* stop at this multiple of the lowest loss of a step */

static void write_report(FILE *report, const double *rates, const double *losses, size_t steps, double rate)
{
    enum { EVERY = 4 };

    fprintf(report, "learning rate   loss\n");
    for (size_t i = 0; i < steps; i += EVERY)
        halay_fprintf(report, "%13.2e   %.6g\n", rates[i], losses[i]);
    if (rate > 0)
        halay_fprintf(report, "learning_rate: %.1e\n", rate);
    else
        fprintf(report,
                "the loss did not fall at any rate: more samples a batch (batch_size), or other data, may help\n");
}

enum halay_status tft_find_learning_rate(struct tft_trainer *t, FILE *report, double *rate)
{
    double rates[TFT_RATE_FINDER_STEPS], losses[TFT_RATE_FINDER_STEPS], lowest = INFINITY;
    size_t steps = 0;
    enum halay_status status = tft_trainer_draw_order(t);

    while (!status && steps < TFT_RATE_FINDER_STEPS && !t->interrupted) {
        if (t->state.position == t->epoch_samples) {
            t->state.epoch++;
            t->state.position = 0;
            status = tft_trainer_draw_order(t);
        }
        rates[steps] = first_rate * pow(last_rate / first_rate, (double)steps / (TFT_RATE_FINDER_STEPS - 1));
        if (!status)
            status = tft_trainer_step(t, rates[steps]);
        losses[steps++] = t->numbers[TFT_STEP_LOSS];
        if (!isfinite(losses[steps - 1]) || losses[steps - 1] > tft_loss_times(t->data->loss, lowest, too_much))
            break;
        lowest = fmin(lowest, losses[steps - 1]);
    }
    if (status || t->interrupted)
        return status ? status : HALAY_ERR_CANCELED;
    *rate = tft_learning_rate_suggest(t->data->loss, rates, losses, steps);
    if (t->rank == 0)
        write_report(report, rates, losses, steps, *rate);
    return HALAY_OK;
}
