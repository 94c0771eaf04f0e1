/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps over granules: the Electricity model's size; the same bits for one to five threads, and for one, two and four
 * emulated ranks whose parts are added in the tree's order; a last granule that is not full; each living parameter
 * final once; a failing fill; training that learns; wrong configurations and codes.
 */
#include "base/memory.h"
#include "perf/trainer/arithmetic.h"
#include "perf/trainer/synthetic.h"
#include "tests/counting.h"
#include "tests/tft/model_helpers.h"
#include "tft/core/kernels/gemm.h"
#include "tft/core/train/adam.h"
#include <pthread.h>

struct trainer {
    struct tft_model *model;
    struct tft_pool *pool;
    struct tft_workers *workers;
    real *params;
    size_t reals;
};

static void trainer_init(struct trainer *t, const struct tft_model_config *config, int threads, size_t granules)
{
    REQUIRE(tft_model_create(NULL, config, &t->model) == HALAY_OK);
    REQUIRE(tft_pool_create(NULL, threads, &t->pool) == HALAY_OK);
    REQUIRE(tft_workers_create(NULL, t->model, t->pool, granules, &t->workers) == HALAY_OK);
    t->reals = tft_model_params(t->model)->reals;
    t->params = calloc(t->reals, sizeof(real));
    REQUIRE(t->params && tft_params_init(tft_model_params(t->model), 1, t->params) == HALAY_OK);
}

static void trainer_fini(struct trainer *t)
{
    free(t->params);
    tft_workers_destroy(t->workers);
    tft_pool_destroy(t->pool);
    tft_model_destroy(t->model);
}

static unsigned finals[1024];

static void count_final(void *arg, size_t param)
{
    (void)arg;
    __atomic_add_fetch(&finals[param], 1, __ATOMIC_RELAXED);
}

/* One rank's part of a step. */
static real *part_of_step(struct trainer *t, size_t samples, int rank, int ranks, double *loss)
{
    size_t size = tft_model_config(t->model)->granule;
    const struct tft_param_table *table = tft_model_params(t->model);
    struct tft_step step = { .params = t->params,
                             .seed = 9,
                             .step = 3,
                             .samples = samples,
                             .loss_scale = 1.0 / (double)(samples * tft_model_config(t->model)->D),
                             .fill = tft_synthetic_fill,
                             .fill_arg = t->model,
                             .final = count_final };
    real *gradients = malloc(t->reals * sizeof *gradients);

    REQUIRE(gradients &&
            tft_granules_of_rank((samples + size - 1) / size, rank, ranks, 1, &step.first, &step.count) == 0);
    for (size_t i = 0; i < t->reals; i++)
        gradients[i] = 999;
    step.gradients = gradients;
    memset(finals, 0, sizeof finals);
    REQUIRE(tft_step_run(t->workers, &step, loss) == HALAY_OK);
    for (size_t p = 0; p < table->count; p++)
        CHECK(finals[p] == !table->params[p].dead, "%s was final %u times (%zu samples, rank %d of %d)",
              table->params[p].name, finals[p], samples, rank, ranks);
    return gradients;
}

/* What an all-reduce in the order of the tree gives. */
static real *sum_of_ranks(struct trainer *t, size_t samples, int ranks, double *loss)
{
    real *parts[8];
    double losses[8];

    for (int r = 0; r < ranks; r++)
        parts[r] = part_of_step(t, samples, r, ranks, &losses[r]);
    for (int distance = 1; distance < ranks; distance *= 2)
        for (int r = 0; r + distance < ranks; r += 2 * distance) {
            for (size_t i = 0; i < t->reals; i++)
                parts[r][i] += parts[r + distance][i];
            losses[r] += losses[r + distance];
        }
    for (int r = 1; r < ranks; r++)
        free(parts[r]);
    *loss = losses[0];
    return parts[0];
}

static void step_config(struct tft_model_config *config)
{
    tiny_config(config, 1, 1);
    config->H = 8;
    config->granule = 2;
}

static void check_bits(void)
{
    static const size_t samples[] = { 1, 2, 3, 8, 11, 16, 26 };
    struct tft_model_config config;
    struct trainer one;

    step_config(&config);
    trainer_init(&one, &config, 1, 13);
    for (size_t s = 0; s < sizeof samples / sizeof *samples; s++) {
        double loss, other;
        real *whole = part_of_step(&one, samples[s], 0, 1, &loss), *sum;
        const struct tft_param_table *table = tft_model_params(one.model);

        for (size_t p = 0; p < table->count; p++) /* compare below what is alive */
            for (size_t i = 0; table->params[p].dead && i < table->params[p].count; i++) {
                CHECK(whole[table->params[p].offset + i] == 999, "a dead gradient was written");
                whole[table->params[p].offset + i] = 0;
            }
        for (int threads = 2; threads <= 5; threads++) {
            struct trainer many;

            trainer_init(&many, &config, threads, 13);
            sum = part_of_step(&many, samples[s], 0, 1, &other);
            for (size_t p = 0; p < table->count; p++)
                if (!table->params[p].dead)
                    CHECK(!memcmp(sum + table->params[p].offset, whole + table->params[p].offset,
                                  table->params[p].count * sizeof *sum),
                          "%zu samples, %d threads: %s differs", samples[s], threads, table->params[p].name);
            CHECK(loss == other, "%zu samples, %d threads: loss %.17g and %.17g", samples[s], threads, loss, other);
            free(sum);
            trainer_fini(&many);
        }
        for (int ranks = 2; ranks <= 8; ranks *= 2) {
            sum = sum_of_ranks(&one, samples[s], ranks, &other);
            for (size_t p = 0; p < table->count; p++)
                if (!table->params[p].dead)
                    CHECK(!memcmp(sum + table->params[p].offset, whole + table->params[p].offset,
                                  table->params[p].count * sizeof *sum),
                          "%zu samples, %d ranks: %s differs", samples[s], ranks, table->params[p].name);
            CHECK(loss == other, "%zu samples, %d ranks: loss %.17g and %.17g", samples[s], ranks, loss, other);
            free(sum);
        }
        free(whole);
    }
    trainer_fini(&one);
}

static void check_cut(void)
{
    size_t first, count;

    for (int exact = 0; exact < 2; exact++)
        for (size_t n = 0; n < 70; n++)
            for (int ranks = 1; ranks <= 16; ranks += exact ? ranks : 1) {
                size_t next = 0;

                for (int r = 0; r < ranks; r++) {
                    REQUIRE(tft_granules_of_rank(n, r, ranks, exact, &first, &count) == HALAY_OK);
                    CHECK(count == 0 || first == next, "n %zu rank %d of %d begins at %zu", n, r, ranks, first);
                    next += count;
                    CHECK(exact || count - n / (size_t)ranks <= 1, "n %zu rank %d of %d: uneven", n, r, ranks);
                }
                CHECK(next == n, "n %zu over %d ranks: %zu", n, ranks, next);
            }
    CHECK(tft_granules_of_rank(6, 1, 2, 1, &first, &count) == HALAY_OK && first == 4 && count == 2);
    CHECK(tft_granules_of_rank(8, 0, 3, 1, &first, &count) == HALAY_ERR_ARGUMENT);
    CHECK(tft_granules_of_rank(8, 3, 3, 0, &first, &count) == HALAY_ERR_ARGUMENT);
}

/* Matrices are aligned (heads follow the first one without a gap), and so is a block that follows another; there are
 * no other gaps. */
static void check_places(const struct tft_param_table *table)
{
    size_t end = 0;

    for (size_t p = 0; p < table->count; p++) {
        const struct tft_param *param = &table->params[p];
        int is_head = strstr(param->name, "attention.query.") || strstr(param->name, "attention.key.");
        int is_aligned = param->dimensions == 2 && (!is_head || strstr(param->name, ".0.kernel"));
        size_t place = is_aligned ? halay_round_up(end, TFT_ALIGNMENT) : end;

        CHECK(param->offset == place, "%s is at %zu, not at %zu", param->name, param->offset, place);
        end = param->offset + param->count;
    }
    CHECK(table->reals == halay_round_up(end, TFT_ALIGNMENT), "a block of %zu reals", table->reals);
}

static void check_electricity(void)
{
    struct tft_model_config config;
    struct tft_model *model;
    const struct tft_param_table *table;
    size_t dead = 0;
    double products[TFT_PART_COUNT], sum = 0;

    tft_synthetic_electricity(&config);
    REQUIRE(tft_model_create(NULL, &config, &model) == HALAY_OK);
    table = tft_model_params(model);
    CHECK(tft_model_param_count(model) == 2504363, "%zu parameters", tft_model_param_count(model));
    CHECK(table->count == 224, "%zu tensors", table->count);
    for (size_t p = 0; p < table->count; p++) {
        dead += table->params[p].dead ? table->params[p].count : 0;
        for (size_t q = 0; q < p; q++)
            CHECK(strcmp(table->params[p].name, table->params[q].name), "%s twice", table->params[p].name);
    }
    tft_model_products(model, products);
    for (int part = 0; part < TFT_PART_COUNT; part++)
        sum += products[part];
    CHECK(fabs(sum - 145.0e6) < 0.1e6, "%g multiply-adds a sample", sum); /* 233.7 million without the savings */
    CHECK(dead == 52005, "%zu dead", dead);
    check_places(table);
    tft_model_destroy(model);
}

/* The numbers of parameters that papers and codes give. */
static void check_counts(void)
{
    static const struct {
        enum tft_conformance conformance;
        size_t H, ids, count;
    } cases[] = { { TFT_PUBLISHED, 320, 963, 10037163 }, { TFT_NVIDIA, 128, 369, 1617449 } };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_model_config config;
        struct tft_model *model;

        tft_synthetic_electricity(&config);
        config.H = cases[i].H;
        config.variables[0].categories = cases[i].ids;
        config.conformance = cases[i].conformance;
        REQUIRE(tft_model_create(NULL, &config, &model) == HALAY_OK);
        CHECK(tft_model_param_count(model) == cases[i].count, "%zu parameters instead of %zu",
              tft_model_param_count(model), cases[i].count);
        check_places(tft_model_params(model));
        tft_model_destroy(model);
    }
}

/* Initial values: the spread of a few tensors, by whose model it is. */
static void check_initial(void)
{
    static const struct {
        enum tft_conformance conformance;
        const char *name;
        double deviation; /* 0: all zero */
    } cases[] = {
        { TFT_NVIDIA, "input.categorical_id.table", 1 },
        { TFT_NVIDIA, "enrichment.dense1.kernel", 0.125 / 1.7320508 }, /* uniform, 1 / sqrt(64) */
        { TFT_NVIDIA, "enrichment.dense1.bias", 0.125 / 1.7320508 },
        { TFT_NVIDIA, "encoder.recurrent", 0.125 / 1.7320508 },
        { TFT_NVIDIA, "input.hour.kernel", 0.17277369 }, /* normal, sqrt(2 / (3 + 64)) */
        { TFT_NVIDIA, "input.hour.bias", 0 },
        { TFT_PYTORCH_FORECASTING, "enrichment.dense1.kernel", 0.17677670 }, /* normal, sqrt(2 / 64) */
        { TFT_PYTORCH_FORECASTING, "enrichment.dense1.bias", 0 },
        { TFT_PYTORCH_FORECASTING, "enrichment.value.kernel", 0.17677670 / 1.7320508 }, /* uniform, sqrt(6 / 192) */
        { TFT_PYTORCH_FORECASTING, "history.joint.skip.mask", 0 },
        { TFT_PYTORCH_FORECASTING, "encoder.recurrent.bias", 0.125 / 1.7320508 },
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tft_model_config config;
        struct trainer t;
        const struct tft_param *param = NULL;
        double squares = 0;

        tft_synthetic_electricity(&config);
        config.H = 64;
        config.conformance = cases[i].conformance;
        trainer_init(&t, &config, 1, 1);
        for (size_t p = 0; p < tft_model_params(t.model)->count; p++)
            if (!strcmp(tft_model_params(t.model)->params[p].name, cases[i].name))
                param = &tft_model_params(t.model)->params[p];
        REQUIRE(param);
        for (size_t k = 0; k < param->count; k++)
            squares += pow((double)t.params[param->offset + k], 2);
        squares = sqrt(squares / (double)param->count);
        CHECK(fabs(squares - cases[i].deviation) <= cases[i].deviation * 3 / sqrt((double)param->count),
              "%s spreads by %g instead of %g", cases[i].name, squares, cases[i].deviation);
        trainer_fini(&t);
    }
}

static enum halay_status failing_fill(void *arg, int thread, struct tft_batch *batch)
{
    enum halay_status status = tft_synthetic_fill(arg, thread, batch);

    return batch->position == 6 ? HALAY_ERR_FORMAT : status;
}

static enum halay_status wrong_code(void *arg, int thread, struct tft_batch *batch)
{
    enum halay_status status = tft_synthetic_fill(arg, thread, batch);

    batch->static_cats[0] = 4;
    return status;
}

struct taken {
    unsigned char sample[32];
    double loss;
    pthread_mutex_t lock;
    real forecasts[32 * 3 * 3];
};

static enum halay_status take(void *arg, int thread, const struct tft_batch *batch, const real *predictions,
                              double loss)
{
    struct taken *taken = arg;

    (void)thread;
    pthread_mutex_lock(&taken->lock);
    for (size_t b = 0; b < batch->B; b++)
        taken->sample[batch->position + b]++;
    memcpy(taken->forecasts + batch->position * 9, predictions, batch->B * 9 * sizeof(real));
    taken->loss += loss;
    pthread_mutex_unlock(&taken->lock);
    return HALAY_OK;
}

/* Products of rounded factors: near the exact ones, never the same; the same whatever the threads. */
static void check_bf16(void)
{
    struct tft_model_config config;
    struct trainer exact, rounded, threads;
    double losses[3], difference = 0, norm = 0;
    real *gradients[3];

    if (tft_bf16_here() == TFT_BF16_NONE) {
        printf("no bf16 products here: not tested\n");
        return;
    }
    step_config(&config);
    config.H = 32;
    trainer_init(&exact, &config, 1, 4);
    config.dtype = TFT_BF16;
    trainer_init(&rounded, &config, 1, 4);
    trainer_init(&threads, &config, 3, 4);
    gradients[0] = part_of_step(&exact, 8, 0, 1, &losses[0]);
    gradients[1] = part_of_step(&rounded, 8, 0, 1, &losses[1]);
    gradients[2] = part_of_step(&threads, 8, 0, 1, &losses[2]);
    for (size_t i = 0; i < exact.reals; i++) {
        difference += pow((double)(gradients[1][i] - gradients[0][i]), 2);
        norm += gradients[0][i] == 999 ? 0 : pow((double)gradients[0][i], 2);
    }
    CHECK(difference > 0 && difference < 0.1 * 0.1 * norm, "gradient off by %g of its norm", sqrt(difference / norm));
    CHECK(losses[0] != losses[1] && fabs(losses[1] / losses[0] - 1) < 0.01, "loss %g and %g", losses[0], losses[1]);
    CHECK(losses[1] == losses[2] && !memcmp(gradients[1], gradients[2], exact.reals * sizeof(real)),
          "threads change the bits");
    for (int i = 0; i < 3; i++)
        free(gradients[i]);
    trainer_fini(&exact);
    trainer_fini(&rounded);
    trainer_fini(&threads);
}

/* 60 steps; a failing one among them. *first: the first one's loss. */
static void train_steps(struct trainer *t, struct tft_adam *adam, real *gradients, double *first)
{
    double loss = 0;

    for (uint32_t step = 0; step < 60; step++) {
        struct tft_step one = { .params = t->params,
                                .gradients = gradients,
                                .seed = 1,
                                .step = step,
                                .samples = 15,
                                .count = 8,
                                .loss_scale = 1.0 / (15 * 3),
                                .fill = tft_synthetic_fill,
                                .fill_arg = t->model };

        if (step == 10)
            counting_start();
        if (step == 5) {
            one.fill = failing_fill;
            CHECK(tft_step_run(t->workers, &one, &loss) == HALAY_ERR_FORMAT);
            one.fill = wrong_code;
            CHECK(tft_step_run(t->workers, &one, &loss) == HALAY_ERR_ARGUMENT);
            one.fill = tft_synthetic_fill;
        }
        REQUIRE(tft_step_run(t->workers, &one, &loss) == HALAY_OK);
        *first = step ? *first : loss;
        REQUIRE(tft_adam_step(adam, t->pool, tft_model_params(t->model), t->params, gradients, NULL, NULL) == HALAY_OK);
    }
    long calls = counting_stop();
    if (!CHECK(calls == 0 || !counting_is_possible(), "50 steps asked for memory %ld times", calls))
        counting_show(0);
    CHECK(loss < 0.5 * *first, "the loss went from %g to %g", *first, loss);
}

/* Each sample is seen once. */
static void check_evaluation(struct trainer *t, double first)
{
    struct taken taken = { .lock = PTHREAD_MUTEX_INITIALIZER };
    struct tft_forward forward = { .params = t->params,
                                   .samples = 31,
                                   .fill = tft_synthetic_fill,
                                   .fill_arg = t->model,
                                   .take = take,
                                   .take_arg = &taken,
                                   .with_loss = 1 };

    CHECK(tft_forward_run(t->workers, &forward) == HALAY_OK);
    for (size_t i = 0; i < 31; i++)
        CHECK(taken.sample[i] == 1, "sample %zu was taken %d times", i, taken.sample[i]);
    CHECK(taken.loss / (31 * 3) < first, "evaluation's loss %g", taken.loss / (31 * 3));
    CHECK(isfinite(taken.forecasts[31 * 9 - 1]));
    forward.fill = failing_fill;
    CHECK(tft_forward_run(t->workers, &forward) == HALAY_ERR_FORMAT);
}

/* It learns, and asks the allocator for nothing once it has made its first steps; an evaluation sees each sample once
 * and its loss falls; an error ends a step and the next one works. */
static void check_training(void)
{
    struct tft_model_config config;
    struct trainer t;
    struct tft_adam adam;
    real *gradients, *moments;
    double first = 0;

    step_config(&config);
    config.dropout = 0.1;
    trainer_init(&t, &config, 2, 8);
    gradients = calloc(t.reals, sizeof *gradients);
    moments = calloc(2 * t.reals, sizeof *moments);
    REQUIRE(gradients && moments);
    tft_adam_defaults(&adam);
    adam.learning_rate = 0.01;
    adam.m = moments;
    adam.v = moments + t.reals;
    train_steps(&t, &adam, gradients, &first);
    check_evaluation(&t, first);
    tft_adam_fini(&adam);
    free(gradients);
    free(moments);
    trainer_fini(&t);
}

/* What is not known ahead differs in the decoder's part: no number, another code. */
static enum halay_status other_future(void *arg, int thread, struct tft_batch *batch)
{
    enum halay_status status = tft_synthetic_fill(arg, thread, batch);
    size_t E = 5, T = 8, wind = 0, load = 2;

    for (size_t b = 0; b < batch->B; b++)
        for (size_t t = E; t < T; t++) {
            batch->reals[(b * T + t) * 3 + wind] = batch->reals[(b * T + t) * 3 + load] = NAN;
            batch->cats[(b * T + t) * 2] = (batch->cats[(b * T + t) * 2] + 1) % 3;
        }
    return status;
}

/* The past reads it: a code that changes there changes forecasts. */
static enum halay_status other_past(void *arg, int thread, struct tft_batch *batch)
{
    enum halay_status status = other_future(arg, thread, batch);

    for (size_t b = 0; b < batch->B; b++)
        batch->cats[(b * 8 + 4) * 2] = (batch->cats[(b * 8 + 4) * 2] + 1) % 3;
    return status;
}

/* Nothing behind the origin is read but what is known ahead. */
static void check_future(enum tft_conformance conformance)
{
    static const tft_fill fills[] = { tft_synthetic_fill, other_future, other_past };
    struct tft_model_config config;
    struct trainer t;
    struct taken taken[3] = { { .loss = 0 } };

    step_config(&config);
    config.conformance = conformance;
    trainer_init(&t, &config, 1, 8);
    for (int i = 0; i < 3; i++) {
        struct tft_forward forward = { .params = t.params,
                                       .samples = 16,
                                       .fill = fills[i],
                                       .fill_arg = t.model,
                                       .take = take,
                                       .take_arg = &taken[i] };
        pthread_mutex_init(&taken[i].lock, NULL);
        REQUIRE(tft_forward_run(t.workers, &forward) == HALAY_OK);
    }
    CHECK(!memcmp(taken[0].forecasts, taken[1].forecasts, 16 * 9 * sizeof(real)), "the future is read, conformance %d",
          conformance);
    CHECK(memcmp(taken[0].forecasts, taken[2].forecasts, 16 * 9 * sizeof(real)), "the past is not, conformance %d",
          conformance);
    trainer_fini(&t);
}

static void refused(const struct tft_model_config *config, const char *what)
{
    struct tft_model *model = NULL;

    CHECK(tft_model_create(NULL, config, &model) == HALAY_ERR_ARGUMENT && !model, "accepted: %s", what);
}

static void check_refusals(void)
{
    struct tft_model_config good, config;
    size_t order[TFT_VARIABLES_MAX];

#define REFUSED(what)            \
    do {                         \
        config = good;           \
        what;                    \
        refused(&config, #what); \
    } while (0)

    tiny_config(&good, 2, 1);
    REFUSED(config.H = 0);
    REFUSED(config.heads = 4);
    REFUSED(config.E = 0);
    REFUSED(config.D = SIZE_MAX);
    REFUSED(config.dropout = 1);
    REFUSED(config.dropout = NAN);
    REFUSED(config.quantiles[1] = 0.1);
    REFUSED(config.quantile_count = 17);
    REFUSED(config.granule = 0);
    REFUSED((config.conformance = TFT_PYTORCH_FORECASTING, config.hidden_continuous = config.H + 1));
    REFUSED(config.variables[1].categories = 0);
    REFUSED(config.variables[0].categories = 3);
    REFUSED(config.variables[0].name[0] = 0);
    REFUSED(config.variables[3].role = TFT_KNOWN);
    REFUSED(config.variable_count--);
    REFUSED(strcpy(config.variables[0].name, "hour"));
    REFUSED(config.variable_count = TFT_VARIABLES_MAX + 1);
    config = good;
    config.variables[0] = good.variables[6]; /* target first */
    config.variables[6] = good.variables[0];
    refused(&config, "disorder");
    tft_config_sort(&config, order);
    CHECK(!memcmp(config.variables, good.variables, sizeof good.variables), "not sorted back");
    CHECK(order[0] == 6 && order[6] == 0 && order[1] == 1);
}

int main(void)
{
    check_electricity();
    check_counts();
    check_initial();
    check_cut();
    check_bits();
    check_bf16();
    check_training();
    check_future(TFT_PUBLISHED);
    check_future(TFT_NVIDIA);
    check_future(TFT_PYTORCH_FORECASTING);
    check_refusals();
    return test_end();
}
