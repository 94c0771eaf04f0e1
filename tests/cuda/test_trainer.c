/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's device where CUDA fails: no driver, an old one, no permission, a GPU that others have, memory that is
 * full; and a kernel that faults in a step. Each is an error that says what it is.
 */
#include "perf/trainer/synthetic.h"
#include "tests/cuda/emu.h"
#include "tests/test.h"
#include "tft/core/kernels/kernels.h"
#include "tft/core/model/gradients.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

static char said[4096];

static void keep(void *arg, enum halay_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static void expect(enum halay_status got, enum halay_status status, const char *text)
{
    CHECK(got == status, "status %d, not %d", (int)got, (int)status);
    CHECK(strstr(said, text), "'%s' is not in '%s'", text, said);
    said[0] = 0;
}

static void check_opening(struct halay_log *log)
{
    static const struct {
        const char *call;
        cudaError_t error;
        const char *text;
    } faults[] = { { "cudaGetDeviceCount", cudaErrorInsufficientDriver, "a newer driver would do" },
                   { "cudaGetDeviceCount", cudaErrorNotPermitted, "may not open /dev/nvidia" },
                   { "cudaGetDeviceCount", cudaErrorNoDevice, "a GPU may be hidden" },
                   { "cudaFree", cudaErrorDevicesUnavailable, "another process has it for itself" },
                   { "cudaFree", cudaErrorMemoryAllocation, "other processes use its memory" } };
    struct tft_device device;
    int count;

    /* Also keeps the emulation linked: emu.h refers to it weakly, for which a linker may leave it out. */
    REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess && count == 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        emu_fail(faults[i].call, 1, faults[i].error);
        expect(tft_device_open(log, TFT_DEVICE_CUDA, 0, &device), HALAY_ERR_UNSUPPORTED, faults[i].text);
        CHECK(!device.kernels, "there is a device after an error");
    }
    CHECK(tft_device_open(log, TFT_DEVICE_CUDA, 3, &device) == HALAY_OK && device.number == 0, "one device for all");
    CHECK(!strcmp(device.kernels->name, "cuda") && !said[0], "it says: %s", said);
}

static void small_config(struct tft_model_config *config, const struct tft_device *device)
{
    tft_config_defaults(config);
    config->H = 4, config->heads = 2, config->E = 2, config->D = 1;
    config->variable_count = 2;
    config->variables[0] = (struct tft_variable){ .name = "hour", .role = TFT_KNOWN };
    config->variables[1] = (struct tft_variable){ .name = "y", .role = TFT_TARGET };
    config->device = *device;
}

/* A product of a queue that asks for tf32: whether it may round its factors, and its algorithm's limit of workspace. */
static void check_product(const struct kernels *k, size_t rounded, size_t workspace)
{
    enum { SIDE = 4, REALS = 3 * SIDE * SIDE };
    const struct queue_needs needs = { .tf32 = 1 };
    const size_t rounded_before = emu_calls("products_that_may_round"), limits = emu_calls("workspace_limits");
    real values[REALS] = { 0 }, *memory = k->alloc(sizeof values);
    struct queue *queue = NULL;

    REQUIRE(memory && k->open(&needs, &queue) == HALAY_OK);
    k->to_device(queue, values, sizeof values, memory);
    const struct product product = { .a = { memory, SIDE, 0 },
                                     .b = { memory + SIDE * SIDE, SIDE, 0 },
                                     .M = SIDE,
                                     .N = SIDE,
                                     .K = SIDE,
                                     .to = { memory + 2 * SIDE * SIDE, SIDE, 0 } };
    k->product(queue, &product);
    k->to_host(queue, memory, sizeof values, values);
    CHECK(!k->failure(queue), "a product: %s", k->failure(queue));
    CHECK(emu_calls("products_that_may_round") - rounded_before == rounded, "a product in tf32 that is not to round");
    CHECK(emu_calls("workspace_limits") - limits == workspace, "a workspace of %zu bytes, not %zu",
          emu_calls("workspace_limits") - limits, workspace);
    k->close(queue);
    k->release(memory);
}

/* What older devices cannot do, they are not asked to. */
static void check_capability(struct halay_log *log)
{
    struct tft_model_config config;
    struct tft_model *model;
    struct tft_device device;

    emu_capability(70);
    expect(tft_device_open(log, TFT_DEVICE_CUDA, 0, &device), HALAY_ERR_UNSUPPORTED,
           "compute capability 7.0, and 7.5 (T4) is the least");
    emu_capability(75);
    REQUIRE(tft_device_open(log, TFT_DEVICE_CUDA, 0, &device) == HALAY_OK);
    CHECK(!device.kernels->has_bf16(), "bf16 on sm_75");
    check_product(device.kernels, 0, 4 << 20);
    small_config(&config, &device);
    config.dtype = TFT_BF16;
    expect(tft_model_create(log, &config, &model), HALAY_ERR_UNSUPPORTED, "no matrix products in bf16 here");
    emu_capability(80);
    CHECK(device.kernels->has_bf16(), "no bf16 on sm_80");
    check_product(device.kernels, 1, 4 << 20);
    emu_capability(90);
    check_product(device.kernels, 1, 32 << 20);
}

/* Workers of a small model, whose next step gets such a fault. */
struct rig {
    struct tft_model *model;
    struct tft_pool *pool;
    struct tft_workers *workers;
    real *params, *gradients;
};

static enum halay_status rig_init(struct halay_log *log, struct rig *r)
{
    struct tft_model_config config;
    struct tft_device device;

    memset(r, 0, sizeof *r);
    REQUIRE(tft_device_open(log, TFT_DEVICE_CUDA, 0, &device) == HALAY_OK);
    small_config(&config, &device);
    REQUIRE(tft_model_create(log, &config, &r->model) == HALAY_OK && tft_pool_create(log, 1, &r->pool) == HALAY_OK);
    return tft_workers_create(log, r->model, r->pool, 1, &r->workers);
}

static void rig_fini(struct rig *r)
{
    tft_workers_destroy(r->workers);
    tft_pool_destroy(r->pool);
    tft_model_destroy(r->model);
}

static enum halay_status take(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                              double loss)
{
    (void)thread;
    (void)batch;
    (void)loss;
    *(real *)arg = predictions[0];
    return HALAY_OK;
}

static enum halay_status forecast_by(struct rig *r, const real *params, int is_unchanged, real *prediction)
{
    const struct tft_forward forward = { .params = params,
                                         .is_unchanged = is_unchanged,
                                         .samples = 1,
                                         .fill = tft_synthetic_fill,
                                         .fill_arg = r->model,
                                         .take = take,
                                         .take_arg = prediction };

    return tft_forward_run(r->workers, &forward);
}

/* Parameters are all `value`. */
static enum halay_status forecast(struct rig *r, real value, real *prediction)
{
    const size_t n = tft_model_params(r->model)->reals;
    real *params = calloc(n, sizeof *params);

    REQUIRE(params);
    for (size_t i = 0; i < n; i++)
        params[i] = value;
    enum halay_status status = forecast_by(r, params, 0, prediction);
    free(params);
    return status;
}

/* Unchanged parameters are uploaded once, and again after others have been there. */
static void check_uploads(struct halay_log *log)
{
    enum { A, B };
    static const int order[] = { A, A, B, A };
    real *params[2], got[4] = { 0 };
    struct rig r;

    REQUIRE(rig_init(log, &r) == HALAY_OK);
    const size_t reals = tft_model_params(r.model)->reals;
    for (int i = A; i <= B; i++) {
        params[i] = calloc(reals, sizeof **params);
        REQUIRE(params[i]);
        for (size_t k = 0; i == B && k < reals; k++)
            params[i][k] = .25f;
    }
    for (size_t i = 0; i < 4; i++) {
        if (i == 1) /* on a device only: it is not seen there */
            memset(params[A], 0xff, reals * sizeof **params);
        CHECK(forecast_by(&r, params[order[i]], i > 0, &got[i]) == HALAY_OK);
        if (i == 1)
            memset(params[A], 0, reals * sizeof **params);
    }
    CHECK(got[0] == 0 && got[1] == 0 && got[2] != 0 && got[3] == 0, "predictions %g %g %g %g", (double)got[0],
          (double)got[1], (double)got[2], (double)got[3]);
    free(params[A]);
    free(params[B]);
    rig_fini(&r);
}

static void check_memory(struct halay_log *log)
{
    struct rig r;

    emu_fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
    expect(rig_init(log, &r), HALAY_ERR_NO_MEMORY, "no memory");
    rig_fini(&r);
    emu_fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
    expect(rig_init(log, &r), HALAY_ERR_SYSTEM, "device 'cuda' has failed: cudaErrorMemoryAllocation (");
    rig_fini(&r);
}

/* A product for which the library knows no algorithm is made without it, with a warning. */
static void check_algorithm(struct halay_log *log)
{
    real want, got;
    struct rig r;

    REQUIRE(rig_init(log, &r) == HALAY_OK);
    CHECK(forecast(&r, .25f, &want) == HALAY_OK && !said[0], "a forecast says: %s", said);
    rig_fini(&r);
    for (int nth = 1; nth <= 2; nth++) {
        REQUIRE(rig_init(log, &r) == HALAY_OK);
        emu_fail("cublasLtMatmulAlgoGetHeuristic", nth, cudaErrorNotSupported);
        expect(forecast(&r, .25f, &got), HALAY_OK, "cuBLASLt has no algorithm for a product (");
        CHECK(got == want && want != 0, "without algorithms the forecast is %g, not %g", (double)got, (double)want);
        CHECK(forecast(&r, .25f, &got) == HALAY_OK && !said[0], "a second forecast says: %s", said);
        rig_fini(&r);
    }
}

/* Last: CUDA is broken for good, as on a GPU. */
static void check_fault(struct halay_log *log)
{
    real prediction;
    struct rig r;

    REQUIRE(rig_init(log, &r) == HALAY_OK);
    CHECK(forecast(&r, 0, &prediction) == HALAY_OK && !said[0], "a forecast says: %s", said);
    emu_fail("kernel", 5, cudaErrorIllegalAddress);
    expect(forecast(&r, 0, &prediction), HALAY_ERR_SYSTEM, "device 'cuda' has failed: cudaErrorIllegalAddress");
    rig_fini(&r);
}

int main(void)
{
    struct halay_log log;

    halay_log_init(&log, HALAY_LOG_WARNING);
    log.write = keep;
    check_opening(&log);
    check_memory(&log);
    check_uploads(&log);
    check_capability(&log);
    check_algorithm(&log);
    check_fault(&log);
    halay_log_fini(&log);
    return test_end();
}
