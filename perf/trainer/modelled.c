/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft-modelled: how fast the CUDA kernels may be on a GPU. A formula, no measurement: it counts what a step
 * launches (perf/trainer/counted.h) and supposes how long that takes.
 *
 *     a launch    the longest of its bytes, its products' operations and dropout's instructions, at the share of the
 *                 data sheet's rates that well-made kernels reach; a step of a recurrence takes a time of its own,
 *                 since it waits for the one before
 *     fastest     FASTEST_LAUNCH more, in a CUDA graph, and FASTEST_STEP
 *     slowest     ABOVE_FLOOR times as long, SLOWEST_LAUNCH more, and SLOWEST_STEP
 *
 * ABOVE_FLOOR is what a real program was found above such a floor: NVIDIA's TFT (hidden size 128, batch 1024, mixed
 * precision) makes 17,608 samples/s on an A100 with 1.555 TB/s (its README, release 22.11). Run operation by operation
 * it moves 29.4 MB a sample, which is 47,600 samples/s at the same share of the rate. A step of an LSTM of 160 units
 * in bf16: a block reads all of U, 204,800 bytes, from shared memory, 1,600 cycles, and the other factor for each warp,
 * 200 for 8 samples (backward 800); activations take 10 operations of the special function unit a cell, 16 a cycle, 800
 * for 8 samples (backward 160). At 1.755 GHz the longest of them is .9 us; all of them, of 16 samples, are 2.1 us.
 *
 * What the formula leaves out has limits that tests hold: dependent loads and scattered ones (tests/cuda/test_kernels.c
 * wide: accesses of a thread, sectors of a warp) and matrices that are not aligned (EMU_ALIGNMENT=16).
 */
#include "base/options.h"
#include "base/parse.h"
#include "perf/trainer/counted.h"
#include "perf/trainer/synthetic.h"
#include "tft/core/model/model_impl.h"
#include "tft/core/train/adam.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FASTEST_LAUNCH 1.3e-6
#define SLOWEST_LAUNCH 2.6e-6
#define FASTEST_STEP 0.9e-6
#define SLOWEST_STEP 2.1e-6
#define ABOVE_FLOOR 2.7
#define REACHED_BYTES 0.9
#define REACHED_FLOPS 0.8

enum { KERNELS_MOST = 64 };

/* By its data sheet: bytes/s of its memory, instructions/s of its threads (132 multiprocessors, 128 lanes, 1.755 GHz),
 * operations/s of its cores in f32 and of its tensor cores in the others. */
struct gpu {
    const char *name;
    double bytes, instructions, flops[TFT_TF32 + 1];
};

static const struct gpu gpus[] = { { "H100 SXM", 3.35e12, 29.7e12, { 67e12, 989e12, 494e12 } },
                                   { "H200", 4.8e12, 29.7e12, { 67e12, 989e12, 494e12 } } };
static const long batches[] = { 64, 256, 1024 };

enum { GPUS = sizeof gpus / sizeof *gpus, BATCHES = sizeof batches / sizeof *batches };

static const char *const dtype_names[] = { [TFT_F32] = "f32", [TFT_BF16] = "bf16", [TFT_TF32] = "tf32", NULL };

struct options {
    long hidden, batch; /* batch 0: all of batches */
    double dropout;
    int dtype, is_evaluation, by_kernel;
};

static int take_hidden(const struct halay_option *option, const char *value, void *at, char *why, size_t size)
{
    long hidden;

    (void)option;
    if (halay_parse_long(value, 4, 4096, &hidden) || hidden % 4) {
        snprintf(why, size, "'%s' is no multiple of 4 from 4 to 4096", value);
        return 0;
    }
    *(long *)at = hidden;
    return 1;
}

#define SETS(member) HALAY_OPTION_SETS(options, member)

static const struct halay_option option_table[] = {
    { "--evaluate", NULL, NULL, "forecasts and their loss instead of training steps", HALAY_OPTION_FLAG,
      SETS(is_evaluation) },
    { "--batch", NULL, "N", "samples of a step (64, 256 and 1024)", HALAY_OPTION_NUMBER, SETS(batch), .min = 1,
      .max = 4096 },
    { "--hidden", NULL, "N", "hidden size, a multiple of 4 (160)", HALAY_OPTION_TAKEN, SETS(hidden),
      .take = take_hidden },
    { "--dropout", NULL, "P", "dropout rate (0.1)", HALAY_OPTION_REAL, SETS(dropout), .max = 0.99 },
    { "--dtype", NULL, NULL, "the factors of matrix products (bf16)", HALAY_OPTION_CHOICE, SETS(dtype),
      .choices = dtype_names },
    { "--by-kernel", NULL, NULL, "also what each kernel has of it, on the last GPU and batch", HALAY_OPTION_FLAG,
      SETS(by_kernel) },
    { .name = NULL },
};

/* 0: go on; otherwise *code is the exit status. */
static int parse(struct options *options, char **argv, int *code)
{
    static const struct halay_command_line line = {
        .command = "halay-tft-modelled",
        .synopsis = "[OPTION]...",
        .about = "How fast training steps of the Electricity configuration may be on GPUs: a formula, not measured.",
        .table = option_table,
    };
    char why[512];

    *options = (struct options){ .hidden = 160, .dropout = 0.1, .dtype = TFT_BF16 };
    enum halay_parsed parsed = halay_command_line_parse(&line, argv, options, stdout, why, sizeof why);
    if (parsed == HALAY_PARSED_WRONG)
        fprintf(stderr, "halay-tft-modelled: %s\n", why);
    *code = parsed == HALAY_PARSED_WRONG ? EXIT_USAGE : EXIT_SUCCESS;
    return parsed != HALAY_PARSED;
}

/* ---- what a step launches ---------------------------------------------------------------------------------------- */

/* Of a step: the launches of the model's queue, then those of the optimizer's. */
struct step {
    struct tft_model *model; /* owned, as what follows */
    struct tft_workspace *workspace;
    struct tft_pool *pool;
    struct tft_adam adam;
    real *blocks; /* addresses of parameters, gradients and moments */
    const struct counted_launch *launches[2];
    size_t counts[2];
};

static void ignore(void *arg, size_t param)
{
    (void)arg;
    (void)param;
}

static void step_fini(struct step *step)
{
    tft_adam_fini(&step->adam);
    tft_workspace_destroy(step->workspace);
    tft_pool_destroy(step->pool);
    tft_model_destroy(step->model);
    tft_kernels_counted()->release(step->blocks);
}

static enum halay_status step_prepare(struct step *step, struct halay_log *log, const struct options *options,
                                      size_t batch)
{
    struct tft_model_config config;

    tft_synthetic_electricity(&config);
    config.H = (size_t)options->hidden;
    config.dropout = options->dropout;
    config.dtype = (enum tft_dtype)options->dtype;
    config.granule = batch;
    config.device = (struct tft_device){ .kernels = tft_kernels_counted() };
    enum halay_status status = tft_model_create(log, &config, &step->model);
    if (status)
        return status;
    status = tft_pool_create(log, 1, &step->pool);
    if (!status)
        status = tft_workspace_create(log, step->model, &step->workspace);
    step->blocks = tft_kernels_counted()->alloc(4 * tft_model_params(step->model)->reals * sizeof *step->blocks);
    if (!status && !step->blocks)
        status = HALAY_ERR_NO_MEMORY;
    return status;
}

/* Windows of rows that lie on the device; where does not matter. */
static void cut_windows(const struct step *step, struct tft_batch *batch)
{
    const struct tft_model_config *config = tft_model_config(step->model);
    const struct tft_columns *columns = tft_model_columns(step->model);
    const void *rows = step->blocks;
    const struct windows_data data = { .E = config->E,
                                       .D = config->D,
                                       .O = columns->targets,
                                       .reals = columns->reals,
                                       .cats = columns->cats,
                                       .statics = columns->static_reals,
                                       .static_cats = columns->static_cats,
                                       .values = rows,
                                       .weights = rows };
    const struct windows_run run = { .data = &data,
                                     .B = batch->B,
                                     .places = rows,
                                     .scaled_by = rows,
                                     .reals = batch->there->reals,
                                     .targets = batch->there->targets,
                                     .weights = batch->there->weights,
                                     .offsets = batch->there->offsets,
                                     .units = batch->there->units };

    kernel_to_device(batch->queue, batch->lengths, batch->B * sizeof *run.places, step->blocks);
    kernel_windows_take(batch->queue, &run);
    batch->is_there = 1;
}

static enum halay_status step_count(struct step *step, const struct options *options, size_t batch)
{
    size_t reals = tft_model_params(step->model)->reals;
    real *gradients = step->blocks + reals;
    const struct tft_pass pass = { .params = step->blocks, .loss_scale = 1, .final = ignore };
    struct tft_batch *samples = tft_workspace_batch(step->workspace, batch, 0);
    enum halay_status status = HALAY_OK;
    const real *forecast;
    double loss;

    if (options->is_evaluation)
        status = tft_synthetic_fill(step->model, 0, samples);
    else
        cut_windows(step, samples);
    if (!status && options->is_evaluation) {
        tft_model_predict(step->workspace, &pass, &forecast, &loss);
    } else if (!status) {
        tft_model_gradient(step->workspace, &pass, gradients, &loss);
        tft_adam_defaults(&step->adam);
        step->adam.kernels = tft_kernels_counted();
        step->adam.m = gradients + reals;
        step->adam.v = gradients + 2 * reals;
        status =
            tft_adam_step(&step->adam, step->pool, tft_model_params(step->model), step->blocks, gradients, NULL, &loss);
    }
    if (status)
        return status;
    step->launches[0] = tft_counted_take(tft_workspace_queue(step->workspace), &step->counts[0]);
    if (!options->is_evaluation)
        step->launches[1] = tft_counted_take(step->adam.queues[0], &step->counts[1]);
    return step->launches[0] ? HALAY_OK : HALAY_ERR_NO_MEMORY;
}

/* ---- how long that takes ----------------------------------------------------------------------------------------- */

struct sum {
    const char *kernel;
    double launches, steps, bytes, flops, floor; /* floor: seconds */
};

static double floor_of(const struct gpu *gpu, const struct counted_launch *launch)
{
    double moved = launch->bytes / (REACHED_BYTES * gpu->bytes);
    double computed = launch->flops / (REACHED_FLOPS * gpu->flops[launch->dtype]);
    double issued = launch->instructions / (REACHED_FLOPS * gpu->instructions);
    double longer = moved > computed ? moved : computed;

    return longer > issued ? longer : issued;
}

static void sum_add(struct sum *sum, const struct gpu *gpu, const struct counted_launch *launch)
{
    double times = (double)launch->times;

    sum->launches += times;
    sum->steps += times * (double)launch->steps;
    sum->bytes += times * launch->bytes;
    sum->flops += times * launch->flops;
    sum->floor += times * floor_of(gpu, launch);
}

static struct sum sum_of(const struct step *step, const struct gpu *gpu)
{
    struct sum sum = { .kernel = "all" };

    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < step->counts[part]; i++)
            sum_add(&sum, gpu, &step->launches[part][i]);
    return sum;
}

static double fastest(const struct sum *sum)
{
    return sum->launches * FASTEST_LAUNCH + sum->steps * FASTEST_STEP + sum->floor;
}

static double slowest(const struct sum *sum)
{
    return sum->launches * SLOWEST_LAUNCH + sum->steps * SLOWEST_STEP + ABOVE_FLOOR * sum->floor;
}

static void print_row(const struct step *step, const struct gpu *gpu, size_t batch)
{
    const struct sum sum = sum_of(step, gpu);
    double samples = (double)batch;

    printf("%-10s %6zu %9.0f %11.1f %14.3f %12.0f - %.0f\n", gpu->name, batch, sum.launches, 1e-6 * sum.bytes / samples,
           1e-9 * sum.flops / samples, samples / slowest(&sum), samples / fastest(&sum));
}

static void print_kernels(const struct step *step, const struct gpu *gpu, size_t batch)
{
    struct sum sums[KERNELS_MOST] = { 0 };
    size_t count = 0, k;

    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < step->counts[part]; i++) {
            const struct counted_launch *launch = &step->launches[part][i];

            for (k = 0; k < count && strcmp(sums[k].kernel, launch->kernel) != 0; k++)
                ;
            if (k == count && count < KERNELS_MOST)
                sums[count++].kernel = launch->kernel;
            if (k < count)
                sum_add(&sums[k], gpu, launch);
        }
    printf("\na formula: microseconds of a step of %zu on %s\n%-18s %9s %9s %9s %9s\n", batch, gpu->name, "kernel",
           "launches", "MB", "fastest", "slowest");
    for (k = 0; k < count; k++)
        printf("%-18s %9.0f %9.1f %9.1f %9.1f\n", sums[k].kernel, sums[k].launches, 1e-6 * sums[k].bytes,
               1e6 * fastest(&sums[k]), 1e6 * slowest(&sums[k]));
}

static enum halay_status run(struct halay_log *log, const struct options *options)
{
    enum halay_status status = HALAY_OK;

    for (int b = 0; b < BATCHES && !status; b++) {
        struct step step = { 0 };
        size_t batch = (size_t)(options->batch ? options->batch : batches[b]);
        int is_last = options->batch || b == BATCHES - 1;

        status = step_prepare(&step, log, options, batch);
        if (!status)
            status = step_count(&step, options, batch);
        for (int g = 0; g < GPUS && !status; g++)
            print_row(&step, &gpus[g], batch);
        if (!status && is_last && options->by_kernel)
            print_kernels(&step, &gpus[GPUS - 1], batch);
        step_fini(&step);
        if (is_last)
            break;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct halay_log log;
    int code;

    (void)argc;
    if (parse(&options, argv, &code))
        return code;
    halay_log_init(&log, HALAY_LOG_WARNING);
    printf("a formula, not measured: %s of the Electricity configuration, hidden size %ld, dropout %g, %s\n"
           "%-10s %6s %9s %11s %14s %12s\n",
           options.is_evaluation ? "forecasts" : "training steps", options.hidden, options.dropout,
           dtype_names[options.dtype], "GPU", "batch", "launches", "MB/sample", "GFLOP/sample", "samples/s");
    enum halay_status status = run(&log, &options);
    if (!status && fflush(stdout)) {
        halay_error(&log, "cannot write to standard output");
        status = HALAY_ERR_SYSTEM;
    }
    halay_log_fini(&log);
    return status != HALAY_OK;
}
