/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole training step and a forecast on the CUDA device beside the processor's: loss, every gradient, the norm, an
 * update, forecasts. Sums are made in another order there; a mask or a mix-up shows as far more. And the launches that
 * perf/trainer/counted.h counts are those that there were.
 */
#include "perf/trainer/counted.h"
#include "tests/cuda/emu.h"
#include "tests/tft/device_step.h"

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

/* Other products: other numbers than f32's, by as much as so many bits of a factor allow. */
static void check_rounded(enum tft_dtype dtype, double least, double most)
{
    const size_t B = 3;
    struct tft_model_config config;
    struct results near, there;
    size_t n, outputs;

    device_config(TFT_PUBLISHED, 1, 0, 0, TFT_LOSS_QUANTILES, &config);
    device_sizes(&config, B, &n, &outputs);
    run_step(&config, tft_kernels_cpu(), B, &near);
    config.dtype = dtype;
    run_step(&config, tft_kernels_cuda(), B, &there);
    double off = difference(near.gradients, there.gradients, n);
    CHECK(off > least && off < most, "type %d, gradients: %g", (int)dtype, off);
    CHECK(fabs(near.loss - there.loss) < 0.1 * most * near.loss, "type %d, loss %.9g, f32 %.9g", (int)dtype, there.loss,
          near.loss);
    results_free(&near);
    results_free(&there);
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

int main(void)
{
    check_processor();
    check_rounded(TFT_BF16, 1e-3, 0.1);
    check_rounded(TFT_TF32, 1e-5, 0.01);
    compare(TFT_PUBLISHED, 3, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 0, 1, 0, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_STUDENT_T);
    compare(TFT_NVIDIA, 1, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PYTORCH_FORECASTING, 2, 0, 0.25, TFT_LOSS_QUANTILES);
    return test_end();
}
