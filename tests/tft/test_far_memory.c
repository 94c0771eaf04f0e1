/* SPDX-License-Identifier: Apache-2.0
 *
 * A device whose memory the host cannot touch: the processor's kernels on pages that are open only while one of them
 * runs, so that any other access is a fault. It takes all rows as one block and finds no equal ones. Loss, gradients,
 * an update and forecasts must be the processor's.
 */
#include "tests/tft/device_step.h"
#include <sys/mman.h>

enum { FAR_BYTES = 64 << 20 };

/* One block for all allocations, given out from its beginning and released at the end. */
static char *far;
static size_t far_used;

static void far_open_pages(void)
{
    REQUIRE(mprotect(far, FAR_BYTES, PROT_READ | PROT_WRITE) == 0);
}

static void far_close_pages(void)
{
    REQUIRE(mprotect(far, FAR_BYTES, PROT_NONE) == 0);
}

static void *far_alloc(size_t bytes)
{
    void *memory = far + far_used;

    far_used += (bytes + 4095) / 4096 * 4096;
    return far_used <= FAR_BYTES ? memory : NULL;
}

static void far_release(void *memory)
{
    (void)memory;
}

/* Calls the processor's member with open pages. */
#define FAR(member, parameters, arguments)                                \
    static void far_##member(struct queue *queue, KERNEL_LIST parameters) \
    {                                                                     \
        far_open_pages();                                                 \
        tft_kernels_cpu()->member(queue, KERNEL_LIST arguments);          \
        far_close_pages();                                                \
    }

FAR(begin, (const real *params, const real *folded), (params, folded))
FAR(to_device, (const void *host, size_t bytes, void *memory), (host, bytes, memory))
FAR(to_host, (const void *memory, size_t bytes, void *host), (memory, bytes, host))
#define CUDA_KERNEL(name, parameters, arguments, condition, traffic)
#define KERNEL(name, parameters, arguments, condition, traffic) FAR(name, parameters, arguments)
#include "tft/core/kernels/kernels.def"

static struct kernels table;

static enum halay_status far_open(const struct queue_needs *needs, struct queue **queue)
{
    enum halay_status status = tft_kernels_cpu()->open(needs, queue);

    if (!status)
        ((struct queue_head *)(void *)*queue)->kernels = &table;
    return status;
}

static void make_table(void)
{
    table = *tft_kernels_cpu();
    table.name = "far";
    table.block_rows = SIZE_MAX;
    table.host_memory = 0;
    table.alloc = far_alloc;
    table.release = far_release;
    table.open = far_open;
    table.begin = far_begin;
    table.to_device = far_to_device;
    table.to_host_later = far_to_host;
    table.to_host = far_to_host;
#define CUDA_KERNEL(name, parameters, arguments, condition, traffic)
#define KERNEL(name, parameters, arguments, condition, traffic) table.name = far_##name;
#include "tft/core/kernels/kernels.def"
    table.shared_rows_gather = NULL;
}

static void compare(enum tft_conformance conformance, size_t statics, int ascending, double dropout, enum tft_loss loss)
{
    const size_t B = 3;
    struct tft_model_config config;
    struct results near, there;
    size_t n, outputs;

    device_config(conformance, statics, ascending, dropout, loss, &config);
    config.E = 50; /* several blocks of the processor */
    device_sizes(&config, B, &n, &outputs);
    run_step(&config, tft_kernels_cpu(), B, &near);
    run_step(&config, &table, B, &there);
    far_used = 0;
    CHECK(fabs(near.loss - there.loss) < 1e-10 * near.loss, "loss %.12g, far %.12g", near.loss, there.loss);
    CHECK(fabs(near.norm - there.norm) < 1e-9 * near.norm, "norm %.12g, far %.12g", near.norm, there.norm);
    CHECK(fabs(near.forecast_loss - there.forecast_loss) < 1e-9 * near.forecast_loss);
    CHECK(difference(near.gradients, there.gradients, n) < 1e-10, "gradients");
    CHECK(difference(near.params, there.params, n) < 1e-6, "updated parameters");
    CHECK(difference(near.forecast, there.forecast, outputs) < 1e-6, "forecasts");
    results_free(&near);
    results_free(&there);
}

int main(void)
{
    far = mmap(NULL, FAR_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(far != MAP_FAILED);
    make_table();
    compare(TFT_PUBLISHED, 3, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 0, 1, 0, TFT_LOSS_QUANTILES);
    compare(TFT_PUBLISHED, 1, 0, 0.25, TFT_LOSS_STUDENT_T);
    compare(TFT_NVIDIA, 1, 0, 0.25, TFT_LOSS_QUANTILES);
    compare(TFT_PYTORCH_FORECASTING, 2, 0, 0.25, TFT_LOSS_QUANTILES);
    munmap(far, FAR_BYTES);
    return test_end();
}
