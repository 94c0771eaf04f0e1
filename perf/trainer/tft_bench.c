/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft-bench: whole training steps (forward, backward, sums, clipping, Adam) on made-up samples of the Electricity
 * configuration, by all ranks together as in training; or forecasts and their loss, as in an evaluation. The speed is
 * the batch divided by rank 0's median step; rank 0 alone reports.
 *
 * by_layer_ms: of one step, the time of all threads in each layer divided by the number of threads, so that the parts
 * add up to about the step. floor_ms: the layer's arithmetic at the rate of this machine's matrix products, measured
 * here on one thread with the shape that the model has most of (96 rows, hidden size squared).
 *
 * One exit; everything is undone by fini functions that accept what was never made.
 */
#include "base/config.h"
#include "base/memory.h"
#include "perf/trainer/arithmetic.h"
#include "perf/trainer/synthetic.h"
#include "tft/data/paths.h"
#include "tft/kernels/gemm_bf16.h"
#include "tft/model/gradients.h"
#include "tft/train/adam.h"
#include "tft/train/exchange.h"
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 2, EXIT_USAGE = 2 };

enum {                       /* options, as getopt_long returns them */
       OPTION_THREADS = 256, /* above any character */
       OPTION_BATCH,
       OPTION_HIDDEN,
       OPTION_STEPS,
       OPTION_DROPOUT,
       OPTION_EVALUATE,
       OPTION_DTYPE,
       OPTION_STRATEGY,
       OPTION_DEVICE,
       OPTION_JSON,
       OPTION_HELP,
};

struct bench_options {
    long threads, batch, hidden, steps;
    double dropout;
    int bf16, evaluate;
    enum tft_strategy strategy;
    const char *json; /* NULL: a line for people */
};

struct bench {
    struct halay_log log;
    struct bench_options options;
    struct halay_context *ctx;
    struct tft_shards shards; /* as the next one used with more than one rank */
    struct tft_exchange exchange;
    int rank, ranks;
    struct tft_model *model;
    struct tft_pool *pool;
    struct tft_workers *workers;
    struct tft_adam adam;
    real *params;    /* the exchange's, if it has some, else in memory */
    real *memory;    /* owned: both moments, then what the exchange does not have of parameters and gradients */
    real *gradients; /* likewise */
    double *seconds; /* (steps), owned */
    double *losses;  /* (granules of a batch), owned */
    double median;
    double rate; /* floating-point operations a second of a thread's matrix products */
    double adam_seconds, loss_first, loss_last;
    double communication, exposed; /* seconds of this rank: a sum was under way; a thread waited for one */
    double footprint;              /* bytes of memory of a rank, the mean; 0: not known */
};

static void print_usage(FILE *out)
{
    fprintf(out,
            "usage: halay-tft-bench [options]\n"
            "Training steps of the Electricity configuration on made-up samples.\n"
            "  --evaluate    forecasts and their loss instead, of windows one step apart as in an evaluation\n"
            "  --threads N   compute threads of a rank (its share of the cores)\n"
            "  --batch N     samples of a step, of all ranks together (64)\n"
            "  --hidden N    hidden size, a multiple of 4 (160)\n"
            "  --dropout P   (0.1)\n"
            "  --steps N     steps measured, after %d to warm up (10)\n"
            "  --dtype T     f32 or bf16: the factors of matrix products (f32)\n"
            "  --strategy S  allreduce, zero1, zero2 or parameter-server, as in training (allreduce)\n"
            "  --device D    cpu\n"
            "  --json FILE   write the result as JSON, - for standard output\n",
            WARM_UP);
}

static int refuse(const char *option, const char *text, const char *right)
{
    fprintf(stderr, "halay-tft-bench: --%s '%s': %s\n", option, text, right);
    return EXIT_USAGE;
}

static int take_long(const char *name, const char *text, long least, long most, long *value)
{
    char right[64];

    if (!halay_parse_long(text, least, most, value))
        return 0;
    snprintf(right, sizeof right, "a number from %ld to %ld", least, most);
    return refuse(name, text, right);
}

static int take_hidden(const char *name, const char *text, long *value)
{
    if (!halay_parse_long(text, 4, 4096, value) && *value % 4 == 0)
        return 0;
    return refuse(name, text, "a multiple of 4 from 4 to 4096");
}

static int take_dropout(const char *name, const char *text, double *value)
{
    return halay_parse_double(text, 0, 0.99, value) ? refuse(name, text, "a number from 0 to 0.99") : 0;
}

/* Which of the words, which end with NULL; *value is left alone if none. */
static int take_word(const char *name, const char *text, const char *const *words, const char *right, int *value)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i])) {
            *value = i;
            return 0;
        }
    return refuse(name, text, right);
}

/* One option; 0 or EXIT_USAGE. */
static int take_option(struct bench_options *options, int option, const char *name, const char *text)
{
    static const char *const dtypes[] = { "f32", "bf16", NULL }, *const devices[] = { "cpu", NULL };
    static const char *const strategies[] = { "allreduce", "zero1", "zero2", "parameter-server", NULL };
    int word = 0;

    switch (option) {
    case OPTION_THREADS:
        return take_long(name, text, 1, 4096, &options->threads);
    case OPTION_BATCH:
        return take_long(name, text, 1, 1 << 20, &options->batch);
    case OPTION_HIDDEN:
        return take_hidden(name, text, &options->hidden);
    case OPTION_STEPS:
        return take_long(name, text, 1, 1000000, &options->steps);
    case OPTION_DROPOUT:
        return take_dropout(name, text, &options->dropout);
    case OPTION_EVALUATE:
        options->evaluate = 1;
        return 0;
    case OPTION_DTYPE:
        return take_word(name, text, dtypes, "f32 or bf16", &options->bf16);
    case OPTION_STRATEGY: {
        int code = take_word(name, text, strategies, "allreduce, zero1, zero2 or parameter-server", &word);
        options->strategy = (enum tft_strategy)word;
        return code;
    }
    case OPTION_DEVICE:
        return take_word(name, text, devices, "this version computes on the cpu only", &word);
    default:
        options->json = text;
        return 0;
    }
}

/* 0: go on; otherwise *code is the exit status. */
static int parse(struct bench_options *options, int argc, char **argv, int *code)
{
    static const struct option known[] = {
        { "threads", required_argument, NULL, OPTION_THREADS },
        { "batch", required_argument, NULL, OPTION_BATCH },
        { "hidden", required_argument, NULL, OPTION_HIDDEN },
        { "steps", required_argument, NULL, OPTION_STEPS },
        { "dropout", required_argument, NULL, OPTION_DROPOUT },
        { "evaluate", no_argument, NULL, OPTION_EVALUATE },
        { "dtype", required_argument, NULL, OPTION_DTYPE },
        { "device", required_argument, NULL, OPTION_DEVICE },
        { "strategy", required_argument, NULL, OPTION_STRATEGY },
        { "json", required_argument, NULL, OPTION_JSON },
        { "help", no_argument, NULL, OPTION_HELP },
        { NULL, 0, NULL, 0 },
    };
    int index = 0, c;

    *options = (struct bench_options){ .batch = 64, .hidden = 160, .steps = 10, .dropout = 0.1 };
    while ((c = getopt_long(argc, argv, "", known, &index)) != -1) {
        if (c == OPTION_HELP) {
            print_usage(stdout);
            *code = 0;
            return 1;
        }
        *code = c == '?' ? EXIT_USAGE : take_option(options, c, known[index].name, optarg);
        if (*code)
            return 1;
    }
    if (optind < argc) {
        fprintf(stderr, "halay-tft-bench: unexpected '%s'\n", argv[optind]);
        *code = EXIT_USAGE;
        return 1;
    }
    return 0;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Parameters, gradients and moments: with several ranks as the strategy deals them out. */
static enum halay_status prepare_blocks(struct bench *bench)
{
    const struct tft_param_table *table = tft_model_params(bench->model);
    int together = bench->ranks > 1;
    enum halay_status status = HALAY_OK;

    if (together)
        status =
            tft_shards_init(&bench->log, table, bench->options.strategy, bench->rank, bench->ranks, &bench->shards);
    if (!status && together)
        status = tft_exchange_init(&bench->log, bench->ctx, table, &bench->shards, &bench->exchange);
    if (status)
        return status;
    size_t own = tft_shards_reals(&bench->shards, table), params = bench->exchange.params ? 0 : table->reals;
    size_t bytes = (2 * own + params + (together ? 0 : table->reals)) * sizeof(real);
    bench->memory = halay_aligned_alloc(HALAY_PAGE, bytes + 1);
    if (!bench->memory) {
        halay_error(&bench->log, "no memory for %zu parameters", table->reals);
        return HALAY_ERR_NO_MEMORY;
    }
    memset(bench->memory, 0, bytes);
    tft_adam_defaults(&bench->adam);
    bench->adam.m = bench->memory;
    bench->adam.v = bench->memory + own;
    bench->adam.places = bench->shards.places;
    bench->params = params ? bench->memory + 2 * own : bench->exchange.params;
    bench->gradients = together ? bench->exchange.gradients : bench->params + params;
    return tft_params_init(table, 1, bench->params);
}

static enum halay_status prepare(struct bench *bench)
{
    struct tft_model_config config;
    const struct bench_options *options = &bench->options;
    enum halay_status status;
    size_t granules;

    status = halay_init(NULL, &bench->ctx);
    if (status)
        return status;
    bench->rank = halay_rank(bench->ctx);
    bench->ranks = halay_size(bench->ctx);
    if (bench->ranks > 1)
        bench->log.rank = bench->rank;
    if (!bench->options.threads)
        bench->options.threads = tft_exchange_threads(&bench->log, bench->ctx);
    tft_synthetic_electricity(&config);
    config.H = (size_t)options->hidden;
    config.dropout = options->dropout;
    config.dtype = options->bf16 ? TFT_BF16 : TFT_F32;
    granules = ((size_t)options->batch + config.granule - 1) / config.granule;
    status = tft_model_create(&bench->log, &config, &bench->model);
    if (!status)
        status = tft_pool_create(&bench->log, (int)options->threads, &bench->pool);
    if (!status)
        status = tft_workers_create(&bench->log, bench->model, bench->pool, granules, &bench->workers);
    if (status)
        return status;
    bench->seconds = calloc((size_t)options->steps, sizeof *bench->seconds);
    bench->losses = calloc(granules, sizeof *bench->losses);
    if (!bench->seconds || !bench->losses) {
        halay_error(&bench->log, "no memory for %ld steps' times", options->steps);
        return HALAY_ERR_NO_MEMORY;
    }
    return prepare_blocks(bench);
}

/* This rank's part of a batch that is forecast. */
struct part {
    struct tft_model *model;
    size_t first;   /* its first sample in the batch */
    double *losses; /* (granules of the batch): sums over targets and quantiles */
};

static enum halay_status fill_part(void *arg, int thread, struct tft_batch *batch)
{
    const struct part *part = arg;
    enum halay_status status;

    batch->position += part->first;
    status = tft_synthetic_fill_windows(part->model, thread, batch);
    batch->position -= part->first;
    return status;
}

static enum halay_status take_loss(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                                   double loss)
{
    const struct part *part = arg;

    (void)thread;
    (void)predictions;
    part->losses[batch->position / tft_model_config(part->model)->granule] = loss;
    return HALAY_OK;
}

/* Forecast this rank's share of a batch; *loss: its part of the mean. */
static enum halay_status one_evaluation(struct bench *bench, double *loss)
{
    const struct tft_model_config *config = tft_model_config(bench->model);
    size_t samples = (size_t)bench->options.batch, granules = (samples + config->granule - 1) / config->granule;
    size_t first, count, end;
    enum halay_status status = tft_granules_of_rank(granules, bench->rank, bench->ranks, 0, &first, &count);

    *loss = 0;
    if (status || !count)
        return status;
    end = (first + count) * config->granule;
    struct part part = { bench->model, first * config->granule, bench->losses };
    const struct tft_evaluation evaluation = {
        .params = bench->params,
        .samples = (end < samples ? end : samples) - part.first,
        .fill = fill_part,
        .fill_arg = &part,
        .take = take_loss,
        .take_arg = &part,
        .with_loss = 1,
    };
    status = tft_evaluate_run(bench->workers, &evaluation);
    for (size_t g = 0; g < count; g++)
        *loss += bench->losses[g] / (double)(samples * config->D);
    return status;
}

static enum halay_status one_step(struct bench *bench, uint32_t number, double *loss)
{
    const struct tft_model_config *config = tft_model_config(bench->model);
    size_t samples = (size_t)bench->options.batch, granules = (samples + config->granule - 1) / config->granule;
    int together = bench->ranks > 1;
    struct tft_step step = {
        .params = bench->params,
        .gradients = bench->gradients,
        .seed = 1,
        .step = number,
        .samples = samples,
        .loss_scale = 1.0 / (double)(samples * config->D),
        .fill = tft_synthetic_fill,
        .fill_arg = bench->model,
        .final = together ? tft_exchange_submit : NULL,
        .final_arg = &bench->exchange,
    };
    enum halay_status status = tft_granules_of_rank(granules, bench->rank, bench->ranks, 0, &step.first, &step.count);

    if (!status)
        status = tft_step_run(bench->workers, &step, loss);
    if (!status && together)
        status = tft_exchange_status(&bench->exchange);
    double begin = now();

    if (!status && together)
        status = tft_exchange_begin(&bench->exchange);
    struct tft_adam_peers peers = { 0 };
    if (together)
        peers = tft_exchange_peers(&bench->exchange);
    if (!status)
        status = tft_adam_step(&bench->adam, bench->pool, tft_model_params(bench->model), bench->params,
                               bench->gradients, &peers, NULL);
    if (!status && together)
        status = tft_exchange_finish(&bench->exchange, (int)bench->options.threads);
    bench->adam_seconds += now() - begin;
    return status;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The best of several runs of products of the model's most frequent shape. */
static enum halay_status measure_rate(struct bench *bench)
{
    enum { RUNS = 20, PRODUCTS = 20, ROWS = 96 };
    size_t H = (size_t)bench->options.hidden;
    enum tft_bf16 means = bench->options.bf16 ? tft_bf16_here() : TFT_BF16_NONE;
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

/* What the engine has done until now, with several ranks. */
static enum halay_status read_communication(const struct bench *bench, double *communication, double *exposed)
{
    struct halay_counters counters = { .struct_size = sizeof counters };
    enum halay_status status = bench->ranks > 1 ? halay_counters_read(bench->ctx, &counters) : HALAY_OK;

    *communication = 1e-9 * (double)counters.communication_ns;
    *exposed = 1e-6 * (double)atomic_load(&bench->exchange.waited_us) / (double)bench->options.threads;
    return status;
}

/* What the kernel counts for this process, a page that k processes share as the k-th part of one; 0: it does not
 * say. */
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

/* parts: seconds of all threads in each layer over the measured steps. */
static enum halay_status measure(struct bench *bench, double *parts)
{
    long steps = bench->options.steps;
    double before[TFT_PART_COUNT], communication = 0, exposed = 0, begin, loss = 0;
    enum halay_status status = HALAY_OK;

    for (long i = -WARM_UP; i < steps; i++) {
        if (i == 0) {
            tft_workers_seconds(bench->workers, before);
            bench->adam_seconds = 0;
            status = read_communication(bench, &communication, &exposed);
            if (status)
                return status;
        }
        begin = now();
        status =
            bench->options.evaluate ? one_evaluation(bench, &loss) : one_step(bench, (uint32_t)(i + WARM_UP), &loss);
        if (status)
            return status;
        if (i >= 0)
            bench->seconds[i] = now() - begin;
        if (i == -WARM_UP)
            bench->loss_first = loss;
    }
    bench->loss_last = loss;
    status = read_communication(bench, &bench->communication, &bench->exposed);
    if (status)
        return status;
    bench->communication -= communication;
    bench->exposed -= exposed;
    bench->footprint = footprint();
    if (bench->ranks > 1) { /* each rank has its part of the loss */
        double sums[] = { bench->loss_first, bench->loss_last, bench->footprint };
        status = halay_allreduce(bench->ctx, "losses", sums, sums, 3, HALAY_F64, HALAY_SUM);
        if (status)
            return status;
        bench->loss_first = sums[0];
        bench->loss_last = sums[1];
        bench->footprint = sums[2] / bench->ranks;
    }
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
    double passes = bench->options.evaluate ? 1 : 3; /* backward has two products for each of forward's */

    tft_model_products(bench->model, floor);
    for (int part = 0; part < TFT_PART_COUNT; part++)
        floor[part] *= 1e3 * passes * 2 * samples / (bench->rate * (double)bench->options.threads);
}

static void print_result(const struct bench *bench, const double *parts)
{
    const struct bench_options *options = &bench->options;
    double floor[TFT_PART_COUNT];

    printf(
        "%.1f samples/s%s: H %ld, batch %ld, dropout %g, %s, threads %ld, ranks %d, %s; median of %ld steps %.1f ms\n",
        (double)options->batch / bench->median, options->evaluate ? " forecast" : "", options->hidden, options->batch,
        options->dropout, options->bf16 ? "bf16" : "f32", options->threads, bench->ranks, tft_gemm_name(),
        options->steps, 1e3 * bench->median);
    floors_of(bench, floor);
    printf("%-18s %8s %8s   (ms a step; floor: its products at %.0f GFLOP/s a thread)\n", "layer", "time", "floor",
           bench->rate * 1e-9);
    for (int part = 0; part < TFT_PART_COUNT; part++)
        printf("%-18s %8.2f %8.2f\n", tft_part_name((enum tft_part)part),
               1e3 * parts[part] / (double)options->steps / (double)options->threads, floor[part]);
    printf("%-18s %8.2f\n", "optimizer", 1e3 * bench->adam_seconds / (double)options->steps);
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
        "s:o}",
        "samples_per_second", (double)options->batch / bench->median, "evaluate", options->evaluate, "dtype",
        bench->options.bf16 ? "bf16" : "f32", "threads", (json_int_t)options->threads, "ranks", bench->ranks,
        "batch_size", (json_int_t)options->batch, "hidden_size", (json_int_t)options->hidden, "dropout",
        options->dropout, "steps", (json_int_t)options->steps, "step_ms", 1e3 * bench->median, "fastest_step_ms",
        1e3 * bench->seconds[0], "parameters", (json_int_t)tft_model_param_count(bench->model), "matrix_products",
        tft_gemm_name(), "loss_first", bench->loss_first, "loss_last", bench->loss_last, "gflops_a_thread",
        bench->rate * 1e-9, "communication_ms", 1e3 * bench->communication / steps, "exposed_ms",
        1e3 * bench->exposed / steps, "memory_bytes", (json_int_t)bench->footprint, "optimizer_bytes",
        (json_int_t)(2 * sizeof(real) * tft_shards_reals(&bench->shards, tft_model_params(bench->model))),
        "by_layer_ms", layers, "floor_ms", floors);
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
        status = tft_output_json(&bench->log, "", bench->options.json, result);
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

    if (parse(&bench.options, argc, argv, &code))
        return code;
    halay_log_init(&bench.log, HALAY_LOG_WARNING);
    bench.log.rank = -1;
    status = prepare(&bench);
    if (!status)
        status = measure(&bench, parts);
    if (!status)
        status = measure_rate(&bench);
    if (!status && bench.rank == 0)
        status = write_result(&bench, parts);
    tft_exchange_fini(&bench.exchange);
    tft_shards_fini(&bench.shards);
    tft_adam_fini(&bench.adam);
    free(bench.losses);
    free(bench.seconds);
    free(bench.memory);
    tft_workers_destroy(bench.workers);
    tft_pool_destroy(bench.pool);
    tft_model_destroy(bench.model);
    halay_fini(bench.ctx);
    halay_log_fini(&bench.log);
    return status != HALAY_OK;
}
