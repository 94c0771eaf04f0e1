/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training in its smallest form: a linear model, y = w x + b, fitted by gradient descent. Every rank has its
 * own samples; weights start as rank 0's, and each step the gradients are averaged over all ranks.
 *     cc linear.c $(pkg-config --cflags --libs halay) -lm -o linear && halayrun -np 2 ./linear
 */
#include <halay.h>
#include <math.h>
#include <stdio.h>

enum { INPUTS = 8, SAMPLES = 512, STEPS = 300 };

struct model {
    float w[INPUTS], b;
};

/* A number in [-1, 1) that depends on its arguments only. */
static float noise(unsigned rank, unsigned i, unsigned k)
{
    unsigned x = (rank * 7919u + i) * 31u + k + 1;

    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return (float)((double)(x ^ x >> 16) / 2147483648.0 - 1.0);
}

/* Mean squared error over this rank's samples, and its gradient. The truth is w[k] = k - 3, b = 0.5. */
static float gradient(const struct model *m, int rank, struct model *d)
{
    float loss = 0;

    *d = (struct model){ .b = 0 };
    for (unsigned i = 0; i < SAMPLES; i++) {
        float x[INPUTS], error = m->b - 0.5f;
        for (unsigned k = 0; k < INPUTS; k++) {
            x[k] = noise((unsigned)rank, i, k);
            error += (m->w[k] - ((float)k - 3)) * x[k];
        }
        for (unsigned k = 0; k < INPUTS; k++)
            d->w[k] += 2 * error * x[k] / SAMPLES;
        d->b += 2 * error / SAMPLES;
        loss += error * error / SAMPLES;
    }
    return loss;
}

static enum halay_status train(struct halay_context *ctx, struct model *m, struct model *d)
{
    struct halay_tensor_info info = { .struct_size = sizeof info, .name = "gradient", .dimensions = 1, .op = HALAY_AVERAGE,
                                      .shape = { sizeof *d / sizeof(float) }, .out = d };
    struct halay_tensor *tensor;
    struct halay_request *request;
    enum halay_status status = halay_register(ctx, &info, &tensor);

    for (int step = 0; step < STEPS && status == HALAY_OK; step++) {
        float loss = gradient(m, halay_rank(ctx), d);
        status = halay_submit(tensor, NULL, NULL, &request); /* here other work could go on meanwhile */
        if (status != HALAY_OK)
            break;
        status = halay_wait(request, -1);
        halay_request_free(request);
        for (int k = 0; k < INPUTS; k++)
            m->w[k] -= 0.3f * d->w[k];
        m->b -= 0.3f * d->b;
        if (halay_rank(ctx) == 0 && (step % 100 == 0 || step == STEPS - 1))
            printf("step %3d: loss %.6f\n", step, (double)loss);
    }
    return status;
}

int main(void)
{
    struct halay_context *ctx;
    struct model m, *d;

    if (halay_init(NULL, &ctx) != HALAY_OK)
        return 1;
    for (unsigned k = 0; k < INPUTS; k++)
        m.w[k] = noise(1000 + (unsigned)halay_rank(ctx), 0, k); /* other numbers on every rank */
    m.b = 0;
    enum halay_status status = halay_broadcast(ctx, "model", &m, sizeof m / sizeof(float), HALAY_F32, 0);
    if (status == HALAY_OK)
        status = halay_alloc(ctx, sizeof *d, (void **)&d); /* the ranks of a host reduce it in place */
    if (status == HALAY_OK)
        status = train(ctx, &m, d);
    if (status != HALAY_OK)
        fprintf(stderr, "rank %d: %s\n", halay_rank(ctx), halay_status_string(status));
    else
        printf("rank %d: w[0] %.4f, b %.4f\n", halay_rank(ctx), (double)m.w[0], (double)m.b);
    int is_right = status == HALAY_OK && fabsf(m.w[0] + 3) < 1e-3f && fabsf(m.b - 0.5f) < 1e-3f;
    halay_fini(ctx);
    return !is_right;
}
