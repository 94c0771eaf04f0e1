/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of the trainer: this rank's granules, the sums over the ranks, the update.
 */
#include "base/clock.h"
#include "base/number_text.h"
#include "halay_tools.h"
#include "tft/core/kernels/call.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/resident.h"
#include "tft/core/run/run_length.h"
#include "tft/core/train/trainer.h"
#include <math.h>

/* Under 'deterministic: ranks' some ranks of an elastic job add zeros unless their number is a power of two. */
static int ranks_that_compute(const struct tft_trainer *t)
{
    int ranks = t->ranks;

    while (t->config->deterministic == 2 && (ranks & (ranks - 1)))
        ranks &= ranks - 1;
    return ranks;
}

/* The filling of a batch, with the time it takes. */
struct timed_gather {
    const struct tft_gather *gather;
    const struct tft_resident *resident;
    atomic_llong *microseconds;
};

static enum halay_status timed_fill(void *arg, int thread, struct tft_batch *batch)
{
    const struct timed_gather *timed = arg;
    int64_t began = halay_now_us();
    enum halay_status status = timed->resident ? tft_resident_fill(timed->resident, timed->gather, thread, batch)
                                               : tft_gather_fill((void *)timed->gather, thread, batch);

    atomic_fetch_add_explicit(timed->microseconds, halay_now_us() - began, memory_order_relaxed);
    return status;
}

enum halay_status tft_step_sums_init(struct tft_trainer *t)
{
    const struct halay_tensor_info info = { .struct_size = sizeof info,
                                            .name = "step",
                                            .collective = HALAY_ALLREDUCE,
                                            .dtype = HALAY_F64,
                                            .dimensions = 1,
                                            .shape = { TFT_STEP_NUMBERS },
                                            .out = t->sums.numbers,
                                            .reduction = HALAY_SUM };

    return halay_register(t->ctx, &info, &t->sums.tensor);
}

/* Computes this rank's granules, and submits their gradients. */
static enum halay_status local_step(struct tft_trainer *t, const struct tft_gather *gather, size_t samples)
{
    size_t granule = tft_model_config(t->model)->granule, granules = (samples + granule - 1) / granule;
    const int is_alone = tft_exchange_is_alone(&t->exchange);
    size_t targets;
    enum halay_status status = tft_gather_targets(gather, 0, samples, &targets);

    if (status)
        return status;
    struct timed_gather timed = { gather, t->resident, &t->sums.gathered_us };
    struct tft_step step = {
        .params = t->blocks.device.params,
        .gradients = t->exchange.d_gradients,
        .seed = (uint32_t)t->config->seed,
        .step = (uint32_t)t->state.step,
        .samples = samples,
        .loss_scale = targets ? 1.0 / (double)targets : 0,
        .fill = timed_fill,
        .fill_arg = &timed,
        .final = is_alone ? NULL : tft_exchange_submit,
        .final_arg = &t->exchange,
    };
    int exact = t->config->deterministic == 2, ranks = ranks_that_compute(t);

    if ((t->rank < ranks &&
         (status = tft_granules_of_rank(granules, t->rank, ranks, exact, &step.first, &step.count))) ||
        (status = tft_step_run(t->workers, &step, is_alone ? NULL : &t->sums.numbers[TFT_STEP_LOSS])))
        return status;
    return tft_exchange_status(&t->exchange);
}

/* average = decay average + (1 - decay) params, of n reals at `at`; decay is at most (1 + step) / (10 + step), as in
 * TensorFlow, so that the first steps soon replace the initial values. */
static void average_reals(struct tft_trainer *t, int thread, size_t at, size_t n)
{
    double step = (double)t->state.step, decay = fmin(t->config->ema, (1 + step) / (10 + step));

    kernel_average(t->adam.queues[thread], 1 - (double)(float)decay, t->blocks.device.params + at, n,
                   t->blocks.device.average + at);
}

/* Averages this thread's share of the tensors; a device's one thread the whole block. */
static void average_share(void *arg, int thread)
{
    struct tft_trainer *t = arg;

    if (tft_blocks_are_apart(&t->blocks)) {
        average_reals(t, thread, 0, t->table->reals);
        return;
    }
    for (size_t i = (size_t)thread; i < t->table->count; i += (size_t)tft_pool_threads(t->pool))
        average_reals(t, thread, t->table->params[i].offset, t->table->params[i].count);
}

static enum halay_status update_params(struct tft_trainer *t, double learning_rate)
{
    const struct tft_adam_peers peers = tft_exchange_peers(&t->exchange);

    enum halay_status status;

    t->adam.learning_rate = learning_rate;
    if ((status = tft_adam_step(&t->adam, t->pool, t->table, t->blocks.device.params, t->exchange.d_gradients, &peers,
                                &t->sums.norm)) ||
        (status = tft_exchange_finish(&t->exchange, tft_pool_threads(t->pool))))
        return status;
    if (t->blocks.host.average)
        tft_pool_run(t->pool, average_share, t);
    return HALAY_OK;
}

static struct tft_moment moment_of(const struct tft_trainer *t, uint64_t step)
{
    return (struct tft_moment){ step, t->state.seconds };
}

uint64_t tft_trainer_steps(const struct tft_trainer *t)
{
    const struct tft_moment now = moment_of(t, t->state.step);

    return tft_run_length_steps(&t->limits, &t->state.length, &now);
}

static double rate_of_step(const struct tft_trainer *t, uint64_t step)
{
    const struct tft_moment at = moment_of(t, step);

    return tft_run_length_rate(&t->limits, &t->state.length, &at, t->config->learning_rate);
}

double tft_trainer_rate(const struct tft_trainer *t)
{
    return rate_of_step(t, t->state.step);
}

/* A run that was resumed or restored may be over, but for an evaluation that is due. */
int tft_trainer_is_over(const struct tft_trainer *t)
{
    const struct tft_moment now = moment_of(t, t->state.step);

    return t->state.in_vain >= t->config->patience || tft_run_length_is_over(&t->limits, &t->state.length, &now);
}

void tft_trainer_set_adam(struct tft_trainer *t)
{
    t->adam.step = t->state.step;
    if (t->state.step) /* an evaluation that is due reports it */
        t->adam.learning_rate = rate_of_step(t, t->state.step - 1);
}

void tft_trainer_print_time(const struct tft_trainer *t, char text[80])
{
    if (t->limits.seconds < t->config->max_time)
        halay_snprintf(text, 80, "%g of the %g s of 'max_time'", t->limits.seconds, t->config->max_time);
    else
        halay_snprintf(text, 80, "the %g s of 'max_time'", t->config->max_time);
}

static void fix_length(struct tft_trainer *t)
{
    const struct tft_moment now = moment_of(t, t->state.step);

    if (!tft_run_length_fix(&t->limits, &now, &t->state.length) || t->rank != 0)
        return;
    tft_report_total(t);
    if (tft_run_length_is_short(t->state.length.steps, (size_t)t->config->hidden_size))
        tft_say(&t->report.listener,
                "%llu steps are few for 'hidden_size: %lld': 'hidden_size: 16', which is faster, or more "
                "'max_time' gives better forecasts",
                (unsigned long long)t->state.length.steps, (long long)t->config->hidden_size);
}

double tft_trainer_waited(struct tft_trainer *t)
{
    return (double)atomic_load_explicit(&t->exchange.waited_us, memory_order_relaxed) / 1e6 / tft_pool_threads(t->pool);
}

/* Sets gauges for programs that watch the job. The names are valid, and too few for one to be rejected. */
static void set_gauges(struct tft_trainer *t)
{
    halay_gauge_set(t->ctx, "step", (double)t->state.step);
    halay_gauge_set(t->ctx, "samples", (double)t->state.samples / t->ranks); /* this rank's part */
    halay_gauge_set(t->ctx, "loss", t->sums.numbers[TFT_STEP_LOSS]);
    halay_gauge_set(t->ctx, "waited_seconds", tft_trainer_waited(t));
}

/* Sends this rank's numbers to the others. */
static enum halay_status submit_sums(struct tft_trainer *t, struct halay_request **request)
{
    t->sums.numbers[TFT_STEP_INTERRUPT] = tft_stop_asked(t->options->stop) != 0;
    t->sums.numbers[TFT_STEP_SECONDS] = t->rank == 0 ? tft_report_seconds(&t->report) : 0;
    return halay_submit(t->sums.tensor, NULL, NULL, request);
}

static enum halay_status wait_for_sums(struct halay_request *request)
{
    enum halay_status status = halay_wait(request, -1);

    halay_request_free(request);
    return status;
}

/* The numbers are summed while the parameters are updated. */
static enum halay_status finish_step(struct tft_trainer *t, double learning_rate)
{
    struct halay_request *request;
    enum halay_status status = submit_sums(t, &request), summed;

    if (status)
        return status;
    status = update_params(t, learning_rate);
    summed = wait_for_sums(request);
    return status ? status : summed;
}

/* The only rank waits for its device once: its loss is read with the update's norms. */
static enum halay_status finish_alone(struct tft_trainer *t, double learning_rate)
{
    struct halay_request *request;
    enum halay_status status = update_params(t, learning_rate);

    if (status)
        return status;
    t->sums.numbers[TFT_STEP_LOSS] = tft_step_loss(t->workers);
    status = submit_sums(t, &request);
    return status ? status : wait_for_sums(request);
}

enum halay_status tft_trainer_step(struct tft_trainer *t, double learning_rate)
{
    size_t left = t->epoch.samples - t->state.position, samples = left < t->batch ? left : t->batch;
    const struct tft_category_dropout dropout = { (uint32_t)t->config->seed, (uint32_t)t->state.step };
    const struct tft_gather gather = {
        .windows = &t->epoch.train, .numbers = t->epoch.order, .base = t->state.position, .dropout = &dropout
    };
    enum halay_status status = local_step(t, &gather, samples);

    if (!status)
        status = tft_exchange_is_alone(&t->exchange) ? finish_alone(t, learning_rate) : finish_step(t, learning_rate);
    if (status)
        return status;
    t->blocks.is_ahead = tft_blocks_are_apart(&t->blocks);
    t->state.step++;
    t->state.samples += samples;
    t->state.position += samples;
    t->state.loss_sum += t->sums.numbers[TFT_STEP_LOSS];
    t->state.loss_steps++;
    t->state.seconds = t->sums.numbers[TFT_STEP_SECONDS];
    fix_length(t);
    set_gauges(t);
    t->stop |= tft_trainer_is_over(t);
    t->interrupted |= t->sums.numbers[TFT_STEP_INTERRUPT] > 0;
    return HALAY_OK;
}

void tft_trainer_draw_order(struct tft_trainer *t)
{
    tft_epoch_draw(&t->epoch, (uint32_t)t->config->seed, (uint32_t)t->state.epoch);
}
