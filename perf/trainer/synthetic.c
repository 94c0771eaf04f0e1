/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/trainer/synthetic.h"
#include "tft/core/kernels/philox.h"
#include <math.h>
#include <string.h>

void tft_synthetic_electricity(struct tft_model_config *config)
{
    static const struct tft_variable variables[] = {
        { "categorical_id", TFT_STATIC, TFT_CATEGORY, 369 }, { "hour", TFT_KNOWN, TFT_REAL, 0 },
        { "day_of_week", TFT_KNOWN, TFT_REAL, 0 },           { "hours_from_start", TFT_KNOWN, TFT_REAL, 0 },
        { "power_usage", TFT_TARGET, TFT_REAL, 0 },
    };

    tft_config_defaults(config);
    memcpy(config->variables, variables, sizeof variables);
    config->variable_count = sizeof variables / sizeof *variables;
}

/* In [0, 1): by sample, step and column. */
static double noise(uint64_t sample, size_t t, size_t column)
{
    const uint32_t key[2] = { 20191209, (uint32_t)column }, counter[4] = { (uint32_t)t, 0, 0, (uint32_t)sample };
    uint32_t draws[4];

    philox(counter, key, draws);
    return draws[0] / 4294967296.0;
}

static double wave(uint64_t sample, size_t t, size_t column)
{
    return sin((double)(sample * 7 + t) * 6.283185307179586 / 24 + (double)column) +
           0.2 * (noise(sample, t, column) - 0.5);
}

static size_t category_of(const struct tft_model_config *config, int is_static, size_t column)
{
    for (size_t i = 0; i < config->variable_count; i++)
        if (config->variables[i].type == TFT_CATEGORY && (config->variables[i].role == TFT_STATIC) == is_static &&
            column-- == 0)
            return config->variables[i].categories;
    return 1;
}

/* Sample b: the series that it is of, and the row of it that it begins with. */
static void fill_sample(const struct tft_model *model, struct tft_batch *batch, size_t b, uint64_t series, size_t row)
{
    const struct tft_model_config *config = tft_model_config(model);
    const struct tft_columns *columns = tft_model_columns(model);
    size_t T = config->E + config->D, targets = columns->targets, first = columns->reals - targets;

    for (size_t t = 0; t < T; t++) {
        for (size_t k = 0; k < columns->reals; k++)
            batch->reals[(b * T + t) * columns->reals + k] = (real)wave(series, row + t, k);
        for (size_t k = 0; k < columns->cats; k++)
            batch->cats[(b * T + t) * columns->cats + k] =
                (int32_t)(noise(series, row + t, 1000 + k) * (double)category_of(config, 0, k));
    }
    for (size_t k = 0; k < columns->static_reals; k++)
        batch->static_reals[b * columns->static_reals + k] = (real)(2 * noise(series, 0, 2000 + k) - 1);
    for (size_t k = 0; k < columns->static_cats; k++)
        batch->static_cats[b * columns->static_cats + k] =
            (int32_t)(noise(series, 0, 3000 + k) * (double)category_of(config, 1, k));
    for (size_t t = 0; t < config->D; t++)
        for (size_t o = 0; o < targets; o++)
            batch->targets[(b * config->D + t) * targets + o] = (real)wave(series, row + config->E + t, first + o);
}

enum halay_status tft_synthetic_fill(void *model, int thread, struct tft_batch *batch)
{
    (void)thread;
    for (size_t b = 0; b < batch->B; b++)
        fill_sample(model, batch, b, batch->position + b, 0);
    return HALAY_OK;
}

enum halay_status tft_synthetic_fill_windows(void *model, int thread, struct tft_batch *batch)
{
    enum { WINDOWS = 1024 }; /* of a series */

    (void)thread;
    for (size_t b = 0; b < batch->B; b++) {
        uint64_t window = batch->position + b;

        fill_sample(model, batch, b, window / WINDOWS, (size_t)(window % WINDOWS));
    }
    return HALAY_OK;
}
