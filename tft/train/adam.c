/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors are dealt to the threads one by one, the last of the table first, since their gradients come first. Clipping
 * per tensor waits for that tensor alone; clipping by the global norm is two rounds: all norms, then all updates.
 */
#include "tft/train/adam.h"
#include "tft/kernels/vector.h"
#include <float.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct work {
    struct tft_adam *adam;
    const struct tft_param_table *table;
    real *params;
    const real *gradients;
    const struct tft_adam_peers *peers;
    int update;         /* this round updates */
    int measure;        /* this round waits and takes norms */
    double rate, scale; /* learning rate of this step; of all gradients, unless clipping is per tensor */
    atomic_size_t next;
    atomic_int failure; /* first error's status */
};

void tft_adam_defaults(struct tft_adam *adam)
{
    *adam = (struct tft_adam){
        .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7, .clip = 0.01, .clip_mode = TFT_CLIP_TENSOR
    };
}

void tft_adam_fini(struct tft_adam *adam)
{
    free(adam->squares);
    adam->squares = NULL;
}

TFT_VECTOR static double sum_of_squares(const real *x, size_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

/* A moment to which nothing is added any more (an embedding's row that is not seen again) would stay subnormal for
 * ever, since rounding to nearest keeps it from reaching zero, and make its vectors ten times slower. */
TFT_INLINE real normal_or_zero(real x)
{
#ifdef TFT_DOUBLE
    const real least = DBL_MIN;
#else
    const real least = FLT_MIN;
#endif
    real size = x < 0 ? -x : x;

    return size < least ? 0 : x;
}

/* The factors of one update; rest is 1 - beta, taken in double. */
struct factors {
    real scale, beta1, beta2, rest1, rest2, rate, decay, epsilon;
};

TFT_VECTOR static void update(real *restrict p, real *restrict m, real *restrict v, const real *restrict gradient,
                              size_t n, const struct factors *factors)
{
    const real scale = factors->scale, beta1 = factors->beta1, beta2 = factors->beta2, rest1 = factors->rest1,
               rest2 = factors->rest2, rate = factors->rate, decay = factors->decay, epsilon = factors->epsilon;

    for (size_t i = 0; i < n; i++) {
        real g = gradient[i] * scale;

        m[i] = normal_or_zero(beta1 * m[i] + rest1 * g);
        v[i] = normal_or_zero(beta2 * v[i] + rest2 * g * g);
        p[i] -= rate * m[i] / ((real)sqrt(v[i]) + epsilon) + decay * p[i];
    }
}

static double clip_scale(double clip, double squares)
{
    double norm = sqrt(squares);

    return norm > clip ? clip / norm : 1; /* a norm that is NaN leaves the gradient as it is */
}

static void update_param(const struct work *work, size_t i)
{
    const struct tft_adam *adam = work->adam;
    const struct tft_param *param = &work->table->params[i];
    size_t at = param->offset, place = adam->offsets ? adam->offsets[i] : at;
    double scale = adam->clip_mode == TFT_CLIP_TENSOR ? clip_scale(adam->clip, adam->squares[i]) : work->scale;

    const struct factors factors = { .scale = (real)scale,
                                     .beta1 = (real)adam->beta1,
                                     .beta2 = (real)adam->beta2,
                                     .rest1 = (real)(1 - adam->beta1),
                                     .rest2 = (real)(1 - adam->beta2),
                                     .rate = (real)work->rate,
                                     .decay = (real)(adam->learning_rate * adam->weight_decay),
                                     .epsilon = (real)adam->epsilon };

    update(work->params + at, adam->m + place, adam->v + place, work->gradients + at, param->count, &factors);
}

static int is_mine(const struct work *work, size_t i)
{
    return !work->table->params[i].dead && !(work->adam->offsets && work->adam->offsets[i] == SIZE_MAX);
}

static void run_round(void *arg, int thread)
{
    struct work *work = arg;
    size_t k;

    (void)thread;
    while (!atomic_load(&work->failure) && (k = atomic_fetch_add(&work->next, 1)) < work->table->count) {
        size_t i = work->table->count - 1 - k;
        const struct tft_param *param = &work->table->params[i];

        if (!is_mine(work, i))
            continue;
        if (work->measure) {
            enum halay_status status = work->peers->wait ? work->peers->wait(work->peers->arg, i) : HALAY_OK;
            int none = HALAY_OK;

            if (status) {
                atomic_compare_exchange_strong(&work->failure, &none, (int)status);
                return;
            }
            work->adam->squares[i] = sum_of_squares(work->gradients + param->offset, param->count);
        }
        if (work->update) {
            update_param(work, i);
            if (work->peers->done)
                work->peers->done(work->peers->arg, i);
        }
    }
}

static double all_squares(const struct work *work)
{
    double sum = 0;

    for (size_t i = 0; i < work->table->count; i++)
        if (!work->table->params[i].dead)
            sum += work->adam->squares[i];
    return sum;
}

enum halay_status tft_adam_step(struct tft_adam *adam, struct tft_pool *pool, const struct tft_param_table *table,
                                real *params, const real *gradients, const struct tft_adam_peers *peers, double *norm)
{
    static const struct tft_adam_peers none = { 0 };
    int global = adam->clip_mode == TFT_CLIP_GLOBAL;
    enum halay_status status;
    double t = (double)(adam->step + 1);
    struct work work = { .adam = adam,
                         .table = table,
                         .params = params,
                         .gradients = gradients,
                         .peers = peers ? peers : &none,
                         .measure = 1,
                         .update = !global,
                         .scale = 1 };

    if (!adam->squares)
        adam->squares = calloc(table->count, sizeof *adam->squares);
    if (!adam->squares)
        return HALAY_ERR_NO_MEMORY;
    memset(adam->squares, 0, table->count * sizeof *adam->squares); /* of other ranks' tensors */
    work.rate = adam->learning_rate * sqrt(1 - pow(adam->beta2, t)) / (1 - pow(adam->beta1, t));
    tft_pool_run(pool, run_round, &work);
    status = (enum halay_status)atomic_load(&work.failure);
    if (!status && global && work.peers->sum)
        status = work.peers->sum(work.peers->arg, adam->squares, table->count);
    if (!status && global) {
        work.scale = clip_scale(adam->clip, all_squares(&work));
        work.measure = 0;
        work.update = 1;
        atomic_store(&work.next, 0);
        tft_pool_run(pool, run_round, &work);
    }
    if (status)
        return status;
    adam->step++;
    if (norm)
        *norm = sqrt(all_squares(&work));
    return HALAY_OK;
}
