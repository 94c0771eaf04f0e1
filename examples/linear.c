/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training in its smallest form: a linear model, y = w x + b, fitted by gradient descent. Every rank has
 * its own samples; weights start as rank 0's, and each step the gradients are averaged over all ranks.
 *     cc linear.c $(pkg-config --cflags --libs halay) -lm -o linear && halayrun -np 2 ./linear
 */
#include <halay.h>
#include <math.h>
#include <stdio.h>

enum { INPUTS = 8, WEIGHTS = INPUTS + 1, SAMPLES = 512, STEPS = 300 }; /* the last weight is b */

/* A number in [-1, 1) that depends on its arguments only. */
static float noise(unsigned rank, unsigned i, unsigned k)
{
    unsigned x = (rank * 7919u + i) * 31u + k + 1;

    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return (float)((double)(x ^ x >> 16) / 2147483648.0 - 1.0);
}

/* Mean squared error over this rank's samples, and its gradient d. The truth is w[k] = k - 3, b = 0.5. */
static float gradient(const float *w, int rank, float *d)
{
    float loss = 0;

    for (unsigned k = 0; k < WEIGHTS; k++)
        d[k] = 0;
    for (unsigned i = 0; i < SAMPLES; i++) {
        float x[WEIGHTS] = { [INPUTS] = 1 }, error = w[INPUTS] - 0.5f;
        for (unsigned k = 0; k < INPUTS; k++) {
            x[k] = noise((unsigned)rank, i, k);
            error += (w[k] - ((float)k - 3)) * x[k];
        }
        for (unsigned k = 0; k < WEIGHTS; k++)
            d[k] += 2 * error * x[k] / SAMPLES;
        loss += error * error / SAMPLES;
    }
    return loss;
}

static enum halay_status train(struct halay_context *ctx, float *w, float *d)
{
    struct halay_tensor_info info = { .struct_size = sizeof info,
                                      .name = "gradient",
                                      .dimensions = 1,
                                      .shape = { WEIGHTS },
                                      .reduction = HALAY_AVERAGE,
                                      .out = d };
    struct halay_tensor *tensor;
    struct halay_request *request;
    enum halay_status status = halay_register(ctx, &info, &tensor);

    for (int step = 0; step < STEPS && status == HALAY_OK; step++) {
        float loss = gradient(w, halay_rank(ctx), d);
        if ((status = halay_submit(tensor, NULL, NULL, &request)) != HALAY_OK)
            break;
        status = halay_wait(request, -1); /* other work could go on before it */
        halay_request_free(request);
        for (int k = 0; k < WEIGHTS; k++)
            w[k] -= 0.3f * d[k];
        if (halay_rank(ctx) == 0 && step % 100 == 0)
            printf("step %3d: loss %.6f\n", step, (double)loss);
    }
    return status;
}

int main(void)
{
    struct halay_context *ctx;
    float w[WEIGHTS], *d;

    if (halay_init(NULL, &ctx) != HALAY_OK)
        return 1;
    for (unsigned k = 0; k < WEIGHTS; k++)
        w[k] = noise(1000 + (unsigned)halay_rank(ctx), 0, k); /* other numbers on every rank */
    enum halay_status status = halay_broadcast(ctx, "weights", w, WEIGHTS, HALAY_F32, 0);
    if (status == HALAY_OK && (status = halay_alloc(ctx, WEIGHTS * sizeof *d, (void **)&d)) == HALAY_OK)
        status = train(ctx, w, d); /* d: the ranks of a host reduce it in place */
    printf("rank %d: w[0] %.4f, b %.4f: %s\n", halay_rank(ctx), (double)w[0], (double)w[INPUTS],
           halay_status_string(status));
    halay_fini(ctx);
    return status != HALAY_OK || fabsf(w[0] + 3) > 1e-3f || fabsf(w[INPUTS] - 0.5f) > 1e-3f;
}
