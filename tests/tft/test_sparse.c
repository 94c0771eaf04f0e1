/* SPDX-License-Identifier: Apache-2.0
 *
 * Sparse gradients against whole tables, to the last bit: sums of rows, their squares, and a first step of a model by
 * one to five threads and by one to four ranks that touch the same rows. In later steps rows that none touches keep
 * value and moments. A table that is small, or of which a step touches much, stays whole.
 */
#include "perf/trainer/synthetic.h"
#include "tests/tft/model_helpers.h"
#include "tft/core/kernels/call.h"
#include "tft/core/train/adam.h"

enum { ROWS = 900, MOST = 60 };

/* n codes of which some repeat. */
static void fill_codes(int32_t *codes, size_t n, uint32_t seed)
{
    real x[MOST];

    fill_values(x, n, seed);
    for (size_t i = 0; i < n; i++)
        codes[i] = (int32_t)(fabs((double)x[i]) * (i % 3 ? ROWS : 5));
}

/* A sparse gradient as a table: what Adam without memory leaves as the first moment. */
static void spread(struct queue *queue, const real *sparse, struct sparse shape, real *table)
{
    const struct adam_run run = { .epsilon = 1 };
    real *v = calloc(2 * ROWS * shape.W, sizeof *v);

    REQUIRE(v);
    memset(table, 0, ROWS * shape.W * sizeof *table);
    kernel_sparse_adam(queue, &run, sparse, shape, table, v, v + ROWS * shape.W);
    free(v);
}

static void check_sums(struct queue *queue, size_t W)
{
    static const size_t parts[] = { 20, 0, 13, 27 }; /* MOST together */
    const struct sparse shape = { MOST, W };
    size_t slot = sparse_reals(MOST, W), table = ROWS * W;
    real *memory = calloc(3 * table + 4 * slot + MOST * W, sizeof *memory);
    real *whole = memory, *part = memory + table, *got = part + table, *slots = got + table, *x = slots + 4 * slot;
    double squares, wanted;

    REQUIRE(memory);
    for (size_t k = 0; k < 4; k++) {
        int32_t codes[MOST];

        fill_codes(codes, parts[k], (uint32_t)k);
        fill_values(x, parts[k] * W, (uint32_t)(90 + k));
        for (size_t i = 0; k == 0 && i < W; i++)
            x[i] = (real)-0.; /* of a sum that begins at +0 nothing is left */
        memset(part, 0, table * sizeof *part);
        if (parts[k])
            kernel_rows_put(queue, x, codes, parts[k], W, part, NULL);
        kernel_add(queue, part, table, whole);
        kernel_sparse_put(queue, x, codes, parts[k], shape, slots + k * slot, NULL);
        if (k)
            kernel_sparse_add(queue, slots + k * slot, shape, slots);
    }
    spread(queue, slots, shape, got);
    CHECK(!memcmp(got, whole, table * sizeof *got), "width %zu: sums differ", W);
    kernel_squares(queue, whole, table, &wanted);
    kernel_sparse_squares(queue, slots, shape, &squares);
    CHECK(W % 32 ? fabs(squares - wanted) < 1e-12 * wanted : squares == wanted, "width %zu: squares %.17g, not %.17g",
          W, squares, wanted);
    free(memory);
}

/* A model with a table that is sparse from `sparse_rows` on, and its update. */
struct trainer {
    struct tft_model *model;
    struct tft_pool *pool;
    struct tft_workers *workers;
    const struct tft_param_table *table;
    struct tft_adam adam;
    real *params, *gradients, *slots; /* (reals), (ranks, reals), and the ranks' sparse gradients of one tensor */
    size_t ranks;
};

static void trainer_init(struct trainer *t, size_t categories, size_t sparse_rows, int threads, size_t ranks)
{
    struct tft_model_config config;

    tiny_config(&config, 1, 1);
    config.H = 32;
    config.granule = 2;
    config.variables[0].categories = categories;
    config.variables[2].categories = 2000;
    config.sparse_rows = sparse_rows;
    config.step_samples = 11;
    REQUIRE(tft_model_create(NULL, &config, &t->model) == HALAY_OK);
    REQUIRE(tft_pool_create(NULL, threads, &t->pool) == HALAY_OK);
    REQUIRE(tft_workers_create(NULL, t->model, t->pool, 8, &t->workers) == HALAY_OK);
    t->table = tft_model_params(t->model);
    t->ranks = ranks;
    t->params = calloc(3 * t->table->reals, sizeof(real));
    t->gradients = calloc(ranks * t->table->reals, sizeof(real));
    t->slots = calloc(ranks * t->table->reals, sizeof(real));
    REQUIRE(t->params && t->gradients && t->slots && tft_params_init(t->table, 1, t->params) == HALAY_OK);
    tft_adam_defaults(&t->adam);
    t->adam.m = t->params + t->table->reals;
    t->adam.v = t->adam.m + t->table->reals;
}

static void trainer_fini(struct trainer *t)
{
    tft_adam_fini(&t->adam);
    tft_workers_destroy(t->workers);
    tft_pool_destroy(t->pool);
    tft_model_destroy(t->model);
    free(t->params);
    free(t->gradients);
    free(t->slots);
}

/* As the engine leaves them: gathered, or summed along the tree at the first rank. */
static enum halay_status exchange(void *arg, struct queue *queue, size_t param)
{
    struct trainer *t = arg;
    const struct tft_param *p = &t->table->params[param];
    size_t reals = sparse_reals(p->sparse.most, p->sparse.W), block = t->table->reals;
    real *own = t->gradients + p->offset;

    (void)queue;
    for (size_t r = 0; p->sparse.most && r < t->ranks; r++)
        memcpy(t->slots + p->offset * t->ranks + r * reals, own + r * block, reals * sizeof(real));
    for (size_t distance = 1; !p->sparse.most && distance < t->ranks; distance *= 2)
        for (size_t r = 0; r + distance < t->ranks; r += 2 * distance)
            for (size_t i = 0; i < p->count; i++)
                own[r * block + i] += own[(r + distance) * block + i];
    return HALAY_OK;
}

static size_t slots_of(void *arg, size_t param, real **slots)
{
    const struct trainer *t = arg;

    *slots = t->slots + t->table->params[param].offset * t->ranks;
    return t->ranks;
}

static double train(struct trainer *t, uint32_t number)
{
    const struct tft_adam_peers peers = { .wait = exchange, .slots = slots_of, .arg = t };
    double loss, norm;

    for (size_t r = 0; r < t->ranks; r++) {
        struct tft_step step = { .params = t->params,
                                 .gradients = t->gradients + r * t->table->reals,
                                 .seed = 9,
                                 .step = number,
                                 .samples = 11,
                                 .loss_scale = 1. / 33,
                                 .fill = tft_synthetic_fill,
                                 .fill_arg = t->model };

        REQUIRE(!tft_granules_of_rank(6, (int)r, (int)t->ranks, 0, &step.first, &step.count));
        REQUIRE(!tft_step_run(t->workers, &step, &loss));
    }
    REQUIRE(!tft_adam_step(&t->adam, t->pool, t->table, t->params, t->gradients, &peers, &norm));
    return norm;
}

static void check_first_step(int threads, size_t ranks, enum tft_clip mode)
{
    struct trainer t[2];
    double norms[2];

    for (size_t k = 0; k < 2; k++) {
        trainer_init(&t[k], 900, k ? 500 : 0, threads, ranks);
        t[k].adam.clip_mode = mode;
        norms[k] = train(&t[k], 1);
    }
    CHECK(t[1].table->params[0].sparse.most == 11, "the table of 900 rows is not sparse");
    CHECK(norms[0] == norms[1], "%d threads, %zu ranks: norms %.17g and %.17g", threads, ranks, norms[0], norms[1]);
    CHECK(!memcmp(t[0].params, t[1].params, 3 * t[0].table->reals * sizeof(real)),
          "%d threads, %zu ranks, clipping %d: whole and sparse differ", threads, ranks, mode);
    trainer_fini(&t[0]);
    trainer_fini(&t[1]);
}

/* Of a row of a table: value and moments of an optimizer with decay. */
static void check_lazy(void)
{
    struct trainer t;
    real *before;
    size_t changed = 0, W = 32, reals;

    trainer_init(&t, 900, 500, 2, 1);
    t.adam.weight_decay = .5;
    reals = t.table->reals;
    before = malloc(3 * reals * sizeof *before);
    REQUIRE(before);
    train(&t, 1);
    t.adam.learning_rate = 0; /* moments move on, values do not */
    memcpy(before, t.params, 3 * reals * sizeof *before);
    train(&t, 2);
    CHECK(!memcmp(t.params, before, reals * sizeof *before), "a rate of 0 changes values");
    for (size_t row = 0; row < 900; row++)
        changed += memcmp(t.adam.m + row * W, before + reals + row * W, W * sizeof *before) != 0;
    CHECK(changed > 0 && changed <= 11, "%zu rows of 11 samples have other moments", changed);
    for (size_t i = 0; i < 900 * W; i++) /* a row that was never touched has none, and has not decayed */
        changed += t.adam.v[i] == 0;
    CHECK(changed >= (900 - 11) * W, "rows that none touched have moments");
    free(before);
    trainer_fini(&t);
}

static void check_which(void)
{
    struct trainer t;

    trainer_init(&t, 900, 901, 1, 1);
    CHECK(!t.table->params[0].sparse.most, "a table below 'sparse_rows' is sparse");
    trainer_fini(&t);
    trainer_init(&t, 43, 1, 1, 1);
    CHECK(!t.table->params[0].sparse.most, "a table of which a step touches a quarter is sparse");
    trainer_fini(&t);
    trainer_init(&t, 44, 1, 1, 1);
    CHECK(t.table->params[0].sparse.most == 11, "a table of four times as many rows is not sparse");
    for (size_t i = 0; i < t.table->count; i++) /* a category of each of 5 steps */
        if (!strcmp(t.table->params[i].name, "input.state.table"))
            CHECK(t.table->params[i].sparse.most == 55 && t.table->params[i].sparse.W == 32, "a category by step");
    trainer_fini(&t);
}

int main(void)
{
    const struct queue_needs needs = { 0 };
    struct queue *queue;

    REQUIRE(!tft_kernels_cpu()->open(&needs, &queue));
    check_sums(queue, 1);
    check_sums(queue, 5);
    check_sums(queue, 32);
    tft_kernels_cpu()->close(queue);
    for (int threads = 1; threads <= 5; threads += 2)
        check_first_step(threads, 1, TFT_CLIP_TENSOR);
    for (size_t ranks = 2; ranks <= 4; ranks++)
        check_first_step(2, ranks, ranks % 2 ? TFT_CLIP_GLOBAL : TFT_CLIP_TENSOR);
    check_lazy();
    check_which();
    return test_end();
}
