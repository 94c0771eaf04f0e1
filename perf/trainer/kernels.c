/* SPDX-License-Identifier: Apache-2.0
 *
 * halay-tft-kernels: the trainer's kernels one by one on a device, in the shapes of the Electricity configuration. A
 * line each: the microseconds of one call, and GB/s by the bytes that it has to move.
 *
 * As in a training, a kernel is timed in a graph: CALLS calls are one pass, which is recorded and then repeated. A call
 * then costs what the device needs, not what the host needs to launch it; the arrays are the same each time, so that
 * small ones come from the device's cache. --once makes each call once, outside of a graph, for a profiler.
 *
 *     for (timing_start(bench, name, bytes); timing_next(bench);)
 *         kernel_add(...);
 *
 * All arrays are taken from one piece of memory, which begins anew with each group of kernels. In bf16 activations are
 * narrow (tft/core/kernels/narrow.h), as in a training; bytes are those of what is stored.
 */
#include "base/clock.h"
#include "base/options.h"
#include "tft/core/kernels/call.h"
#include "tft/core/kernels/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 20, PASSES = 9, UNTIMED = 3, HEADS = 4, CODES_MOST = 366 };

struct kernel_options {
    long batch, hidden, encoder, horizon;
    int device, once;
};

struct bench {
    struct kernel_options options;
    struct halay_log log;
    struct tft_device device;
    const struct kernels *kernels;
    struct queue *queue;
    real *pool; /* owned, the device's */
    size_t pool_reals, pool_used;
    size_t B, H, E, D, T; /* samples, width, steps: encoder, horizon, both */
    const char *type;     /* of the queue */
    size_t act;           /* bytes of an activation */
    struct {
        char name[72];
        double bytes, us[PASSES];
        uintptr_t kernel; /* a number for each, so that its passes have a graph of their own */
        uint64_t begun_ns;
        int pass, call; /* call: -1 between passes */
    } timing;
};

static void die(const char *what, const char *why)
{
    printf("FAILED: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static real *take(struct bench *bench, size_t reals)
{
    size_t size = (reals + 63) / 64 * 64;

    if (size > bench->pool_reals - bench->pool_used)
        die("arrays", "they are larger than make_pool expects");
    real *memory = bench->pool + bench->pool_used;
    bench->pool_used += size;
    return memory;
}

/* An array of activations. */
static real *take_acts(struct bench *bench, size_t n)
{
    if (narrow_of(bench->queue))
        return tft_narrow_at(take(bench, (n + 1) / 2));
    return take(bench, n);
}

/* An array of parameters, the only ones until the next are taken. */
static real *take_params(struct bench *bench, size_t n)
{
    real *params = take(bench, n);

    bench->kernels->begin(bench->queue, params, NULL);
    return params;
}

/* The most parameters that a group of kernels has. */
static size_t params_of(const struct bench *bench)
{
    return 4 * bench->H * bench->H + 64;
}

/* Makes the pool, full of numbers from -0.5 to 0.5, of either type: the lower half of a real is its upper one. */
static void make_pool(struct bench *bench)
{
    enum { NOISE = 1 << 16 };
    static real noise[NOISE];

    bench->pool_reals = bench->B * bench->T * bench->H * 13 + bench->H * bench->H * 16 + ((size_t)1 << 19);
    bench->pool = bench->kernels->alloc(bench->pool_reals * sizeof *bench->pool);
    if (!bench->pool)
        die("arrays", "the device has no memory for them");
    for (uint32_t i = 0, bits; i < NOISE; i++) {
        noise[i] = (real)(i * 2654435761u >> 8) / (real)(1 << 24) - (real)0.5;
        memcpy(&bits, &noise[i], sizeof bits);
        bits = (bits & 0xffff0000u) | bits >> 16;
        memcpy(&noise[i], &bits, sizeof bits);
    }
    for (size_t at = 0, n; at < bench->pool_reals; at += n) {
        n = bench->pool_reals - at < NOISE ? bench->pool_reals - at : NOISE;
        bench->kernels->to_device(bench->queue, noise, n * sizeof *noise, bench->pool + at);
    }
}

/* Returns R codes below `most`, in an order without a pattern. */
static int32_t *take_codes(struct bench *bench, size_t R, uint32_t most)
{
    int32_t *codes = (int32_t *)(void *)take(bench, R), *host = malloc(R * sizeof *host);

    if (!host)
        die("codes", "no memory");
    for (size_t i = 0; i < R; i++)
        host[i] = (int32_t)(((uint32_t)i * 2654435761u >> 8) % most);
    bench->kernels->to_device(bench->queue, host, R * sizeof *host, codes);
    free(host);
    return codes;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void timing_start(struct bench *bench, const char *name, double bytes)
{
    snprintf(bench->timing.name, sizeof bench->timing.name, "%-4s %s", bench->type, name);
    bench->timing.bytes = bytes;
    bench->timing.kernel++;
    bench->timing.pass = bench->options.once ? PASSES - 1 : -UNTIMED;
    bench->timing.call = -1;
}

/* Waits for the pass, and notes the time of one of its calls. */
static void end_pass(struct bench *bench, int calls)
{
    bench->kernels->to_host(bench->queue, NULL, 0, NULL);
    if (bench->kernels->failure(bench->queue))
        die(bench->timing.name, bench->kernels->failure(bench->queue));
    if (bench->timing.pass >= 0)
        bench->timing.us[bench->timing.pass] = 1e-3 * (double)(halay_now_ns() - bench->timing.begun_ns) / calls;
    bench->timing.pass++;
    bench->timing.call = -1;
}

/* Returns nonzero if the calls of the pass are to be made; otherwise a graph has made them. */
static int begin_pass(struct bench *bench)
{
    const struct pass_key key = { .params = (const real *)bench->timing.kernel, .B = bench->B };
    const struct pass_values values = { 1, 2, 3, 1 };

    bench->timing.begun_ns = halay_now_ns();
    bench->timing.call = 0;
    return bench->options.once || !bench->kernels->pass_begin ||
           !bench->kernels->pass_begin(bench->queue, &key, &values);
}

/* Returns nonzero if the kernel is to be called (once more); prints its line when it has been called enough. */
static int timing_next(struct bench *bench)
{
    while (bench->timing.pass < PASSES) {
        int calls = bench->options.once ? 1 : CALLS;

        if (bench->timing.call < 0 && begin_pass(bench))
            return bench->timing.call = 1;
        if (bench->timing.call > 0 && bench->timing.call < calls)
            return ++bench->timing.call;
        if (!bench->options.once && bench->kernels->pass_end && bench->kernels->pass_end(bench->queue)) {
            begin_pass(bench); /* it could not be recorded */
            return bench->timing.call = 1;
        }
        end_pass(bench, calls);
    }
    qsort(bench->timing.us, PASSES, sizeof *bench->timing.us, by_size);
    double us = bench->options.once ? bench->timing.us[PASSES - 1] : bench->timing.us[PASSES / 2];
    printf("%-46s %10.1f us %9.0f GB/s\n", bench->timing.name, us, 1e-3 * bench->timing.bytes / us);
    fflush(stdout);
    return 0;
}

#define TIMED(name, bytes) for (timing_start(bench, name, (double)(bytes)); timing_next(bench);)

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

/* Of weights that are aligned, and that begin four bytes further, as where a layer has an odd number of them. */
static void time_products(struct bench *bench)
{
    const size_t H = bench->H, R = bench->E * bench->B, n = R * H * bench->act;
    struct queue *queue = bench->queue;
    char name[64];

    bench->pool_used = 0;
    real *x = take_acts(bench, R * H), *y = take_acts(bench, 2 * R * H), *w = take_params(bench, params_of(bench)),
         *d = take(bench, H * H + 64);
    for (size_t shift = 0, most = sizeof(real) / bench->act; shift <= most; shift += most) {
        const char *at = shift ? ", at 4 bytes" : "";
        struct product plain = {
            .a = matrix_of(x, H), .b = matrix_of(w + shift, H), .M = R, .N = H, .K = H, .to = written(y, H)
        };
        struct product pair = plain;
        pair.batch = 2, pair.step_b = H * H + H, pair.step_to = R * H;
        struct product input = {
            .a = matrix_of(y, H), .b = matrix_t(w + shift, H), .M = R, .N = H, .K = H, .to = added(x, H)
        };
        struct product weights = {
            .a = matrix_t(x, H), .b = matrix_of(y, H), .M = H, .N = H, .K = R, .to = written(d + shift, H)
        };

        snprintf(name, sizeof name, "product, x W%s", at);
        TIMED(name, 2 * n) kernel_product(queue, &plain);
        snprintf(name, sizeof name, "product, x [Wv Wg]%s", at);
        TIMED(name, 3 * n) kernel_product(queue, &pair);
        snprintf(name, sizeof name, "product, += d W^T%s", at);
        TIMED(name, 3 * n) kernel_product(queue, &input);
        snprintf(name, sizeof name, "product, x^T d, %zu rows%s", R, at);
        TIMED(name, 2 * n) kernel_product(queue, &weights);
    }
}

static void time_lstm(struct bench *bench)
{
    const size_t S = bench->E, B = bench->B, H = bench->H, n = S * B * H;
    const size_t bytes = n * (9 * bench->act + sizeof(real)) + 4 * H * H * sizeof(real);
    char name[64];

    bench->pool_used = 0;
    struct lstm_run run = { .S = S,
                            .B = B,
                            .H = H,
                            .u = take_params(bench, 4 * H * H),
                            .gates = take_acts(bench, 4 * n),
                            .h = take_acts(bench, n + B * H),
                            .c = take(bench, n + B * H) };
    struct lstm_gradient d = { .d_out = take_acts(bench, n),
                               .d_h = take_acts(bench, B * H),
                               .d_c = take_acts(bench, B * H) };
    d.scratch = take_acts(bench, 2 * bench->kernels->lstm_scratch(S, B, H)); /* of reals */
    snprintf(name, sizeof name, "lstm, %zu steps", S);
    TIMED(name, bytes) kernel_lstm(bench->queue, &run);
    snprintf(name, sizeof name, "lstm_backward, %zu steps", S);
    TIMED(name, bytes) kernel_lstm_backward(bench->queue, &run, &d);
}

static void time_attention(struct bench *bench)
{
    size_t B = bench->B, H = bench->H, D = bench->D, T = bench->T, d = H / HEADS, a = HEADS * D * T;

    bench->pool_used = 0;
    struct attention_run run = { .B = B,
                                 .T = T,
                                 .N = D,
                                 .heads = HEADS,
                                 .d = d,
                                 .q = take_acts(bench, D * B * H),
                                 .k = take_acts(bench, T * B * H),
                                 .v = take_acts(bench, T * B * d),
                                 .a = take(bench, B * a),
                                 .scratch = take(bench, bench->kernels->attention_scratch(B, T, D, HEADS, d)) };
    real *mean = take_acts(bench, D * B * d);
    struct attention_gradient to = { take_acts(bench, D * B * d), take_acts(bench, D * B * H),
                                     take_acts(bench, T * B * H), take_acts(bench, T * B * d) };
    TIMED("attention", B * (bench->act * (D * H + T * H + T * d + D * d) + sizeof(real) * a))
    kernel_attention(bench->queue, &run, mean);
    TIMED("attention_backward", B * (bench->act * (2 * D * H + 2 * T * H + 2 * T * d + D * d) + sizeof(real) * 2 * a))
    kernel_attention_backward(bench->queue, &run, &to);
}

/* Kernels that go once through (R, H), from x and y to z and others. */
static void time_rows(struct bench *bench)
{
    const size_t B = bench->B, H = bench->H, R = bench->E * B, n = R * H, each = n * bench->act;
    struct queue *queue = bench->queue;
    const struct masked_rows masked = { { 429496729u, 1.1111111f, 1, 2, 3 }, { 7, H, 0 }, 0, R, B, H };

    bench->pool_used = 0;
    real *x = take_acts(bench, n), *y = take_acts(bench, n), *z = take_acts(bench, n), *v = take_acts(bench, n),
         *s = take_acts(bench, n);
    real *d_g = take_acts(bench, n), *inverse = take(bench, R), *row = take(bench, 4 * H), *sum = take(bench, 4 * H),
         *sums = take(bench, B * H);
    uint8_t *keep = (uint8_t *)take(bench, n / 4 + 1);
    TIMED("copy", 2 * each) kernel_copy(queue, x, n, y);
    TIMED("add", 3 * each) kernel_add(queue, x, n, y);
    TIMED("elu", 2 * each) kernel_elu(queue, n, x);
    TIMED("elu_backward", 3 * each) kernel_elu_backward(queue, x, R, H, 0, y, sum);
    TIMED("dropout", 2 * each + n) kernel_dropout(queue, &masked, x, row, keep, y);
    TIMED("dropout_backward", 2 * each + n) kernel_dropout_backward(queue, &masked.dropout, keep, R, H, 0, y, sum);
    const struct norm norm = { R, H, 1e-3f, row, row + H };
    const struct norm_backward back = { R, H, 0, y, inverse, row, sum, sum + H, z };
    TIMED("gate_norm", 5 * each)
    kernel_gate_norm(queue, &(struct gate_norm){ .norm = norm,
                                                 .bias_v = row + 2 * H,
                                                 .bias_g = row + 3 * H,
                                                 .skip = x,
                                                 .v = v,
                                                 .s = s,
                                                 .xhat = y,
                                                 .inverse = inverse,
                                                 .z = z });
    TIMED("gate_norm_backward", 7 * each)
    kernel_gate_norm_backward(queue, &(struct gate_norm_backward){ .norm = back,
                                                                   .bias_v = row + 2 * H,
                                                                   .bias_g = row + 3 * H,
                                                                   .v = v,
                                                                   .s = s,
                                                                   .d_v = x,
                                                                   .d_g = d_g,
                                                                   .sum_v = sum + 2 * H,
                                                                   .sum_g = sum + 3 * H });
    TIMED("norm", 3 * each) kernel_norm(queue, &norm, y, inverse, z);
    TIMED("norm_backward", 5 * each)
    kernel_norm_backward(queue, &back);
    TIMED("rows_sum", each) kernel_rows_sum(queue, x, R, H, 0, sum);
    TIMED("samples_sum", each) kernel_samples_sum(queue, x, R, B, H, sums);
}

static void time_selection(struct bench *bench)
{
    enum { V = 4 };
    const size_t H = bench->H, R = bench->E * bench->B, n = R * H, each = n * bench->act;
    struct queue *queue = bench->queue;
    char name[64];

    bench->pool_used = 0;
    real *x = take_acts(bench, n), *y = take_acts(bench, n), *z = take_acts(bench, n), *row = take(bench, 2 * H),
         *sum = take(bench, H);
    real *weights = take(bench, R * V), *d_weights = take(bench, R * V), *table = take(bench, CODES_MOST * H);
    const struct weighted weighted = { R, H, V, weights, x, row, row + H };
    TIMED("softmax", 8 * V * R) kernel_softmax(queue, R, V, weights);
    TIMED("weighted_sum", 3 * each) kernel_weighted_sum(queue, &weighted, 1, y);
    TIMED("weighted_sum_backward", 3 * each) kernel_weighted_sum_backward(queue, &weighted, y, z, d_weights);
    TIMED("outer_add", 2 * each) kernel_outer_add(queue, weights, row, R, H, y);
    TIMED("outer_sum", each) kernel_outer_sum(queue, x, weights, R, H, sum);
    real *scratch = take(bench, bench->kernels->rows_scratch(R, H));
    for (uint32_t most = 2; most; most = most == 2 ? 24 : most == 24 ? CODES_MOST : 0) {
        const int32_t *codes = take_codes(bench, R, most);
        snprintf(name, sizeof name, "rows_put, %u codes", most);
        TIMED(name, each) kernel_rows_put(queue, x, codes, R, H, table, scratch);
    }
}

static void time_outputs(struct bench *bench)
{
    static const double quantiles[] = { .1, .5, .9 };
    enum { P = 3 };
    size_t B = bench->B, H = bench->H, n = bench->D * B;
    const struct sparse shape = { B, H };

    bench->pool_used = 0;
    real *d_p = take(bench, P * n), *x = take_acts(bench, B * H), *to = take(bench, sparse_reals(B, H));
    double *loss = (double *)(void *)take(bench, 2);
    const struct outputs_run run = { .D = bench->D,
                                     .B = B,
                                     .P = P,
                                     .O = 1,
                                     .quantiles = quantiles,
                                     .scale = 1,
                                     .p = take(bench, P * n),
                                     .y = take(bench, n),
                                     .w = take(bench, n) };
    TIMED("loss", 4 * 8 * n) kernel_loss(bench->queue, &run, loss, d_p);
    real *scratch = take(bench, bench->kernels->rows_scratch(B, H));
    const int32_t *codes = take_codes(bench, B, INT32_MAX);
    TIMED("sparse_put, a row a sample", B * H * (bench->act + sizeof(real)))
    kernel_sparse_put(bench->queue, x, codes, B, shape, to, scratch);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* A queue as a training of this type has it; the pool stays. */
static void open_queue(struct bench *bench, const char *type)
{
    const struct queue_needs needs = { .bf16 = !strcmp(type, "bf16"),
                                       .tf32 = !strcmp(type, "tf32"),
                                       .params = params_of(bench) };

    bench->kernels->close(bench->queue);
    if (bench->kernels->open(&needs, &bench->queue))
        die("queue", "no memory");
    if (bench->kernels->failure(bench->queue))
        die("queue", bench->kernels->failure(bench->queue));
    bench->type = type;
    bench->act = narrow_of(bench->queue) ? TFT_NARROW_BYTES : sizeof(real);
}

/* tf32 is of products alone. */
static void time_all(struct bench *bench)
{
    static const char *const types[] = { "f32", "tf32", "bf16" };

    open_queue(bench, types[0]);
    make_pool(bench);
    printf("%s: batch %zu, %zu + %zu steps, width %zu\n", bench->kernels->name, bench->B, bench->E, bench->D, bench->H);
    for (int i = 0; i < (bench->options.device == TFT_DEVICE_CPU ? 1 : 3); i++) {
        open_queue(bench, types[i]);
        time_products(bench);
        time_lstm(bench);
        if (i == 1)
            continue;
        time_attention(bench);
        time_rows(bench);
        time_selection(bench);
        time_outputs(bench);
    }
}

#define SETS(member) HALAY_OPTION_SETS(kernel_options, member)

static const struct halay_option table[] = {
    { "--batch", NULL, "N", "samples (64)", HALAY_OPTION_NUMBER, SETS(batch), .min = 1, .max = 4096 },
    { "--hidden", NULL, "N", "hidden size, a multiple of 4 (160)", HALAY_OPTION_NUMBER, SETS(hidden), .min = 4,
      .max = 4096 },
    { "--encoder", NULL, "N", "steps of the past (168)", HALAY_OPTION_NUMBER, SETS(encoder), .min = 1, .max = 4096 },
    { "--horizon", NULL, "N", "steps of the future (24)", HALAY_OPTION_NUMBER, SETS(horizon), .min = 1, .max = 4096 },
    { "--device", NULL, NULL, "what computes (cuda)", HALAY_OPTION_CHOICE, SETS(device), .choices = tft_device_words },
    { "--once", NULL, NULL, "each kernel once, for a profiler", HALAY_OPTION_FLAG, SETS(once) },
    { .name = NULL },
};

static const struct halay_command_line line = {
    .command = "halay-tft-kernels",
    .synopsis = "[OPTION]...",
    .about = "Times the trainer's kernels one by one, in the shapes of the Electricity configuration.",
    .table = table,
};

int main(int argc, char **argv)
{
    struct bench bench = { .options = { 64, 160, 168, 24, TFT_DEVICE_CUDA, 0 } };
    char why[512];

    (void)argc;
    enum halay_parsed parsed = halay_command_line_parse(&line, argv, &bench.options, stdout, why, sizeof why);
    if (parsed == HALAY_PARSED_ANSWERED)
        return EXIT_SUCCESS;
    if (parsed == HALAY_PARSED_WRONG || bench.options.hidden % HEADS) {
        fprintf(stderr, "halay-tft-kernels: %s\n", parsed == HALAY_PARSED_WRONG ? why : "--hidden is no multiple of 4");
        return EXIT_USAGE;
    }
    halay_log_init(&bench.log, HALAY_LOG_WARNING);
    bench.log.rank = -1;
    if (tft_device_open(&bench.log, (enum tft_device_kind)bench.options.device, 0, &bench.device))
        return EXIT_FAILURE; /* logged */
    bench.kernels = bench.device.kernels ? bench.device.kernels : tft_kernels_cpu();
    bench.B = (size_t)bench.options.batch;
    bench.H = (size_t)bench.options.hidden;
    bench.E = (size_t)bench.options.encoder;
    bench.D = (size_t)bench.options.horizon;
    bench.T = bench.E + bench.D;
    time_all(&bench);
    bench.kernels->close(bench.queue);
    bench.kernels->release(bench.pool);
    halay_log_fini(&bench.log);
    return EXIT_SUCCESS;
}
