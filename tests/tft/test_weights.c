/* SPDX-License-Identifier: Apache-2.0
 *
 * What a forecast weighed: the plain graph's weights and those of the graph that shares rows are the same, for samples
 * with equal and with different static inputs, with short histories and with a last granule that is not full; they sum
 * to one, and attention sees neither the future nor padding. A variable that is alone weighs 1.
 */
#include "tests/tft/model_helpers.h"

enum { SAMPLES = 3, ROOM = SAMPLES * 2 * 5 * 8 * 8 };

struct copied {
    real statics[ROOM], history[ROOM], future[ROOM], attention[ROOM];
};

struct sizes {
    size_t B, V[TFT_CHOICES];
};

/* Windows of one series, a step apart; alike: of one entity. */
static void fill(const struct tft_model *model, struct tft_batch *batch, int alike)
{
    const struct tft_columns *columns = tft_model_columns(model);
    const struct tft_model_config *config = tft_model_config(model);
    size_t T = config->E + config->D;

    for (size_t b = 0; b < batch->B; b++) {
        for (size_t t = 0; t < T; t++) {
            fill_values(batch->reals + (b * T + t) * columns->reals, columns->reals, 10 + (uint32_t)(b + t));
            for (size_t k = 0; k < columns->cats; k++)
                batch->cats[(b * T + t) * columns->cats + k] = (int32_t)((b + t + k) % 2);
        }
        fill_values(batch->static_reals + b * columns->static_reals, columns->static_reals,
                    alike ? 5 : 5 + (uint32_t)b);
        for (size_t k = 0; k < columns->static_cats; k++)
            batch->static_cats[b * columns->static_cats + k] = alike ? 1 : (int32_t)(b % 2);
    }
    batch->lengths[batch->B - 1] = 2;
}

static void forecast(const struct tft_model_config *config, size_t B, int alike, struct copied *copied)
{
    struct tft_model *model;
    struct tft_workspace *workspace;
    const real *predictions;

    REQUIRE(tft_model_create(NULL, config, &model) == HALAY_OK);
    REQUIRE(tft_workspace_create(NULL, model, &workspace) == HALAY_OK);
    size_t reals = tft_model_params(model)->reals;
    real *params = calloc(reals, sizeof *params);
    REQUIRE(params);
    fill_params(tft_model_params(model), 3, params);
    fill(model, tft_workspace_batch(workspace, B, 0), alike);
    REQUIRE(tft_workspace_check(workspace) == HALAY_OK);
    tft_model_predict(workspace, &(struct tft_pass){ .params = params, .loss_scale = 1 }, &predictions, NULL);
    const struct tft_weights to = { copied->statics, copied->history, copied->future, copied->attention };
    tft_workspace_weights(workspace, &to);
    tft_workspace_weights(workspace, &(struct tft_weights){ 0 });
    free(params);
    tft_workspace_destroy(workspace);
    tft_model_destroy(model);
}

static void check_rows(const char *what, const real *a, const real *b, size_t rows, size_t V)
{
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;

        for (size_t j = 0; j < V; j++) {
            double x = (double)a[r * V + j], y = (double)b[r * V + j];
            CHECK(x >= 0 && x <= 1 && fabs(x - y) < 1e-9, "%s row %zu of %zu: %g and %g", what, r, V, x, y);
            sum += x;
        }
        CHECK(fabs(sum - 1) < 1e-9, "%s row %zu sums to %g", what, r, sum);
    }
}

/* Step h of sample b sees its own steps up to itself, and no padding. */
static void check_mask(const struct tft_model_config *c, size_t B, const real *attention)
{
    size_t T = c->E + c->D;

    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < c->heads * c->D; i++)
            for (size_t t = 0; t < T; t++) {
                int seen = t <= c->E + i % c->D && (b < B - 1 || t >= c->E - 2);
                real a = attention[(b * c->heads * c->D + i) * T + t];
                CHECK((a > 0) == seen, "sample %zu, query %zu, step %zu: %g", b, i, t, (double)a);
            }
}

static void check_model(size_t statics, size_t B, int alike)
{
    static struct copied plain, saving;
    struct tft_model_config config;
    struct sizes n = { .B = B };

    tiny_config(&config, statics, 1);
    for (int choice = 0; choice < TFT_CHOICES; choice++) {
        size_t variables[TFT_VARIABLES_MAX];
        n.V[choice] = tft_config_choice(&config, (enum tft_choice)choice, variables);
    }
    memset(&plain, 0, sizeof plain);
    memset(&saving, 0, sizeof saving);
    forecast(&config, B, alike, &saving);
    config.plain = 1;
    forecast(&config, B, alike, &plain);
    if (statics)
        check_rows("static", saving.statics, plain.statics, B, n.V[TFT_CHOICE_STATIC]);
    /* the last sample's first steps are padding */
    check_rows("past", saving.history, plain.history, (B - 1) * config.E, n.V[TFT_CHOICE_HISTORY]);
    check_rows("past", saving.history + (B * config.E - 2) * n.V[TFT_CHOICE_HISTORY],
               plain.history + (B * config.E - 2) * n.V[TFT_CHOICE_HISTORY], 2, n.V[TFT_CHOICE_HISTORY]);
    check_rows("future", saving.future, plain.future, B * config.D, n.V[TFT_CHOICE_FUTURE]);
    check_rows("attention", saving.attention, plain.attention, B * config.heads * config.D, config.E + config.D);
    check_mask(&config, B, saving.attention);
}

int main(void)
{
    for (size_t statics = 0; statics <= 3; statics++)
        for (int alike = 0; alike <= 1; alike++)
            for (size_t B = 1; B <= SAMPLES; B++)
                check_model(statics, B, alike);
    return test_end();
}
