/* SPDX-License-Identifier: Apache-2.0
 *
 * What the model's tests share: numbers from a seed, central differences, small configurations.
 */
#ifndef TFT_MODEL_HELPERS_H
#define TFT_MODEL_HELPERS_H

#include "tests/test.h"
#include "tft/core/kernels/philox.h"
#include "tft/core/model/gradients.h"
#include <math.h>
#include <string.h>

/* Value i of a seed, in (-1, 1). */
__attribute__((unused)) static real value_of(uint32_t seed, size_t i)
{
    const uint32_t key[2] = { seed, 77 }, counter[4] = { (uint32_t)i, 0, 0, 0 };
    uint32_t draws[4];

    philox(counter, key, draws);
    return (real)(2 * ((draws[0] + 0.5) / 4294967296.0) - 1);
}

/* The first n of them. */
__attribute__((unused)) static void fill_values(real *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = value_of(seed, i);
}

/* The same in all tensors of a block, wherever they are; gaps are left alone. */
__attribute__((unused)) static void fill_params(const struct tft_param_table *table, uint32_t seed, real *block)
{
    size_t n = 0;

    for (size_t t = 0; t < table->count; t++)
        for (size_t i = 0; i < table->params[t].count; i++)
            block[table->params[t].offset + i] = value_of(seed, n++);
}

/* sum of c_i y_i: a scalar whose gradient with respect to y is c. */
__attribute__((unused)) static double weighted(const real *c, const real *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)c[i] * (double)y[i];
    return sum;
}

/* The slope of loss(arg) along *x: differences of the fourth order, since layer norm of few elements bends sharply. */
__attribute__((unused)) static double slope(real *x, double (*loss)(void *arg), void *arg)
{
    const double h = 1e-4;
    real kept = *x;
    double at[4];

    for (int k = 0; k < 4; k++) {
        *x = kept + (real)(h * (k < 2 ? k - 2 : k - 1)); /* -2 h, -h, h, 2 h */
        at[k] = loss(arg);
    }
    *x = kept;
    return (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h);
}

/* The largest error of gradient against central differences of loss(arg) over x, relative to the gradient's largest
 * element (or to 1e-4, for gradients so small that rounding shows). Of a long x only about `most` elements are taken,
 * spread evenly. */
__attribute__((unused)) static double gradient_error(real *x, const real *gradient, size_t n, size_t most,
                                                     double (*loss)(void *arg), void *arg)
{
    double error = 0, largest = 1e-4;
    size_t stride = n > most ? n / most + 1 : 1;

    for (size_t i = 0; i < n; i++) {
        if (i % stride == 0)
            error = fmax(error, fabs(slope(&x[i], loss, arg) - (double)gradient[i]));
        largest = fmax(largest, fabs((double)gradient[i]));
    }
    return error / largest;
}

__attribute__((unused)) static void add_variable(struct tft_model_config *config, const char *name, enum tft_role role,
                                                 enum tft_type type, size_t categories)
{
    struct tft_variable *variable = &config->variables[config->variable_count++];

    memset(variable, 0, sizeof *variable);
    snprintf(variable->name, sizeof variable->name, "%s", name);
    variable->role = role;
    variable->type = type;
    variable->categories = categories;
}

/* A tiny model with every kind of variable: statics (0 to 3 of them), observed and known reals and categories,
 * targets. */
__attribute__((unused)) static void tiny_config(struct tft_model_config *config, size_t statics, size_t targets)
{
    tft_config_defaults(config);
    config->H = 6;
    config->heads = 2;
    config->E = 5;
    config->D = 3;
    config->dropout = 0.25;
    config->granule = 3;
    if (statics > 1)
        add_variable(config, "area", TFT_STATIC, TFT_REAL, 0);
    if (statics > 0)
        add_variable(config, "id", TFT_STATIC, TFT_CATEGORY, 4);
    if (statics > 2)
        add_variable(config, "region", TFT_STATIC, TFT_CATEGORY, 2);
    add_variable(config, "wind", TFT_OBSERVED, TFT_REAL, 0);
    add_variable(config, "state", TFT_OBSERVED, TFT_CATEGORY, 3);
    add_variable(config, "hour", TFT_KNOWN, TFT_REAL, 0);
    add_variable(config, "holiday", TFT_KNOWN, TFT_CATEGORY, 2);
    for (size_t o = 0; o < targets; o++)
        add_variable(config, o ? "second" : "load", TFT_TARGET, TFT_REAL, 0);
}

#endif
