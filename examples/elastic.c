/* SPDX-License-Identifier: Apache-2.0
 *
 * Elastic: a training that goes on when ranks are lost, and takes in ranks that come. usage:
 *     halayrun --min-np 1 -np 4 elastic [STEPS [MILLISECONDS]]     the time that each step takes
 *
 * What it trains is a sum of which the answer is known: in step s every rank gives s + 1, averaged over the ranks.
 */
#include <halay_elastic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WEIGHTS = 1000 };

struct training {
    struct halay_context *ctx;
    float *gradients; /* of halay_alloc: reduced in place */
    double weights[WEIGHTS];
    int64_t step;
};

static enum halay_status take_a_step(struct training *t)
{
    for (int i = 0; i < WEIGHTS; i++)
        t->gradients[i] = (float)(t->step + 1);
    enum halay_status status =
        halay_allreduce(t->ctx, "gradients", t->gradients, t->gradients, WEIGHTS, HALAY_F32, HALAY_AVERAGE);
    for (int i = 0; status == HALAY_OK && i < WEIGHTS; i++)
        t->weights[i] += (double)t->gradients[i];
    t->step += status == HALAY_OK;
    return status;
}

static enum halay_status train(struct training *t, int64_t steps, useconds_t pause_us)
{
    struct halay_elastic_change change = { .struct_size = sizeof change };

    enum halay_status status = halay_elastic_begin(t->ctx, &change);
    if (status == HALAY_OK)
        printf("rank %d of %d begins at step %" PRId64 "\n", halay_rank(t->ctx), halay_size(t->ctx), t->step);
    while (status == HALAY_OK && t->step < steps) {
        usleep(pause_us); /* the work */
        status = take_a_step(t);
        if (status == HALAY_OK)
            status = halay_elastic_commit(t->ctx, &change);
        if (status == HALAY_ERR_PEER)
            status = halay_elastic_restore(t->ctx, &change);
        if (status == HALAY_OK && change.has_reformed)
            printf("rank %d of %d, was %d of %d; step %" PRId64 "\n", halay_rank(t->ctx), halay_size(t->ctx),
                   change.rank_was, change.size_was, t->step);
        fflush(stdout);
    }
    return status;
}

int main(int argc, char **argv)
{
    int64_t steps = argc > 1 ? atoll(argv[1]) : 1000;
    useconds_t pause_us = argc > 2 ? (useconds_t)atoi(argv[2]) * 1000 : 0;
    struct training t = { .step = 0 };
    void *memory;

    enum halay_status status = halay_init(NULL, &t.ctx);
    if (status != HALAY_OK)
        return 1; /* a line of the log says why */
    status = halay_alloc(t.ctx, WEIGHTS * sizeof *t.gradients, &memory);
    t.gradients = memory;
    if (status == HALAY_OK)
        status = halay_elastic_add(t.ctx, t.weights, sizeof t.weights);
    if (status == HALAY_OK)
        status = halay_elastic_add(t.ctx, &t.step, sizeof t.step);
    if (status == HALAY_OK)
        status = train(&t, steps, pause_us);
    int is_right = status == HALAY_OK && t.weights[WEIGHTS - 1] == (double)steps * (double)(steps + 1) / 2;
    if (is_right)
        printf("rank %d of %d: %" PRId64 " steps, as if nobody had been lost\n", halay_rank(t.ctx), halay_size(t.ctx),
               t.step);
    else
        fprintf(stderr, "%s\n", status == HALAY_OK ? "the sum is wrong" : halay_status_string(status));
    halay_fini(t.ctx);
    return !is_right;
}
