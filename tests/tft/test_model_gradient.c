/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole model, built in double: every gradient against central differences, for each conformance, with dropout,
 * masked targets, shorter histories, ascending quantiles, every loss, every kind of variable, none to three statics,
 * the plain graph and the one with savings; and the two graphs against each other.
 */
#include "perf/trainer/synthetic.h"
#include "tests/tft/model_helpers.h"
#include "tft/core/model/model_impl.h"

struct fixture {
    struct tft_model *model;
    struct tft_workspace *workspace;
    struct tft_pass pass;
    real *params, *gradients;
    size_t B;
};

static void ignore(void *arg, size_t param)
{
    ((unsigned char *)arg)[param]++;
}

static unsigned char finals[1024];

/* Of the models that are made next. */
static enum tft_conformance conformance;
static enum tft_loss learned;
static int shorter, ascending, narrow;

static void variant(struct tft_model_config *config)
{
    config->conformance = conformance;
    config->hidden_continuous = 4;
    config->ascending = ascending;
    config->loss = learned;
    if (tft_loss_is_point(learned))
        config->quantile_count = 1;
    if (narrow) /* every embedding of one number: joint networks are as wide as their inputs */
        config->hidden_continuous = 1;
    for (size_t i = 0; narrow && i < config->variable_count; i++)
        if (config->variables[i].type == TFT_CATEGORY)
            config->variables[i].categories = 2;
}

static void load(struct fixture *f)
{
    struct tft_batch *batch = tft_workspace_batch(f->workspace, f->B, 5);

    REQUIRE(tft_synthetic_fill(f->model, 0, batch) == HALAY_OK);
    if (shorter)
        batch->lengths[0] = 2;
    for (size_t i = 0; i < f->B * f->model->config.D * f->model->columns.targets && learned; i++) {
        batch->weights[i] = 0.5 + (real)(i % 3); /* a row's */
        batch->offsets[i] = 0.25 * (real)(i % 5);
        batch->targets[i] = tft_loss_is_unscaled(learned) ? floor(5 * fabs(batch->targets[i])) : batch->targets[i];
    }
    for (size_t i = 0; i < f->B * f->model->columns.targets && learned; i++)
        batch->units[i] = 1.5 + (real)i;
    batch->weights[1] = 0;
    batch->targets[1] = NAN; /* a masked target may hold anything */
    REQUIRE(tft_workspace_check(f->workspace) == HALAY_OK);
}

static double gradient_of(struct fixture *f)
{
    double loss;

    load(f);
    tft_model_gradient(f->workspace, &f->pass, f->gradients, &loss);
    return loss;
}

/* Forward alone, with dropout: what tft_model_gradient begins with. The batch is loaded. */
static double loss_of(void *arg)
{
    const struct fixture *f = arg;
    const struct tft_model_config *config = tft_model_config(f->model);
    const struct tft_batch *batch = &f->workspace->batch;
    const struct pass pass = { .queue = f->workspace->queue,
                               .p = f->params,
                               .derived = f->workspace->derived,
                               .B = f->B,
                               .dropout = dropout_of(config->dropout, f->pass.seed, f->pass.step, batch->position) };

    model_forward(f->workspace, &pass);
    const struct outputs_run run = { .D = config->D,
                                     .B = f->B,
                                     .P = tft_config_outputs(config),
                                     .O = tft_model_columns(f->model)->targets,
                                     .loss = config->loss,
                                     .quantiles = config->quantiles,
                                     .power = config->tweedie_power,
                                     .scale = f->pass.loss_scale * f->model->loss_factor,
                                     .p = f->workspace->output,
                                     .y = batch->targets,
                                     .w = batch->weights,
                                     .offsets = batch->offsets,
                                     .units = batch->units };
    double loss;

    kernel_loss(f->workspace->queue, &run, &loss, NULL);
    return loss;
}

static void setup(struct fixture *f, const struct tft_model_config *config, size_t B)
{
    size_t reals;

    REQUIRE(tft_model_create(NULL, config, &f->model) == HALAY_OK);
    REQUIRE(tft_workspace_create(NULL, f->model, &f->workspace) == HALAY_OK);
    reals = tft_model_params(f->model)->reals;
    f->params = calloc(reals, sizeof(real));
    f->gradients = calloc(reals, sizeof(real));
    REQUIRE(f->params && f->gradients);
    fill_params(tft_model_params(f->model), 3, f->params);
    f->B = B;
    f->pass = (struct tft_pass){
        .params = f->params, .seed = 11, .step = 4, .loss_scale = 0.5, .final = ignore, .arg = finals
    };
}

static void teardown(struct fixture *f)
{
    free(f->params);
    free(f->gradients);
    tft_workspace_destroy(f->workspace);
    tft_model_destroy(f->model);
}

static void check_differences(size_t statics, size_t targets, int plain, double dropout, size_t B)
{
    struct tft_model_config config;
    struct fixture f;
    const struct tft_param_table *table;
    real *gradients;

    tiny_config(&config, statics, targets);
    config.plain = plain;
    config.dropout = dropout;
    variant(&config);
    setup(&f, &config, B);
    table = tft_model_params(f.model);
    gradients = malloc(table->reals * sizeof(real));
    REQUIRE(gradients);
    for (size_t i = 0; i < table->reals; i++)
        gradients[i] = f.gradients[i] = 999; /* written, not added to */
    memset(finals, 0, sizeof finals);
    gradient_of(&f);
    memcpy(gradients, f.gradients, table->reals * sizeof(real));
    for (size_t p = 0; p < table->count; p++) {
        const struct tft_param *param = &table->params[p];

        CHECK(finals[p] == !param->dead, "%s was final %d times", param->name, finals[p]);
        if (param->dead) {
            for (size_t i = 0; i < param->count; i++)
                CHECK(gradients[param->offset + i] == 999, "dead %s was written", param->name);
            memset(gradients + param->offset, 0, param->count * sizeof(real));
        }
    }
    for (size_t p = 0; p < table->count; p++) {
        const struct tft_param *param = &table->params[p];
        double error =
            gradient_error(f.params + param->offset, gradients + param->offset, param->count, 8, loss_of, &f);

        CHECK(error < 1e-6, "%s is off by %g of its largest (statics %zu targets %zu plain %d dropout %g B %zu)",
              param->name, error, statics, targets, plain, dropout, B);
    }
    free(gradients);
    teardown(&f);
}

/* Savings change rounding only: the plain graph's loss, gradients and forecasts. */
static void check_savings(size_t statics, double dropout)
{
    struct tft_model_config config;
    struct fixture f[2];
    const struct tft_param_table *table;
    double loss[2], worst = 0;
    const real *forecasts[2];

    tiny_config(&config, statics, 1);
    config.dropout = dropout;
    variant(&config);
    for (int plain = 0; plain < 2; plain++) {
        config.plain = plain;
        setup(&f[plain], &config, 3);
        loss[plain] = gradient_of(&f[plain]);
    }
    table = tft_model_params(f[0].model);
    CHECK(fabs(loss[0] - loss[1]) < 1e-12, "%.17g %.17g", loss[0], loss[1]);
    for (size_t i = 0; i < table->reals; i++)
        worst = fmax(worst, fabs((double)(f[0].gradients[i] - f[1].gradients[i])));
    CHECK(worst < 1e-11, "gradients differ by %g", worst);
    for (int plain = 0; plain < 2; plain++)
        tft_model_predict(f[plain].workspace, &f[plain].pass, &forecasts[plain], NULL);
    worst = 0;
    for (size_t i = 0; i < 3 * config.D * config.quantile_count; i++)
        worst = fmax(worst, fabs((double)(forecasts[0][i] - forecasts[1][i])));
    CHECK(worst < 1e-12, "forecasts differ by %g", worst);
    teardown(&f[0]);
    teardown(&f[1]);
}

/* Windows that begin one step after each other, of one entity: their forecasts in the two graphs. */
static void check_windows(size_t statics)
{
    struct tft_model_config config;
    struct fixture f[2];
    const real *forecasts[2];
    double worst = 0;

    tiny_config(&config, statics, 1);
    variant(&config);
    for (int plain = 0; plain < 2; plain++) {
        struct tft_batch *batch;
        const struct tft_columns *columns;
        size_t T = config.E + config.D;

        config.plain = plain;
        setup(&f[plain], &config, 3);
        columns = tft_model_columns(f[plain].model);
        load(&f[plain]);
        batch = tft_workspace_batch(f[plain].workspace, 3, 5);
        for (size_t b = 1; b < 3; b++) {
            real *reals = batch->reals + b * T * columns->reals;
            int32_t *cats = batch->cats + b * T * columns->cats;

            memcpy(batch->static_reals + b * columns->static_reals, batch->static_reals,
                   columns->static_reals * sizeof(real));
            memcpy(batch->static_cats + b * columns->static_cats, batch->static_cats,
                   columns->static_cats * sizeof(int32_t));
            memmove(reals, reals - (T - 1) * columns->reals, (T - 1) * columns->reals * sizeof(real));
            memmove(cats, cats - (T - 1) * columns->cats, (T - 1) * columns->cats * sizeof(int32_t));
            if (shorter)
                batch->lengths[b] = 2;
        }
        tft_model_predict(f[plain].workspace, &f[plain].pass, &forecasts[plain], NULL);
    }
    CHECK(f[0].workspace->alike && !f[1].workspace->alike);
    for (size_t i = 0; i < 3 * config.D * config.quantile_count; i++)
        worst = fmax(worst, fabs((double)(forecasts[0][i] - forecasts[1][i])));
    CHECK(worst < 1e-12, "forecasts of %zu statics differ by %g", statics, worst);
    teardown(&f[0]);
    teardown(&f[1]);
}

/* The targets' and observed variables' future must not be read: no forecast without it would be possible. */
static void check_causality(void)
{
    struct tft_model_config config;
    struct fixture f;
    const real *forecast;
    real before[9];
    struct tft_batch *batch;
    const struct tft_columns *columns;
    size_t T;

    tiny_config(&config, 1, 1);
    setup(&f, &config, 1);
    columns = tft_model_columns(f.model);
    T = config.E + config.D;
    load(&f);
    tft_model_predict(f.workspace, &f.pass, &forecast, NULL);
    memcpy(before, forecast, sizeof before);
    batch = tft_workspace_batch(f.workspace, 1, 5);
    for (size_t t = config.E; t < T; t++) {
        batch->reals[t * columns->reals] = NAN;                      /* wind */
        batch->reals[t * columns->reals + columns->reals - 1] = NAN; /* load */
        batch->cats[t * columns->cats] = -1;                         /* state */
    }
    CHECK(tft_workspace_check(f.workspace) == HALAY_OK, "codes of an observed future were read");
    tft_model_predict(f.workspace, &f.pass, &forecast, NULL);
    CHECK(!memcmp(before, forecast, sizeof before), "the future was read");

    /* The last step's known inputs reach the last forecast only. */
    load(&f);
    batch->reals[(T - 1) * columns->reals + 1] += 1;
    tft_model_predict(f.workspace, &f.pass, &forecast, NULL);
    CHECK(!memcmp(before, forecast, 6 * sizeof(real)), "attention looks ahead");
    CHECK(memcmp(before + 6, forecast + 6, 3 * sizeof(real)), "the last known inputs are lost");
    teardown(&f);
}

int main(void)
{
    for (size_t statics = 0; statics <= 3; statics++)
        check_differences(statics, 1, 0, 0.25, 3);
    check_differences(1, 2, 1, 0.25, 2);
    check_differences(2, 2, 0, 0, 1);
    for (size_t statics = 0; statics <= 3; statics++) {
        check_savings(statics, 0.25);
        check_savings(statics, 0);
        check_windows(statics);
    }
    check_causality();
    shorter = ascending = 1;
    for (int whose = 0; whose < 3; whose++) {
        conformance = (enum tft_conformance)whose;
        for (size_t statics = 0; statics <= 1; statics++)
            check_differences(statics, 2, 0, 0.25, 2);
        check_savings(1, 0.25);
        check_savings(3, 0);
        check_windows(2);
    }
    narrow = 1;
    check_differences(3, 1, 0, 0.25, 2);
    check_savings(3, 0);
    conformance = TFT_PUBLISHED;
    shorter = ascending = narrow = 0;
    for (int which = TFT_LOSS_MAE; which <= TFT_LOSS_STUDENT_T; which++) {
        learned = (enum tft_loss)which;
        check_differences(1, 2, 0, 0.25, 2);
    }
    return test_end();
}
