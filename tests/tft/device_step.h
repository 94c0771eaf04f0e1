/* SPDX-License-Identifier: Apache-2.0
 *
 * A training step and a forecast on a device: loss, gradients, an update, forecasts, brought to the host's memory, to
 * be compared with the processor's.
 */
#ifndef TFT_DEVICE_STEP_H
#define TFT_DEVICE_STEP_H

#include "perf/trainer/synthetic.h"
#include "tests/tft/model_helpers.h"
#include "tft/core/model/model_impl.h"
#include "tft/core/train/adam.h"

/* What a run leaves, all of it in the host's memory. */
struct results {
    double loss, forecast_loss, norm;
    real *gradients, *params, *forecast;
};

static real *host_reals(size_t n)
{
    real *x = calloc(n, sizeof *x);

    REQUIRE(x);
    return x;
}

/* Dead parameters' places are never written. */
static real *device_reals(struct queue *queue, const struct kernels *kernels, const real *from, size_t n)
{
    real *x = kernels->alloc(n * sizeof *x);

    REQUIRE(x);
    kernel_to_device(queue, from, n * sizeof *x, x);
    return x;
}

static void load(struct tft_workspace *workspace, size_t B)
{
    struct tft_batch *batch = tft_workspace_batch(workspace, B, 5);

    REQUIRE(tft_synthetic_fill((void *)workspace->model, 0, batch) == HALAY_OK);
    batch->lengths[0] = 2;
    batch->weights[1] = 0;
}

static void ignore(void *arg, size_t param)
{
    (void)arg;
    (void)param;
}

static void run_step(const struct tft_model_config *wanted, const struct kernels *kernels, size_t B, struct results *r)
{
    struct tft_model_config there = *wanted;
    const struct tft_model_config *config = &there;
    struct tft_model *model;
    struct tft_workspace *workspace;
    struct tft_pool *pool;
    struct tft_adam adam;
    const real *forecast;
    real *params, *gradients;

    there.device.kernels = kernels;
    REQUIRE(tft_model_create(NULL, config, &model) == HALAY_OK && tft_pool_create(NULL, 1, &pool) == HALAY_OK);
    REQUIRE(tft_workspace_create(NULL, model, &workspace) == HALAY_OK);
    size_t n = tft_model_params(model)->reals, outputs = B * config->D * model->output.out;
    struct queue *queue = tft_workspace_queue(workspace);

    *r = (struct results){ .gradients = host_reals(n), .params = host_reals(n), .forecast = host_reals(outputs) };
    params = device_reals(queue, kernels, r->gradients, n);
    gradients = device_reals(queue, kernels, r->gradients, n);
    tft_adam_defaults(&adam);
    adam.kernels = kernels;
    adam.clip_mode = TFT_CLIP_GLOBAL;
    adam.m = device_reals(queue, kernels, r->params, n);
    adam.v = device_reals(queue, kernels, r->params, n);
    fill_params(tft_model_params(model), 3, r->params);
    kernel_to_device(queue, r->params, n * sizeof(real), params);
    const struct tft_pass pass = { .params = params, .seed = 11, .step = 4, .loss_scale = 0.5, .final = ignore };
    load(workspace, B);
    tft_model_gradient(workspace, &pass, gradients, &r->loss);
    kernel_to_host(queue, gradients, n * sizeof(real), r->gradients);
    REQUIRE(tft_adam_step(&adam, pool, tft_model_params(model), params, gradients, NULL, &r->norm) == HALAY_OK);
    kernel_to_host(queue, params, n * sizeof(real), r->params);
    load(workspace, B);
    tft_model_predict(workspace, &pass, &forecast, &r->forecast_loss);
    memcpy(r->forecast, forecast, outputs * sizeof(real));
    tft_adam_fini(&adam);
    tft_workspace_destroy(workspace);
    tft_pool_destroy(pool);
    tft_model_destroy(model);
    kernels->release(params);
    kernels->release(gradients);
    kernels->release(adam.m);
    kernels->release(adam.v);
}

static double difference(const real *a, const real *b, size_t n)
{
    double most = 0, largest = 1e-9;

    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)(a[i] - b[i])));
        largest = fmax(largest, fabs((double)a[i]));
    }
    return most / largest;
}

/* A small model, and how many parameters and outputs for B samples it has. */
static void device_config(enum tft_conformance conformance, size_t statics, int ascending, double dropout,
                          enum tft_loss loss, struct tft_model_config *config)
{
    tiny_config(config, statics, 1 + statics % 2);
    config->conformance = conformance;
    config->hidden_continuous = 4;
    config->ascending = ascending;
    config->loss = loss;
    config->dropout = dropout;
}

static void device_sizes(const struct tft_model_config *config, size_t B, size_t *params, size_t *outputs)
{
    struct tft_model *model;

    REQUIRE(tft_model_create(NULL, config, &model) == HALAY_OK);
    *params = tft_model_params(model)->reals;
    *outputs = B * config->D * model->output.out;
    tft_model_destroy(model);
}

static void results_free(struct results *r)
{
    free(r->gradients);
    free(r->params);
    free(r->forecast);
}

#endif
