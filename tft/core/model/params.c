/* SPDX-License-Identifier: Apache-2.0
 *
 * The table and the initial values. Draws: Philox with key (seed, hash of the parameter's name) and counter (block low,
 * block high, 0, "init"), four draws per block.
 */
#include "tft/core/model/params.h"
#include "base/memory.h"
#include "tft/core/kernels/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INIT_COUNTER = 0x696e6974 };

enum halay_status tft_params_add(struct tft_param_table *table, const char *name, size_t rows, size_t columns,
                                 enum tft_init init, size_t *offset)
{
    struct tft_param *param;
    size_t count = columns, reals, bytes;

    if (strlen(name) > TFT_PARAM_NAME_MAX)
        return HALAY_ERR_ARGUMENT;
    if ((rows && halay_mul_overflows(rows, columns, &count)) || halay_add_overflows(table->reals, count, &reals) ||
        halay_mul_overflows(reals, sizeof(real), &bytes))
        return HALAY_ERR_ARGUMENT;
    if (halay_list_grow(&table->params, table->count, &table->capacity, sizeof *table->params))
        return HALAY_ERR_NO_MEMORY;
    param = &table->params[table->count++];
    *param = (struct tft_param){ .dimensions = rows ? 2 : 1,
                                 .shape = { rows ? rows : columns, rows ? columns : 1 },
                                 .offset = table->reals,
                                 .count = count,
                                 .init = init,
                                 .decays = rows && init != TFT_INIT_EMBEDDING };
    strcpy(param->name, name);
    table->reals = reals;
    if (offset)
        *offset = param->offset;
    return HALAY_OK;
}

/* No overflow: the block's bytes do not. */
void tft_params_align(struct tft_param_table *table)
{
    table->reals = halay_round_up(table->reals, TFT_ALIGNMENT);
}

size_t tft_params_count(const struct tft_param_table *table)
{
    size_t count = 0;

    for (size_t i = 0; i < table->count; i++)
        count += table->params[i].count;
    return count;
}

size_t tft_params_room(const struct tft_param_table *table, size_t i)
{
    size_t end = i + 1 < table->count ? table->params[i + 1].offset : table->reals;

    return end - table->params[i].offset;
}

void tft_params_fini(struct tft_param_table *table)
{
    free(table->params);
    memset(table, 0, sizeof *table);
}

/* Draw i of a parameter, in (0, 1). */
static double draw_uniform(uint32_t seed, uint32_t name, size_t i)
{
    const uint32_t key[2] = { seed, name };
    const uint32_t counter[4] = { (uint32_t)(i / 4), (uint32_t)((uint64_t)i / 4 >> 32), 0, INIT_COUNTER };
    uint32_t draws[4];

    philox(counter, key, draws);
    return (draws[i % 4] + 0.5) / 4294967296.0;
}

static void init_uniform(real *w, size_t count, double limit, uint32_t seed, uint32_t name)
{
    for (size_t i = 0; i < count; i++)
        w[i] = (real)((2 * draw_uniform(seed, name, i) - 1) * limit);
}

static double draw_normal(uint32_t seed, uint32_t name, size_t i)
{
    const double turn = 6.283185307179586;

    return sqrt(-2 * log(draw_uniform(seed, name, 2 * i))) * cos(turn * draw_uniform(seed, name, 2 * i + 1));
}

/* rows <= columns: orthonormal rows, by Gram-Schmidt (twice, which is as accurate as a QR) from normal draws: the same
 * distribution as the orthogonal factor of a normal matrix. */
static enum halay_status init_orthogonal(real *w, size_t rows, size_t columns, uint32_t seed, uint32_t name)
{
    double *q = malloc(rows * columns * sizeof *q);

    if (!q)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < rows * columns; i++)
        q[i] = draw_normal(seed, name, i);
    for (size_t r = 0; r < rows; r++) {
        double *row = q + r * columns, norm = 0;

        for (size_t k = 0; k < 2 * r; k++) {
            const double *other = q + k % r * columns;
            double along = 0;

            for (size_t i = 0; i < columns; i++)
                along += row[i] * other[i];
            for (size_t i = 0; i < columns; i++)
                row[i] -= along * other[i];
        }
        for (size_t i = 0; i < columns; i++)
            norm += row[i] * row[i];
        norm = sqrt(norm);
        for (size_t i = 0; i < columns; i++)
            row[i] /= norm;
    }
    for (size_t i = 0; i < rows * columns; i++)
        w[i] = (real)q[i];
    free(q);
    return HALAY_OK;
}

static enum halay_status init_param(const struct tft_param *param, uint32_t seed, real *w)
{
    uint32_t name = fnv1a(param->name);
    size_t quarter = param->count / 4;

    switch (param->init) {
    case TFT_INIT_GLOROT:
        init_uniform(w, param->count, sqrt(6.0 / (double)(param->shape[0] + param->shape[1])), seed, name);
        return HALAY_OK;
    case TFT_INIT_EMBEDDING:
        init_uniform(w, param->count, 0.05, seed, name);
        return HALAY_OK;
    case TFT_INIT_ORTHOGONAL:
        return init_orthogonal(w, param->shape[0], param->shape[1], seed, name);
    case TFT_INIT_UNIFORM:
        init_uniform(w, param->count, param->spread, seed, name);
        return HALAY_OK;
    case TFT_INIT_NORMAL:
        for (size_t i = 0; i < param->count; i++)
            w[i] = (real)(param->spread * draw_normal(seed, name, i));
        return HALAY_OK;
    case TFT_INIT_ZERO:
    case TFT_INIT_ONE:
    case TFT_INIT_LSTM_BIAS:
        break;
    }
    for (size_t i = 0; i < param->count; i++) /* the forget gate's bias is the second quarter */
        w[i] = param->init == TFT_INIT_ONE || (param->init == TFT_INIT_LSTM_BIAS && i / quarter == 1);
    return HALAY_OK;
}

enum halay_status tft_params_init(const struct tft_param_table *table, uint32_t seed, real *block)
{
    for (size_t i = 0; i < table->count; i++) {
        enum halay_status status = init_param(&table->params[i], seed, block + table->params[i].offset);

        if (status)
            return status;
    }
    return HALAY_OK;
}
