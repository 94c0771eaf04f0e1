/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss, forecast and every gradient against an independent PyTorch model's, for each conformance, without and with
 * dropout, shorter histories, ascending quantiles and a second target: tests/reference/
 * has the model, its results, and the formulas for parameters and samples that are repeated here. Built in float and in
 * double; the graph with the exact savings and the plain one.
 */
#include "tests/tft/model_helpers.h"

enum { B = 3, E = 6, D = 3, T = E + D };

#ifdef TFT_DOUBLE
static const double tolerance = 1e-8, absolute = 1e-12; /* the file has ten digits */
#else
static const double tolerance = 1e-5, absolute = 1e-7;
#endif

/* One line of the file: kind, name, values. */
struct line {
    char kind[16], name[TFT_PARAM_NAME_MAX + 1];
    size_t count;
    double values[256];
};

static int read_line(FILE *file, struct line *line)
{
    if (fscanf(file, "%15s %127s %zu", line->kind, line->name, &line->count) != 3)
        return 0;
    REQUIRE(line->count <= sizeof line->values / sizeof *line->values);
    for (size_t i = 0; i < line->count; i++)
        REQUIRE(fscanf(file, "%lf", &line->values[i]) == 1);
    return 1;
}

/* values: those of the case's line. */
static void reference_config(struct tft_model_config *config, const double *values, int plain)
{
    tft_config_defaults(config);
    config->H = 4;
    config->heads = 2;
    config->E = E;
    config->D = D;
    config->granule = B;
    config->conformance = (enum tft_conformance)values[0];
    config->dropout = values[1];
    config->ascending = values[3] != 0;
    config->hidden_continuous = 3;
    config->plain = plain;
    add_variable(config, "area", TFT_STATIC, TFT_REAL, 0);
    add_variable(config, "height", TFT_STATIC, TFT_REAL, 0);
    add_variable(config, "region", TFT_STATIC, TFT_CATEGORY, 3);
    add_variable(config, "wind", TFT_OBSERVED, TFT_REAL, 0);
    add_variable(config, "state", TFT_OBSERVED, TFT_CATEGORY, 3);
    add_variable(config, "hour", TFT_KNOWN, TFT_REAL, 0);
    add_variable(config, "price", TFT_KNOWN, TFT_REAL, 0);
    add_variable(config, "holiday", TFT_KNOWN, TFT_CATEGORY, 2);
    add_variable(config, "load", TFT_TARGET, TFT_REAL, 0);
    if (values[4] > 1)
        add_variable(config, "gas", TFT_TARGET, TFT_REAL, 0);
}

static void reference_params(const struct tft_param_table *table, real *block)
{
    for (size_t p = 0; p < table->count; p++) {
        const struct tft_param *param = &table->params[p];

        for (size_t k = 0; k < param->count; k++)
            block[param->offset + k] = (real)(0.5 * sin(fnv1a(param->name) % 1000 + 1.7 * (double)k));
    }
}

static void reference_samples(struct tft_batch *batch, size_t targets, int shorter)
{
    static const size_t lengths[B] = { E, 4, 1 };
    size_t reals = 3 + targets;

    for (size_t b = 0; b < B; b++) {
        for (size_t k = 0; k < 2; k++) /* area, height */
            batch->static_reals[b * 2 + k] = (real)sin(1.0 + 2.0 * (double)b + (double)k);
        batch->static_cats[b] = (int32_t)(b * 5 % 3);
        for (size_t t = 0; t < T; t++) {
            double phase = 0.7 * (double)t + 1.3 * (double)b;

            for (size_t k = 0; k < reals; k++) /* wind, hour, price, load, gas; the padding is not read */
                batch->reals[(b * T + t) * reals + k] =
                    shorter && t < E - lengths[b] ? (real)NAN : (real)sin(phase + (double)k);
            batch->cats[(b * T + t) * 2] = (int32_t)((t + 2 * b) % 3);
            batch->cats[(b * T + t) * 2 + 1] = (int32_t)((2 * t + b) % 2 * (t % 2));
        }
        for (size_t t = 0; t < D; t++)
            for (size_t o = 0; o < targets; o++)
                batch->targets[(b * D + t) * targets + o] =
                    (real)sin(0.4 * (double)t + 0.9 * (double)b + 0.5 * (double)o);
        if (shorter)
            batch->lengths[b] = lengths[b];
    }
    batch->weights[(1 * D + 2) * targets] = 0;
}

/* The norm of the difference against that of the reference; the floor is for gradients that nearly cancel. */
static void compare(const struct line *line, const real *values, const char *graph)
{
    double difference = 0, norm = 0;

    for (size_t i = 0; i < line->count; i++) {
        difference += pow((double)values[i] - line->values[i], 2);
        norm += pow(line->values[i], 2);
    }
    CHECK(sqrt(difference) <= tolerance * sqrt(norm) + absolute, "%s %s, %s graph: off by %g of %g", line->kind,
          line->name, graph, sqrt(difference), sqrt(norm));
}

static const struct tft_param *param_named(const struct tft_param_table *table, const char *name)
{
    for (size_t p = 0; p < table->count; p++)
        if (!strcmp(table->params[p].name, name))
            return &table->params[p];
    return NULL;
}

/* The lines from one case on, up to the next; returns whether there is a next one, whose first line is in *line. */
static int run_case(FILE *file, struct line *line, int plain)
{
    struct tft_model_config config;
    struct tft_model *model;
    struct tft_workspace *workspace;
    const char *graph = plain ? "plain" : "default";
    double dropout = line->values[1], loss;
    size_t targets = (size_t)line->values[4];
    int shorter = line->values[2] != 0;
    real *params, *gradients, scalar;
    const real *forecast;
    size_t tensors = 0;
    int more;

    reference_config(&config, line->values, plain);
    REQUIRE(tft_model_create(NULL, &config, &model) == HALAY_OK);
    REQUIRE(tft_workspace_create(NULL, model, &workspace) == HALAY_OK);
    params = calloc(2 * tft_model_params(model)->reals, sizeof *params);
    REQUIRE(params);
    gradients = params + tft_model_params(model)->reals;
    reference_params(tft_model_params(model), params);
    struct tft_pass pass = {
        .params = params, .seed = 21, .step = 5, .loss_scale = 1.0 / (double)(B * D * targets - 1)
    };

    reference_samples(tft_workspace_batch(workspace, B, 16), targets, shorter);
    REQUIRE(tft_workspace_check(workspace) == HALAY_OK);
    tft_model_gradient(workspace, &pass, gradients, &loss);
    tft_model_predict(workspace, &pass, &forecast, NULL);
    while ((more = read_line(file, line)) && strcmp(line->kind, "case")) {
        const struct tft_param *param;

        if (!strcmp(line->kind, "loss")) {
            scalar = (real)loss;
            compare(line, &scalar, graph);
        } else if (!strcmp(line->kind, "forecast")) {
            if (dropout == 0) /* ours is made without */
                compare(line, forecast, graph);
        } else {
            param = param_named(tft_model_params(model), line->name);
            CHECK(param && param->count == line->count, "%s is not ours or has another size", line->name);
            if (param && param->count == line->count)
                compare(line, gradients + param->offset, graph);
            tensors++;
        }
    }
    CHECK(tensors == tft_model_params(model)->count, "%zu tensors, ours are %zu", tensors,
          tft_model_params(model)->count);
    free(params);
    tft_workspace_destroy(workspace);
    tft_model_destroy(model);
    return more;
}

int main(void)
{
    const char *source = getenv("top_srcdir");
    char path[4096];

    snprintf(path, sizeof path, "%s/tests/reference/tft_reference.txt", source ? source : ".");
    for (int plain = 0; plain < 2; plain++) {
        FILE *file = fopen(path, "r");
        struct line line;

        if (!file) {
            fprintf(stderr, "cannot read %s; set top_srcdir\n", path);
            return 99;
        }
        REQUIRE(read_line(file, &line) && !strcmp(line.kind, "case"));
        while (run_case(file, &line, plain))
            ;
        fclose(file);
    }
    return test_end();
}
