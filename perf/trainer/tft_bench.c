/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft-bench: whole training steps (forward, backward, sums, clipping, Adam) on synthetic samples of the
 * Electricity configuration, by all ranks together as in training; or forecasts and their loss, as in an evaluation.
 * The speed is the batch divided by rank 0's median step; rank 0 alone reports.
 *
 * by_layer_ms: of one step, the time of all threads in each layer divided by the number of threads, so that the parts
 * add up to about the step. floor_ms: the layer's arithmetic at the rate of this machine's matrix products, measured
 * here on one thread with one shape of the model's kind (96 rows, hidden size squared), always the same.
 *
 * One exit; everything is undone by fini functions that accept what was never made.
 */
#include "base/clock.h"
#include "base/document.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/parse.h"
#include "perf/trainer/arithmetic.h"
#include "perf/trainer/synthetic.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/gemm.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/kernels/queue.h"
#include "tft/core/model/gradients.h"
#include "tft/core/run/ranks.h"
#include "tft/core/train/adam.h"
#include "tft/core/train/exchange.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2 };

static const char *const dtype_names[] = { [TFT_F32] = "f32", [TFT_BF16] = "bf16", [TFT_TF32] = "tf32", NULL };

struct bench_options {
    long threads, batch, hidden, steps; /* threads: 0: this rank's share of the cores */
    double dropout;
    int is_evaluation, device;
    int dtype;        /* enum tft_dtype */
    const char *json; /* NULL: a table for people */
};

struct bench {
    struct halay_log log;
    struct bench_options options;
    struct halay_context *ctx;
    struct tft_exchange exchange; /* used with more than one rank */
    int rank, ranks;
    struct tft_model *model;
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_adam adam;
    real *params;    /* in memory */
    real *memory;    /* owned: both moments, parameters, and gradients unless the exchange has them */
    real *gradients; /* these three are the device's */
    real *beginning; /* owned: the parameters at first, in the host's memory */
    double *seconds; /* (steps), owned */
    double *losses;  /* (granules of a batch), owned */
    uint64_t filled; /* position + 1 of the granule that the device has; 0: none */
    int has_params;  /* nonzero: forecasts have run with `beginning` */
    double median;
    double rate; /* floating-point operations a second of a thread's matrix products */
    double adam_seconds, loss_first, loss_last;
    double communication, exposed; /* seconds of this rank: a sum was under way; a thread waited for one */
    double footprint;              /* bytes of memory of a rank, the mean; 0: not known */
};

/* ---- the command line -------------------------------------------------------------------------------------------- */

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

#define SETS(member) HALAY_OPTION_SETS(bench_options, member)

static const struct halay_option bench_table[] = {
    { "--evaluate", NULL, NULL, "forecasts and their loss instead, of windows one step apart as in an evaluation",
      HALAY_OPTION_FLAG, SETS(is_evaluation) },
    { "--threads", NULL, "N", "compute threads of a rank (its share of the cores)", HALAY_OPTION_NUMBER, SETS(threads),
      .min = 1, .max = 4096 },
    { "--batch", NULL, "N", "samples of a step, of all ranks together (64)", HALAY_OPTION_NUMBER, SETS(batch), .min = 1,
      .max = 1 << 20 },
    { "--hidden", NULL, "N", "hidden size, a multiple of 4 (160)", HALAY_OPTION_TAKEN, SETS(hidden),
      .take = take_hidden },
    { "--dropout", NULL, "P", "dropout rate (0.1)", HALAY_OPTION_REAL, SETS(dropout), .max = 0.99 },
    { "--steps", NULL, "N", "steps measured, after two to warm up (10)", HALAY_OPTION_NUMBER, SETS(steps), .min = 1,
      .max = 1000000 },
    { "--dtype", NULL, NULL, "the factors of matrix products (f32)", HALAY_OPTION_CHOICE, SETS(dtype),
      .choices = dtype_names },
    { "--device", NULL, NULL, "what computes (cpu); with cuda a rank's samples are one granule", HALAY_OPTION_CHOICE,
      SETS(device), .choices = tft_device_words },
    { "--json", NULL, "FILE", "write the result as JSON ('-': to standard output)", HALAY_OPTION_TEXT, SETS(json) },
    { .name = NULL },
};

/* 0: go on; otherwise *code is the exit status. */
static int parse(struct bench_options *options, char **argv, int *code)
{
    static const struct halay_command_line line = {
        .command = "halay-tft-bench",
        .synopsis = "[OPTION]...",
        .about = "Training steps of the Electricity configuration on synthetic samples.",
        .table = bench_table,
    };
    char why[512];

    *options = (struct bench_options){ .batch = 64, .hidden = 160, .steps = 10, .dropout = 0.1 };
    enum halay_parsed parsed = halay_command_line_parse(&line, argv, options, stdout, why, sizeof why);
    if (parsed == HALAY_PARSED_WRONG)
        fprintf(stderr, "halay-tft-bench: %s\n", why);
    *code = parsed == HALAY_PARSED_WRONG ? EXIT_USAGE : EXIT_SUCCESS;
    return parsed != HALAY_PARSED;
}

/* ---- the measurement --------------------------------------------------------------------------------------------- */

static double now(void)
{
    return 1e-9 * (double)halay_now_ns();
}

/* On the processor a rank that is alone needs no exchange; on another device that has the gradients. */
static int has_exchange(const struct bench *bench)
{
    return bench->ranks > 1 || bench->options.device != TFT_DEVICE_CPU;
}

/* Moments of zero, and the parameters that a training begins with. */
static enum halay_status set_blocks(struct bench *bench, size_t own)
{
    const struct tft_param_table *table = tft_model_params(bench->model);
    struct queue *queue = tft_workers_queue(bench->workers);
    size_t bytes = table->reals * sizeof(real);

    bench->beginning = calloc(1, bytes);
    if (!bench->beginning) {
        halay_error(&bench->log, "no memory for %zu parameters", table->reals);
        return HALAY_ERR_NO_MEMORY;
    }
    enum halay_status status = tft_params_init(table, 1, bench->beginning);
    kernel_zero(queue, 2 * own, bench->memory);
    kernel_to_device(queue, bench->beginning, bytes, bench->params);
    kernel_to_host(queue, bench->params, 0, NULL); /* waits */
    return status ? status : tft_queue_check(&bench->log, queue);
}

/* Parameters, gradients and moments. */
static enum halay_status prepare_blocks(struct bench *bench)
{
    const struct tft_param_table *table = tft_model_params(bench->model);
    const struct kernels *kernels = tft_model_kernels(bench->model);
    int together = has_exchange(bench);
    enum halay_status status = HALAY_OK;
    size_t reals = table->reals, bytes = (together ? 3 : 4) * reals * sizeof(real);

    if (together)
        status = tft_exchange_init(&bench->log, bench->ctx, table, tft_workers_queue(bench->workers), &bench->exchange);
    if (status)
        return status;
    bench->memory = kernels->alloc(bytes + 1);
    if (!bench->memory)
        return tft_queue_no_memory(&bench->log, kernels, "parameters and moments", bytes);
    tft_adam_defaults(&bench->adam);
    bench->adam.log = &bench->log;
    bench->adam.kernels = kernels;
    if (!kernels->host_memory)
        bench->adam.queue = tft_workers_queue(bench->workers);
    bench->adam.m = bench->memory;
    bench->adam.v = bench->memory + reals;
    bench->params = bench->memory + 2 * reals;
    bench->gradients = together ? bench->exchange.d_gradients : bench->params + reals;
    return set_blocks(bench, reals);
}

/* Of a batch. */
static size_t granules_of(const struct bench *bench)
{
    size_t granule = tft_model_config(bench->model)->granule;

    return ((size_t)bench->options.batch + granule - 1) / granule;
}

/* As in training. */
static size_t granule_of_device(const struct bench *bench)
{
    size_t share = ((size_t)bench->options.batch + (size_t)bench->ranks - 1) / (size_t)bench->ranks;
    size_t most = bench->options.is_evaluation ? TFT_DEVICE_FORECAST_GRANULE : TFT_DEVICE_GRANULE;

    return share < most ? share : most;
}

static enum halay_status prepare(struct bench *bench)
{
    struct tft_model_config config;
    const struct bench_options *options = &bench->options;
    enum halay_status status = halay_init(NULL, &bench->ctx);

    if (status)
        return status;
    bench->rank = halay_rank(bench->ctx);
    bench->ranks = halay_size(bench->ctx);
    if (bench->ranks > 1)
        bench->log.rank = bench->rank;
    if (options->device != TFT_DEVICE_CPU)
        bench->options.threads = 1;
    else if (!bench->options.threads)
        bench->options.threads = tft_rank_threads(&bench->log, bench->ctx);
    tft_synthetic_electricity(&config);
    config.H = (size_t)options->hidden;
    config.dropout = options->dropout;
    if (options->is_evaluation)
        config.granule = TFT_FORECAST_GRANULE;
    if (options->device != TFT_DEVICE_CPU)
        config.granule = granule_of_device(bench);
    config.dtype = (enum tft_dtype)options->dtype;
    status = tft_device_open(&bench->log, (enum tft_device_kind)options->device, halay_local_rank(bench->ctx),
                             &config.device);
    if (!status)
        status = tft_model_create(&bench->log, &config, &bench->model);
    if (!status)
        status = tft_pool_create(&bench->log, (int)options->threads, &bench->pool);
    if (!status)
        status = tft_workers_create(&bench->log, bench->model, bench->pool, granules_of(bench), &bench->workers);
    if (status)
        return status;
    bench->seconds = calloc((size_t)options->steps, sizeof *bench->seconds);
    bench->losses = calloc(granules_of(bench), sizeof *bench->losses);
    if (!bench->seconds || !bench->losses) {
        halay_error(&bench->log, "no memory for %ld steps' times", options->steps);
        return HALAY_ERR_NO_MEMORY;
    }
    return prepare_blocks(bench);
}

/* Fills a granule, or finds that the device has it still: a training's rows never leave it. A device has one thread. */
static enum halay_status fill_once(struct bench *bench, int thread, struct tft_batch *batch, tft_fill fill)
{
    if (batch->there && bench->filled == batch->position + 1) {
        batch->is_there = 1;
        return HALAY_OK;
    }
    if (batch->there)
        bench->filled = batch->position + 1;
    return fill(bench->model, thread, batch);
}

static enum halay_status fill_step(void *bench, int thread, struct tft_batch *batch)
{
    return fill_once(bench, thread, batch, tft_synthetic_fill);
}

/* This rank's part of a batch that is forecast. */
struct part {
    struct bench *bench;
    size_t first;   /* its first sample in the batch */
    double *losses; /* (granules of the batch): sums over targets and quantiles */
};

static enum halay_status fill_part(void *arg, int thread, struct tft_batch *batch)
{
    const struct part *part = arg;
    enum halay_status status;

    batch->position += part->first;
    status = fill_once(part->bench, thread, batch, tft_synthetic_fill_windows);
    batch->position -= part->first;
    return status;
}

static enum halay_status take_loss(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                                   double loss)
{
    const struct part *part = arg;

    (void)thread;
    (void)predictions;
    part->losses[batch->position / tft_model_config(part->bench->model)->granule] = loss;
    return HALAY_OK;
}

/* Forecast this rank's share of a batch; *loss: its part of the mean. */
static enum halay_status one_evaluation(struct bench *bench, double *loss)
{
    const struct tft_model_config *config = tft_model_config(bench->model);
    size_t samples = (size_t)bench->options.batch, first, count, end;
    enum halay_status status = tft_granules_of_rank(granules_of(bench), bench->rank, bench->ranks, 0, &first, &count);

    *loss = 0;
    if (status || !count)
        return status;
    end = (first + count) * config->granule;
    struct part part = { bench, first * config->granule, bench->losses };
    const struct tft_forward forward = {
        .params = bench->beginning,
        .is_unchanged = bench->has_params,
        .samples = (end < samples ? end : samples) - part.first,
        .fill = fill_part,
        .fill_arg = &part,
        .take = take_loss,
        .take_arg = &part,
        .with_loss = 1,
    };
    status = tft_forward_run(bench->workers, &forward);
    bench->has_params = 1;
    for (size_t g = 0; g < count; g++)
        *loss += bench->losses[g] / (double)(samples * config->D);
    return status;
}

static enum halay_status one_training_step(struct bench *bench, uint32_t number, double *loss)
{
    const struct tft_model_config *config = tft_model_config(bench->model);
    size_t samples = (size_t)bench->options.batch;
    int together = has_exchange(bench);
    struct tft_step step = {
        .params = bench->params,
        .gradients = bench->gradients,
        .seed = 1,
        .step = number,
        .samples = samples,
        .loss_scale = 1.0 / (double)(samples * config->D),
        .fill = fill_step,
        .fill_arg = bench,
        .final = !together || tft_exchange_is_alone(&bench->exchange) ? NULL : tft_exchange_submit,
        .final_arg = &bench->exchange,
    };
    enum halay_status status =
        tft_granules_of_rank(granules_of(bench), bench->rank, bench->ranks, 0, &step.first, &step.count);

    if (!status)
        status = tft_step_run(bench->workers, &step, step.final ? loss : NULL);
    if (!status && together)
        status = tft_exchange_status(&bench->exchange);
    double begin = now();

    struct tft_adam_peers peers = { 0 };
    if (together)
        peers = tft_exchange_peers(&bench->exchange);
    if (!status)
        status = tft_adam_step(&bench->adam, bench->pool, tft_model_params(bench->model), bench->params,
                               bench->gradients, &peers, NULL);
    if (!status && together)
        status = tft_exchange_finish(&bench->exchange, (int)bench->options.threads);
    bench->adam_seconds += now() - begin;
    if (!status && !step.final)
        *loss = tft_step_loss(bench->workers);
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The fastest of several runs of products of that shape. */
static enum halay_status measure_rate(struct bench *bench)
{
    enum { RUNS = 20, PRODUCTS = 20, ROWS = 96 };
    size_t H = (size_t)bench->options.hidden;
    enum tft_bf16 means = bench->options.dtype == TFT_BF16 ? tft_bf16_here() : TFT_BF16_NONE;
    real *x = calloc((2 * ROWS + H) * H, sizeof *x);
    uint16_t *room = halay_aligned_alloc(HALAY_CACHE_LINE, TFT_BF16_ROOM * sizeof *room);
    double best = 1e9;

    tft_gemm_this_thread_only();
    for (int run = 0; x && room && run < RUNS; run++) {
        double begin = now();

        for (int i = 0; i < PRODUCTS; i++)
            if (means == TFT_BF16_NONE)
                tft_gemm(matrix_of(x + ROWS * H, H), matrix_of(x + 2 * ROWS * H, H), ROWS, H, H, 0, x, H);
            else
                tft_gemm_bf16(means, matrix_of(x + ROWS * H, H), matrix_of(x + 2 * ROWS * H, H), ROWS, H, H,
                              written(x, H), room);
        best = now() - begin < best ? now() - begin : best;
    }
    bench->rate = 2.0 * PRODUCTS * ROWS * (double)H * (double)H / best;
    enum halay_status status = x && room ? HALAY_OK : HALAY_ERR_NO_MEMORY;
    free(room);
    free(x);
    return status;
}

/* The engine's times so far; zero with one rank. */
static enum halay_status read_communication(const struct bench *bench, double *communication, double *exposed)
{
    struct halay_counters counters = { .struct_size = sizeof counters };
    enum halay_status status = bench->ranks > 1 ? halay_counters_read(bench->ctx, &counters) : HALAY_OK;

    *communication = 1e-9 * (double)counters.communication_ns;
    *exposed = 1e-6 * (double)atomic_load(&bench->exchange.waited_us) / (double)bench->options.threads;
    return status;
}

/* This process's memory as the kernel counts it: a page that k processes share counts 1/k. 0: unknown. */
static double footprint(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[256];
    double bytes = 0;

    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "Pss:", 4))
            bytes = 1024 * strtod(line + 4, NULL);
    if (file)
        fclose(file);
    return bytes;
}

/* Each rank has its part of the losses, and memory of its own: the sums, and the mean. */
static enum halay_status join_ranks(struct bench *bench)
{
    double sums[] = { bench->loss_first, bench->loss_last, bench->footprint };
    enum halay_status status = halay_allreduce(bench->ctx, "losses", sums, sums, 3, HALAY_F64, HALAY_SUM);

    if (status)
        return status;
    bench->loss_first = sums[0];
    bench->loss_last = sums[1];
    bench->footprint = sums[2] / bench->ranks;
    return HALAY_OK;
}

static enum halay_status run_one(struct bench *bench, uint32_t number, double *loss)
{
    return bench->options.is_evaluation ? one_evaluation(bench, loss) : one_training_step(bench, number, loss);
}

static enum halay_status warm_up(struct bench *bench)
{
    double loss;

    for (uint32_t i = 0; i < WARM_UP; i++) {
        enum halay_status status = run_one(bench, i, &loss);
        if (status)
            return status;
        if (i == 0)
            bench->loss_first = loss;
    }
    return HALAY_OK;
}

static enum halay_status run_all(struct bench *bench)
{
    for (long i = 0; i < bench->options.steps; i++) {
        double begin = now();
        enum halay_status status = run_one(bench, (uint32_t)(i + WARM_UP), &bench->loss_last);
        if (status)
            return status;
        bench->seconds[i] = now() - begin;
    }
    return HALAY_OK;
}

/* parts: seconds of all threads in each layer over the measured steps. */
static enum halay_status measure_steps(struct bench *bench, double *parts)
{
    long steps = bench->options.steps;
    double before[TFT_PART_COUNT], communication, exposed;
    enum halay_status status = warm_up(bench);

    tft_workers_seconds(bench->workers, before);
    bench->adam_seconds = 0;
    if (!status)
        status = read_communication(bench, &communication, &exposed);
    if (!status)
        status = run_all(bench);
    if (!status)
        status = read_communication(bench, &bench->communication, &bench->exposed);
    if (status)
        return status;
    bench->communication -= communication;
    bench->exposed -= exposed;
    bench->footprint = footprint();
    status = bench->ranks > 1 ? join_ranks(bench) : HALAY_OK;
    if (status)
        return status;
    tft_workers_seconds(bench->workers, parts);
    for (size_t part = 0; part < TFT_PART_COUNT; part++)
        parts[part] -= before[part];
    qsort(bench->seconds, (size_t)steps, sizeof *bench->seconds, by_size);
    bench->median = 0.5 * (bench->seconds[(steps - 1) / 2] + bench->seconds[steps / 2]);
    return HALAY_OK;
}

/* Milliseconds of a step that each part's arithmetic takes at the measured rate, on this rank's threads. */
static void floors_of(const struct bench *bench, double *floor)
{
    double samples = (double)bench->options.batch / bench->ranks;
    double passes = bench->options.is_evaluation ? 1 : 3; /* backward has two products for each of forward's */

    tft_model_products(bench->model, floor);
    for (int part = 0; part < TFT_PART_COUNT; part++)
        floor[part] *=
            bench->rate == 0 ? 0 : 1e3 * passes * 2 * samples / (bench->rate * (double)bench->options.threads);
}

/* How much of a step the products alone would take at that rate. */
static double share_of(const struct bench *bench, const double *floor)
{
    double sum = 0;

    for (int part = 0; part < TFT_PART_COUNT; part++)
        sum += floor[part];
    return 1e-3 * sum / bench->median;
}

static const char *products_name(const struct bench *bench)
{
    return bench->options.device == TFT_DEVICE_CPU ? tft_gemm_name() : tft_device_words[bench->options.device];
}

static void print_result(const struct bench *bench, const double *parts)
{
    const struct bench_options *options = &bench->options;
    double floor[TFT_PART_COUNT];

    printf(
        "%.1f samples/s%s: H %ld, batch %ld, dropout %g, %s, threads %ld, ranks %d, %s; median of %ld steps %.1f ms\n",
        (double)options->batch / bench->median, options->is_evaluation ? " forecast" : "", options->hidden,
        options->batch, options->dropout, dtype_names[options->dtype], options->threads, bench->ranks,
        products_name(bench), options->steps, 1e3 * bench->median);
    if (bench->rate == 0) /* the layers only start there */
        return;
    floors_of(bench, floor);
    printf("%-18s %8s %8s   (ms a step; floor: its products at %.0f GFLOP/s a thread)\n", "layer", "time", "floor",
           bench->rate * 1e-9);
    for (int part = 0; part < TFT_PART_COUNT; part++)
        printf("%-18s %8.2f %8.2f\n", tft_part_name((enum tft_part)part),
               1e3 * parts[part] / (double)options->steps / (double)options->threads, floor[part]);
    printf("%-18s %8.2f\n", "optimizer", 1e3 * bench->adam_seconds / (double)options->steps);
    printf("the floor is %.0f %% of the step\n", 100 * share_of(bench, floor));
    if (bench->ranks > 1)
        printf("sums over ranks were under way for %.2f ms a step, of which the optimizer waited %.2f ms\n",
               1e3 * bench->communication / (double)options->steps, 1e3 * bench->exposed / (double)options->steps);
}

static json_t *result_of(const struct bench *bench, const double *parts)
{
    const struct bench_options *options = &bench->options;
    json_t *layers = json_object(), *floors = json_object();
    double steps = (double)options->steps, floor[TFT_PART_COUNT];

    floors_of(bench, floor);
    for (int part = 0; part < TFT_PART_COUNT; part++)
        json_object_set_new(floors, tft_part_name((enum tft_part)part), json_real(floor[part]));
    for (int part = 0; part < TFT_PART_COUNT; part++)
        json_object_set_new(layers, tft_part_name((enum tft_part)part),
                            json_real(1e3 * parts[part] / steps / (double)options->threads));
    json_object_set_new(layers, "optimizer", json_real(1e3 * bench->adam_seconds / steps));
    return json_pack(
        "{s:f, s:b, s:s, s:I, s:i, s:I, s:I, s:f, s:I, s:f, s:f, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o, "
        "s:o, s:f}",
        "samples_per_second", (double)options->batch / bench->median, "evaluate", options->is_evaluation, "dtype",
        dtype_names[bench->options.dtype], "threads", (json_int_t)options->threads, "ranks", bench->ranks, "batch_size",
        (json_int_t)options->batch, "hidden_size", (json_int_t)options->hidden, "dropout", options->dropout, "steps",
        (json_int_t)options->steps, "step_ms", 1e3 * bench->median, "fastest_step_ms", 1e3 * bench->seconds[0],
        "parameters", (json_int_t)tft_model_param_count(bench->model), "matrix_products", products_name(bench),
        "loss_first", bench->loss_first, "loss_last", bench->loss_last, "gflops_a_thread", bench->rate * 1e-9,
        "communication_ms", 1e3 * bench->communication / steps, "exposed_ms", 1e3 * bench->exposed / steps,
        "memory_bytes", (json_int_t)bench->footprint, "optimizer_bytes",
        (json_int_t)(2 * sizeof(real) * tft_model_params(bench->model)->reals), "by_layer_ms", layers, "floor_ms",
        floors, "floor_share", share_of(bench, floor));
}

static enum halay_status write_result(struct bench *bench, const double *parts)
{
    if (!bench->options.json) {
        print_result(bench, parts);
        if (!fflush(stdout))
            return HALAY_OK;
        halay_error(&bench->log, "cannot write to standard output");
        return HALAY_ERR_SYSTEM;
    }
    json_t *result = result_of(bench, parts);
    enum halay_status status = HALAY_ERR_NO_MEMORY;
    if (result)
        status = halay_document_write(&bench->log, "", bench->options.json, result);
    else
        halay_error(&bench->log, "no memory for the result");
    json_decref(result);
    return status;
}

int main(int argc, char **argv)
{
    struct bench bench = { 0 };
    double parts[TFT_PART_COUNT];
    enum halay_status status;
    int code;

    (void)argc;
    if (parse(&bench.options, argv, &code))
        return code;
    halay_log_init(&bench.log, HALAY_LOG_WARNING);
    bench.log.rank = -1;
    status = prepare(&bench);
    if (!status)
        status = measure_steps(&bench, parts);
    if (!status && bench.options.device == TFT_DEVICE_CPU)
        status = measure_rate(&bench);
    if (!status && bench.rank == 0)
        status = write_result(&bench, parts);
    tft_exchange_fini(&bench.exchange);
    tft_adam_fini(&bench.adam);
    free(bench.losses);
    free(bench.seconds);
    free(bench.beginning);
    if (bench.memory)
        tft_model_kernels(bench.model)->release(bench.memory);
    tft_workers_destroy(bench.workers);
    tft_pool_destroy(bench.pool);
    tft_model_destroy(bench.model);
    halay_fini(bench.ctx);
    halay_log_fini(&bench.log);
    return status != HALAY_OK;
}
