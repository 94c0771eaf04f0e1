/* SPDX-License-Identifier: Apache-2.0
 *
 * Validation: the scores of forecasts of the validation windows, and how many windows it takes.
 *
 * Under a limit of time a validation takes a two hundredth of it at most, so that twenty take a tenth. A few windows
 * are forecast before the first step, and rank 0's clock says how long one takes; the state keeps that, so that all
 * ranks, ranks that join later, and a training that resumes validate the same windows.
 */
#include "base/clock.h"
#include "tft/core/train/trainer.h"
#include <math.h>

/* Windows that are forecast to measure, and the fewest of a validation; its part of the time. */
enum { WINDOWS_MIN = 64, PART = 200 };

struct tft_forecaster tft_trainer_forecaster(const struct tft_trainer *t, const float *params)
{
    return (struct tft_forecaster){ .log = t->log,
                                    .ctx = t->ctx,
                                    .stop = t->options->stop,
                                    .model = t->model,
                                    .workers = t->workers,
                                    .gather = { .windows = &t->valid, .numbers = t->valid_order },
                                    .params = params,
                                    .members = &t->members };
}

enum halay_status tft_trainer_validate(struct tft_trainer *t, struct tft_forecast_scores *result)
{
    struct tft_forecaster f = tft_trainer_forecaster(t, tft_trainer_best_params(t));
    enum halay_status status = tft_forecaster_init(&f);

    if (!status)
        status = tft_forecast_scores_of(&f, t->valid_samples, result);
    tft_forecaster_fini(&f);
    return status;
}

size_t tft_trainer_windows_within(const struct tft_trainer *t, double seconds)
{
    double pace = t->state.window_seconds * (double)(t->members.count + 1);

    if (!(t->limits.seconds > 0) || !(pace > 0) || seconds >= pace * (double)t->valid.count)
        return SIZE_MAX;
    return seconds > pace * WINDOWS_MIN ? (size_t)(seconds / pace) : WINDOWS_MIN;
}

/* Seconds that the calibration of all members takes, a tenth of the limit at most; 0: there is none. */
static double calibration_seconds(const struct tft_trainer *t)
{
    const struct tft_schema *s = &t->data->schema;
    double windows = (double)t->valid.count * (double)s->stride / (double)s->horizon; /* a horizon apart */
    double all = t->state.window_seconds * (double)t->config->members * windows;

    if (!t->config->calibrate || t->options->is_member)
        return 0;
    return fmin(all, t->limits.seconds / TFT_CALIBRATION_PART);
}

void tft_trainer_reserve(struct tft_trainer *t)
{
    t->limits.reserved = calibration_seconds(t);
}

/* All ranks get what rank 0 measures. */
static enum halay_status measure(struct tft_trainer *t)
{
    struct tft_forecast_scores result = { 0 };
    enum halay_status status = tft_trainer_bring(t);
    double seconds;

    t->valid_max = WINDOWS_MIN;
    if (!status)
        status = tft_trainer_list_windows(t);
    int64_t began = halay_now_us();
    if (!status)
        status = tft_trainer_validate(t, &result);
    tft_forecast_scores_fini(&result);
    seconds = (double)(halay_now_us() - began + 1) / 1e6;
    if (!status && t->ranks > 1)
        status = halay_broadcast(t->ctx, "validation pace", &seconds, 1, HALAY_F64, 0);
    if (!status)
        t->state.window_seconds = seconds / (double)t->valid_samples;
    tft_trainer_reserve(t);
    return status;
}

enum halay_status tft_trainer_fit_validation(struct tft_trainer *t)
{
    size_t before = t->valid_samples;
    int is_new = !(t->state.window_seconds > 0);
    char time[80];
    enum halay_status status = HALAY_OK;

    if (!(t->limits.seconds > 0) || !t->valid_samples)
        return HALAY_OK;
    if (is_new)
        status = measure(t);
    size_t most = tft_trainer_windows_within(t, t->limits.seconds / PART);
    if (status == HALAY_ERR_CANCELED) {
        t->interrupted = 1;
        return HALAY_OK;
    }
    if (status || (!is_new && most == t->valid_max))
        return status;
    t->valid_max = most;
    status = tft_trainer_list_windows(t);
    if (!status && t->rank == 0 && t->valid_samples < before) {
        tft_trainer_print_time(t, time);
        tft_progress_say(&t->progress, "a validation takes %zu of %zu windows, which fit in a 200th of %s",
                         t->valid_samples, before, time);
    }
    return status;
}
