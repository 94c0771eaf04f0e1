/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole training step and a forecast on the CUDA device beside the processor's: loss, every gradient, the norm, an
 * update, forecasts; and passes that are repeated. Sums are made in another order there; a mask or a mix-up shows as
 * far more. And the launches that perf/trainer/counted.h counts are those that there were.
 */
#include "perf/trainer/counted.h"
#include "tests/cuda/emu.h"
#include "tests/tft/device_step.h"
#include <cuda_runtime_api.h>

static size_t counted; /* launches on queues that were closed */

static void close_counted(struct queue *queue)
{
    size_t count;
    const struct counted_launch *launches = tft_counted_take(queue, &count);

    REQUIRE(launches || !count);
    for (size_t i = 0; i < count; i++)
        counted += launches[i].times;
    tft_kernels_counted()->close(queue);
}

/* 0 on a GPU, which does not count. */
static size_t launched(void)
{
    if (!emu_calls)
        return 0;
    return emu_calls("cudaLaunchKernelEx") + emu_calls("cublasLtMatmul") + emu_calls("cudaMemcpyAsync");
}

/* there: launches of the kernels. */
static void check_counts(const struct tft_model_config *config, size_t B, size_t there)
{
    struct kernels table = *tft_kernels_counted();
    struct results none;

    table.close = close_counted;
    counted = 0;
    run_step(config, &table, B, &none);
    results_free(&none);
    CHECK(counted > 0 && (counted == there || !emu_calls), "%zu are counted, %zu were launched", counted, there);
}

static void compare(enum tft_conformance conformance, size_t statics, int ascending, double dropout, enum tft_loss loss)
{
    const size_t B = 3;
    struct tft_model_config config;
    struct results near, there;
    size_t n, outputs;

    device_config(conformance, statics, ascending, dropout, loss, &config);
    device_sizes(&config, B, &n, &outputs);
    run_step(&config, tft_kernels_cpu(), B, &near);
    size_t before = launched();
    run_step(&config, tft_kernels_cuda(), B, &there);
    check_counts(&config, B, launched() - before);
    CHECK(fabs(near.loss - there.loss) < 1e-5 * near.loss, "loss %.9g, CUDA %.9g", near.loss, there.loss);
    CHECK(fabs(near.norm - there.norm) < 1e-4 * near.norm, "norm %.9g, CUDA %.9g", near.norm, there.norm);
    CHECK(fabs(near.forecast_loss - there.forecast_loss) < 1e-5 * near.forecast_loss, "forecast's loss");
    CHECK(difference(near.gradients, there.gradients, n) < 1e-4, "gradients: %g",
          difference(near.gradients, there.gradients, n));
    CHECK(difference(near.forecast, there.forecast, outputs) < 1e-4, "forecasts: %g",
          difference(near.forecast, there.forecast, outputs));
    results_free(&near);
    results_free(&there);
}

/* What is stored in bf16 is rounded. A device may choose tf32 products that do not round; the emulation rounds unless
 * EMU_ROUNDS is 0. */
static int is_rounded(enum tft_dtype dtype)
{
    const char *rounds = getenv("EMU_ROUNDS");

    return dtype == TFT_BF16 || !rounds || strcmp(rounds, "0") != 0;
}

/* Each tensor's gradient is about f32's, save where that is small beside the largest one. */
static void check_tensors(const struct tft_model_config *config, const real *near, const real *there)
{
    struct tft_model *model;
    double largest = 0;

    REQUIRE(tft_model_create(NULL, config, &model) == HALAY_OK);
    const struct tft_param_table *table = tft_model_params(model);
    for (size_t i = 0; i < table->reals; i++)
        largest = fmax(largest, fabs((double)near[i]));
    for (size_t i = 0; i < table->count; i++) {
        const struct tft_param *param = &table->params[i];
        const real *want = near + param->offset, *got = there + param->offset;
        double most = 0;

        for (size_t k = 0; k < param->count; k++)
            most = fmax(most, fabs((double)want[k]));
        double off = difference(want, got, param->count);
        CHECK(most < 1e-3 * largest || off < 0.5, "gradient of %s: %g", param->name, off);
    }
    tft_model_destroy(model);
}

/* Numbers off f32's by what this number of bits of a factor or an activation allows, and the launches that are
 * counted. */
static void check_rounded(struct tft_model_config config, enum tft_dtype dtype, double least, double most)
{
    const size_t B = 3;
    struct results near, there;
    size_t n, outputs;

    device_sizes(&config, B, &n, &outputs);
    run_step(&config, tft_kernels_cpu(), B, &near);
    config.dtype = dtype;
    size_t before = launched();
    run_step(&config, tft_kernels_cuda(), B, &there);
    check_counts(&config, B, launched() - before);
    double off = difference(near.gradients, there.gradients, n);
    CHECK(off < most, "type %d, gradients: %g", (int)dtype, off);
    check_tensors(&config, near.gradients, there.gradients);
    if (emu_calls)
        CHECK((off > least) == is_rounded(dtype), "type %d, gradients: %g", (int)dtype, off);
    CHECK(fabs(near.loss - there.loss) < 0.1 * most * near.loss, "type %d, loss %.9g, f32 %.9g", (int)dtype, there.loss,
          near.loss);
    off = difference(near.forecast, there.forecast, outputs);
    CHECK(off < most, "type %d, forecasts: %g", (int)dtype, off);
    results_free(&near);
    results_free(&there);
}

static void check_all_rounded(void)
{
    struct tft_model_config config;

    device_config(TFT_PUBLISHED, 1, 0, 0, TFT_LOSS_QUANTILES, &config);
    check_rounded(config, TFT_TF32, 1e-5, 0.01);
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
    device_config(TFT_PUBLISHED, 3, 0, 0.25, TFT_LOSS_STUDENT_T, &config);
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
    device_config(TFT_NVIDIA, 0, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
    device_config(TFT_PYTORCH_FORECASTING, 2, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
    config.plain = 1;
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
    config.E = 50; /* gradients of a selection's weights are more than the derived weights they are multiplied by */
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
}

/* A processor has no tf32: the same bits as f32's. */
static void check_processor(void)
{
    const size_t B = 3;
    struct tft_model_config config;
    struct results f32, tf32;
    size_t n, outputs;

    device_config(TFT_PUBLISHED, 1, 0, 0, TFT_LOSS_QUANTILES, &config);
    device_sizes(&config, B, &n, &outputs);
    run_step(&config, tft_kernels_cpu(), B, &f32);
    config.dtype = TFT_TF32;
    run_step(&config, tft_kernels_cpu(), B, &tf32);
    CHECK(!memcmp(f32.gradients, tf32.gradients, n * sizeof *f32.gradients));
    results_free(&f32);
    results_free(&tf32);
}

/* ---- what a selection keeps ---- */

static void little_room(size_t *free_bytes, size_t *all)
{
    *free_bytes = 4096;
    *all = 1 << 20;
}

static size_t some_bytes;

static void some_room(size_t *free_bytes, size_t *all)
{
    *free_bytes = *all = some_bytes;
}

static void check_recompute(const struct tft_model_config *config, const struct kernels *kernels, int want)
{
    struct tft_model_config there = *config;
    struct tft_model *model;

    there.device.kernels = kernels;
    REQUIRE(tft_model_create(NULL, &there, &model) == HALAY_OK);
    CHECK(model->history_selection.recompute == want, "%s: %d", kernels->name, model->history_selection.recompute);
    tft_model_destroy(model);
}

/* What a thread of a processor does not keep, a device with room for it does. Without room it makes the same bits
 * again, by more launches. */
static void check_selections(void)
{
    const size_t B = 3;
    struct kernels full = *tft_kernels_cuda();
    struct tft_model_config config;
    struct results kept, again;
    size_t n, outputs, before, launches;

    full.room = little_room;
    device_config(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    device_sizes(&config, B, &n, &outputs);
    before = launched();
    run_step(&config, tft_kernels_cuda(), B, &kept);
    launches = launched() - before;
    run_step(&config, &full, B, &again);
    CHECK(!emu_calls || launched() - before > 2 * launches, "%zu launches, then as many", launches);
    CHECK(kept.loss == again.loss && !memcmp(kept.gradients, again.gradients, n * sizeof *kept.gradients));
    results_free(&kept);
    results_free(&again);
    config.granule = TFT_GRANULE;
    config.E = 14000;
    check_recompute(&config, tft_kernels_cpu(), 1);
    check_recompute(&config, tft_kernels_cuda(), 0);
    check_recompute(&config, tft_kernels_counted(), 0);
    check_recompute(&config, &full, 1);
    /* Room for three quarters of five f32 arrays of each variable, in an eighth of it. */
    some_bytes =
        3 * sizeof(real) / 4 * 8 * 5 * config.granule * (config.E + config.D) * config.H * (config.variable_count - 1);
    full.room = some_room;
    check_recompute(&config, &full, 1);
    config.dtype = TFT_BF16;
    check_recompute(&config, &full, 0);
}

/* ---- passes that are repeated as one ---- */

enum { CALLS = 3 }; /* a parameter with a call of the host behind it: each third one */

struct passes {
    struct tft_model *model;
    struct tft_workspace *workspace;
    real *params, *gradients, *out;
    int calls;         /* the host is called */
    size_t n, called;  /* called: parameters, in this pass */
    double called_sum; /* of their gradients, as they were then */
};

static void passes_open(const struct tft_model_config *config, int calls, struct passes *p)
{
    struct tft_model_config there = *config;

    *p = (struct passes){ .calls = calls };
    there.device.kernels = tft_kernels_cuda();
    REQUIRE(tft_model_create(NULL, &there, &p->model) == HALAY_OK);
    REQUIRE(tft_workspace_create(NULL, p->model, &p->workspace) == HALAY_OK);
    struct queue *queue = tft_workspace_queue(p->workspace);
    p->n = tft_model_params(p->model)->reals;
    p->out = host_reals(p->n);
    p->gradients = device_reals(queue, tft_kernels_cuda(), p->out, p->n);
    fill_params(tft_model_params(p->model), 3, p->out);
    p->params = device_reals(queue, tft_kernels_cuda(), p->out, p->n);
}

static void passes_close(struct passes *p)
{
    tft_workspace_destroy(p->workspace);
    tft_model_destroy(p->model);
    tft_kernels_cuda()->release(p->params);
    tft_kernels_cuda()->release(p->gradients);
    free(p->out);
}

/* A call of the host: the parameter's gradient is complete. */
static void take_gradient(void *arg, size_t param)
{
    struct passes *p = arg;
    const struct tft_param *at = &tft_model_params(p->model)->params[param];

    kernel_to_host(tft_workspace_queue(p->workspace), p->gradients + at->offset, at->count * sizeof *p->out, p->out);
    for (size_t i = 0; i < at->count; i++)
        p->called_sum += (double)p->out[i] * (double)(param + i % 7 + 1);
    p->called++;
}

static void call_host(void *arg, size_t param)
{
    struct passes *p = arg;

    if (param % CALLS == 0 && !tft_model_params(p->model)->params[param].sparse.most)
        kernel_pass_call(tft_workspace_queue(p->workspace), take_gradient, p, param);
}

/* The i-th pass; of each third one the batch is smaller. */
static double pass_run(struct passes *p, int i, int repeats)
{
    const struct tft_pass pass = { .params = p->params,
                                   .seed = 11,
                                   .step = (uint32_t)i,
                                   .loss_scale = 0.5 / (i + 1),
                                   .final = p->calls ? call_host : NULL,
                                   .arg = p,
                                   .repeats = repeats };
    double loss;

    p->called = 0;
    p->called_sum = 0;
    load(p->workspace, i % 3 == 2 ? 2 : 3);
    tft_model_gradient(p->workspace, &pass, p->gradients, &loss);
    kernel_to_host(tft_workspace_queue(p->workspace), p->gradients, p->n * sizeof *p->out, p->out);
    return loss;
}

/* Whatever differs between passes, a graph gives the bits that calls give, with fewer launches. */
static void check_repeated(enum tft_loss loss, enum tft_dtype dtype, int passes, int calls)
{
    enum { REPEATED = 3 }; /* the first one that is */
    struct tft_model_config config;
    struct passes one, other;
    size_t before = 0;

    device_config(TFT_PUBLISHED, 1, 0, 0.25, loss, &config);
    config.dtype = dtype;
    passes_open(&config, calls, &one);
    for (int i = 0; i < passes; i++) {
        if (i == REPEATED)
            before = launched();
        double got = pass_run(&one, i, 1);
        size_t there = launched() - before;
        passes_open(&config, calls, &other);
        double want = pass_run(&other, i, 0);
        CHECK(got == want, "pass %d: %.17g, by calls %.17g", i, got, want);
        CHECK(one.called == other.called && one.called_sum == other.called_sum && !calls == !one.called,
              "pass %d: %zu calls of %zu, %.17g of %.17g", i, one.called, other.called, one.called_sum,
              other.called_sum);
        CHECK(!memcmp(one.out, other.out, one.n * sizeof *one.out), "pass %d", i);
        passes_close(&other);
        if (i == REPEATED && emu_calls)
            CHECK(there < 30 + 4 * one.called, "%zu launches and copies", there);
    }
    passes_close(&one);
}

/* A graph that cannot be made: the calls are made again. */
static void check_uncaptured(void)
{
    struct tft_model_config config;
    struct passes one, other;

    if (!emu_calls)
        return;
    device_config(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    passes_open(&config, 1, &one);
    pass_run(&one, 0, 1);
    emu_fail("cudaGraphInstantiate", 2, cudaErrorNotSupported);
    for (int i = 1; i < 5; i += 3) { /* both of the larger batch, as the one before */
        size_t plans = emu_calls("cublasLtMatmulAlgoGetHeuristic");
        double got = pass_run(&one, i, 1);
        CHECK(emu_calls("cublasLtMatmulAlgoGetHeuristic") == plans, "pass %d makes plans of products again", i);
        passes_open(&config, 1, &other);
        CHECK(got == pass_run(&other, i, 0));
        CHECK(one.called == other.called && one.called_sum == other.called_sum, "pass %d: calls", i);
        CHECK(!memcmp(one.out, other.out, one.n * sizeof *one.out), "pass %d", i);
        passes_close(&other);
    }
    passes_close(&one);
}

/* Forecasts of other parameters, which are this version. */
static void forecast_others(struct passes *p, uint64_t version, real *forecast)
{
    const struct tft_pass pass = { .params = p->params, .loss_scale = 1, .version = version };
    struct queue *queue = tft_workspace_queue(p->workspace);
    const real *got;
    double loss;

    fill_params(tft_model_params(p->model), 4, p->out);
    kernel_to_device(queue, p->out, p->n * sizeof *p->out, p->params);
    load(p->workspace, 3);
    tft_model_predict(p->workspace, &pass, &got, &loss);
    memcpy(forecast, got, 3 * p->model->config.D * p->model->output.out * sizeof *got);
}

/* Another version's parameters are rounded again. */
static void check_versions(void)
{
    struct tft_model_config config;
    struct passes one, other;
    size_t n, outputs;
    double loss;

    device_config(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    config.dtype = TFT_BF16;
    device_sizes(&config, 3, &n, &outputs);
    real *got = host_reals(outputs), *want = host_reals(outputs);
    passes_open(&config, 0, &one);
    passes_open(&config, 0, &other);
    const struct tft_pass pass = { .params = one.params, .seed = 11, .step = 1, .loss_scale = 0.5, .version = 1 };
    load(one.workspace, 3);
    tft_model_gradient(one.workspace, &pass, one.gradients, &loss);
    forecast_others(&one, 2, got);
    forecast_others(&other, 1, want);
    CHECK(!memcmp(got, want, outputs * sizeof *got), "forecasts are %g off", difference(want, got, outputs));
    free(got);
    free(want);
    passes_close(&one);
    passes_close(&other);
}

/* A library that has no algorithm for any product, from now on. */
static void check_without_algorithms(void)
{
    struct tft_model_config config;

    if (emu_fail)
        emu_fail("cublasLtMatmulAlgoGetHeuristic", 0, cudaErrorNotSupported);
    compare(TFT_PYTORCH_FORECASTING, 2, 0, 0.25, TFT_LOSS_QUANTILES);
    device_config(TFT_PUBLISHED, 1, 0, 0, TFT_LOSS_QUANTILES, &config);
    check_rounded(config, TFT_BF16, 1e-3, 0.1);
}

/* Passes of a key: a fill each. */
static void fill_passes(struct queue *queue, size_t B, int passes, real *x)
{
    const struct pass_key key = { .params = x, .gradients = x, .B = B };
    const struct pass_values values = { .scale = 1 };

    for (int i = 0; i < passes; i++)
        do {
            if (kernel_pass_begin(queue, &key, &values))
                break;
            kernel_fill(queue, (double)B, 4, x);
        } while (kernel_pass_end(queue));
}

/* More keys than graphs are kept, without a wait between them; and a device that fails during a capture, which is not
 * forgotten. */
static void check_graphs(void)
{
    enum { KEYS = 6, PASSES = 3 };
    const struct kernels *kernels = tft_kernels_cuda();
    const struct queue_needs needs = { 0 };
    struct queue *queue;
    real got = 0;

    REQUIRE(kernels->open(&needs, &queue) == HALAY_OK);
    real *x = kernels->alloc(4 * sizeof *x);
    for (size_t B = 1; B <= KEYS; B++)
        fill_passes(queue, B, PASSES, x);
    kernels->to_host(queue, x, sizeof got, &got);
    CHECK(got == KEYS && !kernels->failure(queue), "%g", (double)got);
    if (emu_fail) {
        fill_passes(queue, KEYS + 1, 1, x);
        emu_fail("cudaGraphInstantiate", 1, cudaErrorNotSupported);
        emu_fail("cudaStreamQuery", 1, cudaErrorUnknown);
        fill_passes(queue, KEYS + 1, 1, x);
        CHECK(kernels->failure(queue) != NULL, "a failed device is not forgotten");
    }
    kernels->close(queue);
    kernels->release(x);
}

/* A width whose rows can be aligned to 16 bytes, beside numbers of samples and of variables that are odd. With
 * EMU_ALIGNMENT=16 the emulation finds each matrix of such rows that begins elsewhere. */
static void check_aligned(enum tft_conformance conformance, size_t statics, enum tft_dtype dtype)
{
    struct tft_model_config config;
    struct results results;

    device_config(conformance, statics, 0, 0.25, TFT_LOSS_QUANTILES, &config);
    config.H = 8;
    config.heads = 4;
    config.hidden_continuous = 3;
    config.dtype = dtype;
    run_step(&config, tft_kernels_cuda(), 3, &results);
    CHECK(isfinite(results.loss) && isfinite(results.forecast_loss));
    results_free(&results);
}

/* test_model [aligned | products]: all, or where matrices begin alone, or products of rounded factors alone. */
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "aligned")) {
        for (int bf16 = 0; bf16 < 2; bf16++) {
            check_aligned(TFT_PUBLISHED, 1, bf16 ? TFT_BF16 : TFT_F32);
            check_aligned(TFT_PYTORCH_FORECASTING, 2, bf16 ? TFT_BF16 : TFT_F32);
        }
        return test_end();
    }
    check_all_rounded();
    if (argc > 1 && !strcmp(argv[1], "products"))
        return test_end();
    check_selections();
    check_repeated(TFT_LOSS_QUANTILES, TFT_F32, 6, 1);
    check_repeated(TFT_LOSS_STUDENT_T, TFT_BF16, 4, 0);
    check_versions();
    check_graphs();
    check_uncaptured();
    check_processor();
    compare(TFT_PUBLISHED, 3, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 0, 1, 0, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_STUDENT_T);
    compare(TFT_NVIDIA, 1, 0, 0.25, TFT_LOSS_QUANTILES);
    check_without_algorithms();
    return test_end();
}
