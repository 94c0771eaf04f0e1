/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of the trainer: this rank's granules, the sums over the ranks, the update.
 */
#include "base/clock.h"
#include "base/number_text.h"
#include "tft/core/kernels/call.h"
#include "tft/core/run/batches.h"
#include "tft/core/run/resident.h"
#include "tft/core/run/run_length.h"
#include "tft/core/train/sampler.h"
#include "tft/core/train/trainer.h"
#include <math.h>

/* Under 'deterministic: ranks' some ranks of an elastic job add zeros if their number is no power of two. */
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

static enum halay_status local_step(struct tft_trainer *t, const struct tft_gather *gather, size_t samples)
{
    size_t granule = tft_model_config(t->model)->granule, granules = (samples + granule - 1) / granule;
    size_t targets;
    enum halay_status status = tft_gather_targets(gather, 0, samples, &targets);

    if (status)
        return status;
    struct timed_gather timed = { gather, t->resident, &t->gathered_us };
    struct tft_step step = {
        .params = t->twin.params,
        .gradients = t->twin.gradients,
        .seed = (uint32_t)t->config->seed,
        .step = (uint32_t)t->state.step,
        .samples = samples,
        .loss_scale = targets ? 1.0 / (double)targets : 0,
        .fill = timed_fill,
        .fill_arg = &timed,
        .final = tft_exchange_is_alone(&t->exchange) ? NULL : tft_exchange_submit,
        .final_arg = &t->exchange,
    };
    int exact = t->config->deterministic == 2, ranks = ranks_that_compute(t);

    if (t->rank < ranks)
        status = tft_granules_of_rank(granules, t->rank, ranks, exact, &step.first, &step.count);

    if (!status)
        status = tft_step_run(t->workers, &step, &t->numbers[TFT_STEP_LOSS]);
    return status ? status : tft_exchange_status(&t->exchange);
}

/* average = decay average + (1 - decay) params; decay is at most (1 + step) / (10 + step), as in TensorFlow, so that
 * the first steps soon replace the initial values. Here this thread's share of the tensors. */
static void average_share(void *arg, int thread)
{
    struct tft_trainer *t = arg;
    double step = (double)t->state.step, decay = fmin(t->config->ema, (1 + step) / (10 + step));

    for (size_t i = (size_t)thread; i < t->table->count; i += (size_t)tft_pool_threads(t->pool)) {
        const struct tft_param *p = &t->table->params[i];
        kernel_average(t->adam.queues[thread], 1 - (double)(float)decay, t->twin.params + p->offset, p->count,
                       t->twin.average + p->offset);
    }
    kernel_to_host(t->adam.queues[thread], t->twin.average, 0, NULL); /* waits: copies are made on another queue */
}

static enum halay_status update(struct tft_trainer *t, double learning_rate)
{
    const struct tft_adam_peers peers = tft_exchange_peers(&t->exchange);

    t->adam.learning_rate = learning_rate;
    enum halay_status status =
        tft_adam_step(&t->adam, t->pool, t->table, t->twin.params, t->twin.gradients, &peers, &t->norm);
    if (!status)
        status = tft_exchange_finish(&t->exchange, tft_pool_threads(t->pool));
    if (!status && t->average)
        tft_pool_run(t->pool, average_share, t);
    return status;
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
    char time[80];

    if (!tft_run_length_fix(&t->limits, &now, &t->state.length) || t->rank != 0)
        return;
    tft_trainer_print_time(t, time);
    tft_progress_set_total(&t->progress, tft_trainer_steps(t), time);
    if (tft_run_length_is_short(t->state.length.steps, (size_t)t->config->hidden_size))
        tft_progress_say(&t->progress,
                         "%llu steps are few for 'hidden_size: %lld': 'hidden_size: 16', which is faster, or more "
                         "'max_time' gives better forecasts",
                         (unsigned long long)t->state.length.steps, (long long)t->config->hidden_size);
}

double tft_trainer_waited(struct tft_trainer *t)
{
    return (double)atomic_load_explicit(&t->exchange.waited_us, memory_order_relaxed) / 1e6 / tft_pool_threads(t->pool);
}

/* For whoever watches the job. They are valid names, and so few that none is refused. */
static void tell_gauges(struct tft_trainer *t)
{
    halay_gauge_set(t->ctx, "step", (double)t->state.step);
    halay_gauge_set(t->ctx, "samples", (double)t->state.samples / t->ranks); /* this rank's part */
    halay_gauge_set(t->ctx, "loss", t->numbers[TFT_STEP_LOSS]);
    halay_gauge_set(t->ctx, "waited_seconds", tft_trainer_waited(t));
}

enum halay_status tft_trainer_step(struct tft_trainer *t, double learning_rate)
{
    size_t left = t->epoch_samples - t->state.position, samples = left < t->batch ? left : t->batch;
    const struct tft_category_dropout dropout = { (uint32_t)t->config->seed, (uint32_t)t->state.step };
    const struct tft_gather gather = {
        .windows = &t->train, .numbers = t->order, .base = t->state.position, .dropout = &dropout
    };
    struct halay_request *request;
    enum halay_status status = local_step(t, &gather, samples);

    if (status)
        return status;
    t->numbers[TFT_STEP_INTERRUPT] = tft_stop_asked(t->options->stop) != 0;
    t->numbers[TFT_STEP_SECONDS] = t->rank == 0 ? tft_progress_seconds(&t->progress) : 0;
    status = halay_submit(t->numbers_tensor, NULL, NULL, &request);
    if (status)
        return status;
    status = update(t, learning_rate);
    enum halay_status summed = halay_wait(request, -1);
    halay_request_free(request);
    if (status || summed)
        return status ? status : summed;
    t->twin.is_ahead = t->twin.blocks != NULL;
    t->state.step++;
    t->state.samples += samples;
    t->state.position += samples;
    t->state.loss_sum += t->numbers[TFT_STEP_LOSS];
    t->state.loss_steps++;
    t->state.seconds = t->numbers[TFT_STEP_SECONDS];
    fix_length(t);
    tell_gauges(t);
    t->stop |= tft_trainer_is_over(t);
    t->interrupted |= t->numbers[TFT_STEP_INTERRUPT] > 0;
    return HALAY_OK;
}

enum halay_status tft_trainer_draw_order(struct tft_trainer *t)
{
    uint32_t seed = (uint32_t)t->config->seed, epoch = (uint32_t)t->state.epoch;

    tft_sampler_draw(seed, epoch, t->train.count, t->epoch_samples, t->order);
    return HALAY_OK;
}
