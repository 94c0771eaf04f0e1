/* SPDX-License-Identifier: Apache-2.0
 *
 * Adam, decay and clipping against the formula in double; the same bits for any number of threads; dead parameters
 * untouched; each living gradient waited for once, last first; moments without gradients do not stay subnormal;
 * initial values.
 */
#include "tests/tft/model_helpers.h"
#include "tft/core/train/adam.h"

static const size_t sizes[] = { 1000, 7, 33, 1, 640 };
enum { TENSORS = 5, DEAD = 2, STEPS = 4 };

/* A kernel, vectors and an embedding, of which only the kernel decays. */
static const size_t heights[] = { 100, 0, 0, 0, 64 };
static const enum tft_init inits[] = { TFT_INIT_GLOROT, TFT_INIT_ONE, TFT_INIT_ZERO, TFT_INIT_LSTM_BIAS,
                                       TFT_INIT_EMBEDDING };

struct run {
    struct tft_param_table table;
    struct tft_adam adam;
    real *p, *g, *m, *v;
};

static void run_init(struct run *r, enum tft_clip mode, double clip, double decay)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < TENSORS; i++) {
        char name[16];

        snprintf(name, sizeof name, "t%zu", i);
        REQUIRE(tft_params_add(&r->table, name, heights[i], sizes[i] / (heights[i] ? heights[i] : 1), inits[i], NULL) ==
                HALAY_OK);
    }
    r->table.params[DEAD].dead = 1;
    tft_adam_defaults(&r->adam);
    r->adam.clip_mode = mode;
    r->adam.clip = clip;
    r->adam.weight_decay = decay;
    r->p = calloc(r->table.reals, sizeof(real));
    r->g = calloc(r->table.reals, sizeof(real));
    r->adam.m = r->m = calloc(r->table.reals, sizeof(real));
    r->adam.v = r->v = calloc(r->table.reals, sizeof(real));
    REQUIRE(r->p && r->g && r->m && r->v);
    fill_values(r->p, r->table.reals, 1);
}

static void run_fini(struct run *r)
{
    tft_adam_fini(&r->adam);
    tft_params_fini(&r->table);
    free(r->p);
    free(r->g);
    free(r->m);
    free(r->v);
}

static unsigned waits[TENSORS];

static enum halay_status count_wait(void *arg, struct queue *queue, size_t param)
{
    (void)arg;
    (void)queue;
    __atomic_add_fetch(&waits[param], 1, __ATOMIC_RELAXED);
    return HALAY_OK;
}

static enum halay_status refuse_wait(void *arg, struct queue *queue, size_t param)
{
    (void)arg;
    (void)queue;
    return param == 1 ? HALAY_ERR_PEER : HALAY_OK;
}

static double squares_of(const struct run *r, size_t tensor)
{
    const struct tft_param *param = &r->table.params[tensor];
    double sum = 0;

    for (size_t i = 0; i < param->count; i++)
        sum += (double)r->g[param->offset + i] * (double)r->g[param->offset + i];
    return sum;
}

static void check_formula(enum tft_clip mode, double clip, double decay, struct tft_pool *pool)
{
    struct run r;
    double *p, *m, *v, norm, worst = 0;
    real dead[33];

    run_init(&r, mode, clip, decay);
    p = calloc(3 * r.table.reals, sizeof *p);
    REQUIRE(p);
    m = p + r.table.reals;
    v = m + r.table.reals;
    for (size_t i = 0; i < r.table.reals; i++)
        p[i] = (double)r.p[i];
    memcpy(dead, r.p + r.table.params[DEAD].offset, sizeof dead);
    memset(waits, 0, sizeof waits);
    for (int step = 1; step <= STEPS; step++) {
        double all = 0, rate = 1e-3 * sqrt(1 - pow(0.999, step)) / (1 - pow(0.9, step));

        fill_values(r.g, r.table.reals, (uint32_t)(10 + step));
        r.g[r.table.params[DEAD].offset] = (real)NAN;
        for (size_t t = 0; t < TENSORS; t++)
            all += t == DEAD ? 0 : squares_of(&r, t);
        CHECK(tft_adam_step(&r.adam, pool, &r.table, r.p, r.g, &(struct tft_adam_peers){ .wait = count_wait }, &norm) ==
              HALAY_OK);
        CHECK(fabs(norm - sqrt(all)) < 1e-9 * norm, "norm %g instead of %g", norm, sqrt(all));
        for (size_t t = 0; t < TENSORS; t++) {
            double length = sqrt(mode == TFT_CLIP_GLOBAL ? all : squares_of(&r, t));
            double scale = length > clip ? clip / length : 1;
            const struct tft_param *param = &r.table.params[t];

            for (size_t i = param->offset; t != DEAD && i < param->offset + param->count; i++) {
                double g = scale * (double)r.g[i];

                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                p[i] -= rate * m[i] / (sqrt(v[i]) + 1e-7) + (t ? 0 : 1e-3 * decay * p[i]);
                worst = fmax(worst, fabs(p[i] - (double)r.p[i]));
            }
        }
    }
    CHECK(worst < 2e-6, "mode %d: parameters are off by %g", mode, worst);
    CHECK(!memcmp(dead, r.p + r.table.params[DEAD].offset, sizeof dead), "a dead parameter changed");
    for (size_t t = 0; t < TENSORS; t++)
        CHECK(waits[t] == (t == DEAD ? 0 : STEPS), "tensor %zu was waited for %u times", t, waits[t]);
    CHECK(r.adam.step == STEPS);
    free(p);
    run_fini(&r);
}

static void check_threads(enum tft_clip mode)
{
    struct run r[2];

    for (int k = 0; k < 2; k++) {
        struct tft_pool *pool;

        REQUIRE(tft_pool_create(NULL, k ? 4 : 1, &pool) == HALAY_OK);
        run_init(&r[k], mode, 0.01, 0.1);
        fill_values(r[k].g, r[k].table.reals, 5);
        for (int step = 0; step < 20; step++)
            REQUIRE(tft_adam_step(&r[k].adam, pool, &r[k].table, r[k].p, r[k].g, NULL, NULL) == HALAY_OK);
        tft_pool_destroy(pool);
    }
    CHECK(!memcmp(r[0].p, r[1].p, r[0].table.reals * sizeof(real)), "mode %d: one and four threads differ", mode);
    run_fini(&r[0]);
    run_fini(&r[1]);
}

/* Rows of an embedding that are seen once: their moments reach zero and do not stay subnormal. */
static void check_rare(struct tft_pool *pool)
{
    struct run r;
    size_t subnormal = 0;

    run_init(&r, TFT_CLIP_TENSOR, 1e6, 0);
    fill_values(r.g, r.table.reals, 5);
    for (size_t i = 0; i < r.table.reals; i++)
        r.v[i] = (real)1e-36;
    for (int step = 0; step < 300; step++) {
        REQUIRE(tft_adam_step(&r.adam, pool, &r.table, r.p, r.g, NULL, NULL) == HALAY_OK);
        memset(r.g, 0, r.table.reals * sizeof *r.g);
        if (step == 0)
            for (size_t i = 0; i < r.table.reals; i++)
                r.m[i] *= (real)1e-30;
    }
    for (size_t i = 0; i < r.table.reals; i++)
        subnormal += fpclassify(r.m[i]) == FP_SUBNORMAL || fpclassify(r.v[i]) == FP_SUBNORMAL;
    CHECK(subnormal == 0, "%zu moments are subnormal", subnormal);
    CHECK(r.m[0] == 0 && r.v[0] > 0, "moments %g, %g", (double)r.m[0], (double)r.v[0]);
    run_fini(&r);
}

static void check_init(void)
{
    struct tft_param_table table = { 0 };
    enum { IN = 24, OUT = 4 * IN };
    real *w, *again;
    double limit = sqrt(6.0 / (IN + OUT)), worst = 0, largest = 0, mean = 0;
    size_t kernel, recurrent, bias, rows;

    REQUIRE(!tft_params_add(&table, "kernel", IN, OUT, TFT_INIT_GLOROT, &kernel));
    REQUIRE(!tft_params_add(&table, "recurrent", IN, OUT, TFT_INIT_ORTHOGONAL, &recurrent));
    REQUIRE(!tft_params_add(&table, "bias", 0, OUT, TFT_INIT_LSTM_BIAS, &bias));
    REQUIRE(!tft_params_add(&table, "table", 30, IN, TFT_INIT_EMBEDDING, &rows));
    w = calloc(2 * table.reals, sizeof *w);
    REQUIRE(w);
    again = w + table.reals;
    REQUIRE(tft_params_init(&table, 3, w) == HALAY_OK && tft_params_init(&table, 3, again) == HALAY_OK);
    CHECK(!memcmp(w, again, table.reals * sizeof *w), "the same seed gives other values");
    REQUIRE(tft_params_init(&table, 4, again) == HALAY_OK);
    CHECK(memcmp(w, again, IN * OUT * sizeof *w), "another seed gives the same values");
    for (size_t i = 0; i < IN * OUT; i++) {
        largest = fmax(largest, fabs((double)w[kernel + i]));
        mean += (double)w[kernel + i] / (IN * OUT);
    }
    CHECK(largest <= limit && largest > 0.99 * limit && fabs(mean) < 0.1 * limit, "%g of %g, mean %g", largest, limit,
          mean);
    for (size_t a = 0; a < IN; a++)
        for (size_t b = 0; b < IN; b++) {
            double dot = 0;

            for (size_t i = 0; i < OUT; i++)
                dot += (double)w[recurrent + a * OUT + i] * (double)w[recurrent + b * OUT + i];
            worst = fmax(worst, fabs(dot - (a == b)));
        }
    CHECK(worst < 1e-6, "rows are orthonormal up to %g", worst);
    for (size_t i = 0; i < OUT; i++)
        CHECK(w[bias + i] == (i / IN == 1), "bias %zu is %g", i, (double)w[bias + i]);
    for (size_t i = 0; i < 30 * IN; i++)
        CHECK(fabs((double)w[rows + i]) <= 0.05);
    free(w);
    tft_params_fini(&table);
}

int main(void)
{
    struct tft_pool *pool;
    struct run r;

    REQUIRE(tft_pool_create(NULL, 3, &pool) == HALAY_OK);
    check_formula(TFT_CLIP_TENSOR, 1e6, 0, pool);
    check_formula(TFT_CLIP_TENSOR, 0.5, 0, pool);
    check_formula(TFT_CLIP_TENSOR, 100, 0.01, pool);
    check_formula(TFT_CLIP_GLOBAL, 0.01, 0.1, pool);
    check_threads(TFT_CLIP_TENSOR);
    check_threads(TFT_CLIP_GLOBAL);
    check_rare(pool);
    run_init(&r, TFT_CLIP_GLOBAL, 1, 0);
    CHECK(tft_adam_step(&r.adam, pool, &r.table, r.p, r.g, &(struct tft_adam_peers){ .wait = refuse_wait }, NULL) ==
          HALAY_ERR_PEER);
    CHECK(r.adam.step == 0, "a failed update counted");
    run_fini(&r);
    check_init();
    tft_pool_destroy(pool);
    return test_end();
}
