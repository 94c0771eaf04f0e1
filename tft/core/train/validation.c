/* SPDX-License-Identifier: Apache-2.0
 *
 * Validation: the scores of forecasts of the validation windows, and how many windows it takes.
 *
 * Under a limit of time a validation takes a two hundredth of it at most, so that twenty take a tenth. A few windows
 * are forecast before the first step, and rank 0's clock measures how long one takes; the state keeps that, so that all
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
                                    .gather = { .windows = &t->epoch.valid, .numbers = t->epoch.valid_order },
                                    .resident = t->resident,
                                    .params = params,
                                    .members = &t->made_of.members };
}

enum halay_status tft_trainer_validate(struct tft_trainer *t, struct tft_forecast_scores *result)
{
    struct tft_forecaster f = tft_trainer_forecaster(t, tft_blocks_best(&t->blocks));
    enum halay_status status = tft_forecaster_init(&f);

    if (!status)
        status = tft_forecast_scores_of(&f, t->epoch.valid_samples, result);
    tft_forecaster_fini(&f);
    return status;
}

size_t tft_trainer_windows_within(const struct tft_trainer *t, double seconds)
{
    double pace = t->state.window_seconds * (double)(t->made_of.members.count + 1);

    if (!(t->limits.seconds > 0) || !(pace > 0) || seconds >= pace * (double)t->epoch.valid.count)
        return SIZE_MAX;
    return seconds > pace * WINDOWS_MIN ? (size_t)(seconds / pace) : WINDOWS_MIN;
}

/* Returns the seconds that the calibration of all members takes, a tenth of the limit at most; 0: without one. */
static double calibration_seconds(const struct tft_trainer *t)
{
    const struct tft_schema *s = &t->data->schema;
    double windows = (double)t->epoch.valid.count * (double)s->stride / (double)s->horizon; /* a horizon apart */
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
    enum halay_status status;

    t->epoch.valid_max = WINDOWS_MIN;
    if ((status = tft_blocks_download(&t->blocks)) || (status = tft_trainer_list_windows(t)))
        return status;
    const int64_t began = halay_now_us();
    status = tft_trainer_validate(t, &result);
    tft_forecast_scores_fini(&result);
    double seconds = (double)(halay_now_us() - began + 1) / 1e6;
    if (status || (t->ranks > 1 && (status = halay_broadcast(t->ctx, "validation pace", &seconds, 1, HALAY_F64, 0))))
        return status;
    t->state.window_seconds = seconds / (double)t->epoch.valid_samples;
    tft_trainer_reserve(t);
    return HALAY_OK;
}

enum halay_status tft_trainer_fit_validation(struct tft_trainer *t)
{
    const size_t before = t->epoch.valid_samples;
    const int is_new = !(t->state.window_seconds > 0);
    char time[80];

    if (!(t->limits.seconds > 0) || !before)
        return HALAY_OK;
    enum halay_status status = is_new ? measure(t) : HALAY_OK;
    if (status == HALAY_ERR_CANCELED) {
        t->interrupted = 1;
        return HALAY_OK;
    }
    const size_t max = tft_trainer_windows_within(t, t->limits.seconds / PART);
    if (status || (!is_new && max == t->epoch.valid_max))
        return status;
    t->epoch.valid_max = max;
    status = tft_trainer_list_windows(t);
    if (!status && t->rank == 0 && t->epoch.valid_samples < before) {
        tft_trainer_print_time(t, time);
        tft_say(&t->report.listener, "a validation takes %zu of %zu windows, which fit in a 200th of %s",
                t->epoch.valid_samples, before, time);
    }
    return status;
}
