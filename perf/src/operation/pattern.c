/* SPDX-License-Identifier: Apache-2.0
 *
 * Pattern: filling and checking are copies and comparisons of one block that repeats, so that they cost less than what
 * is measured between them. Any state from all zeros on may be given to fini.
 */
#include "perf/src/operation/pattern.h"
#include "base/half.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A few kilobytes: they fit the first cache, and are worth a memcpy. */
enum { PERIOD = 5, BLOCK = PERIOD * 512 };

static void put_element(enum halay_dtype dtype, void *base, size_t i, double value)
{
    switch (dtype) {
    case HALAY_F32:
        ((float *)base)[i] = (float)value;
        break;
    case HALAY_F64:
        ((double *)base)[i] = value;
        break;
    case HALAY_F16:
        ((uint16_t *)base)[i] = halay_f32_to_f16((float)value);
        break;
    case HALAY_BF16:
        ((uint16_t *)base)[i] = halay_f32_to_bf16((float)value);
        break;
    case HALAY_I32:
        ((int32_t *)base)[i] = (int32_t)value;
        break;
    case HALAY_I64:
        ((int64_t *)base)[i] = (int64_t)value;
        break;
    case HALAY_U16:
    case HALAY_I16:
        ((uint16_t *)base)[i] = (uint16_t)(int64_t)value;
        break;
    default:
        ((uint8_t *)base)[i] = (uint8_t)(int64_t)value;
        break;
    }
}

static double get(enum halay_dtype dtype, const void *base, size_t i)
{
    switch (dtype) {
    case HALAY_F32:
        return (double)((const float *)base)[i];
    case HALAY_F64:
        return ((const double *)base)[i];
    case HALAY_F16:
        return (double)halay_f16_to_f32(((const uint16_t *)base)[i]);
    case HALAY_BF16:
        return (double)halay_bf16_to_f32(((const uint16_t *)base)[i]);
    case HALAY_I32:
        return ((const int32_t *)base)[i];
    case HALAY_I64:
        return (double)((const int64_t *)base)[i];
    case HALAY_U16:
    case HALAY_I16:
        return ((const uint16_t *)base)[i];
    default:
        return ((const uint8_t *)base)[i];
    }
}

/* Distance between 1 and the next number. */
static double epsilon(enum halay_dtype dtype)
{
    switch (dtype) {
    case HALAY_F32:
        return 0x1p-23;
    case HALAY_F64:
        return 0x1p-52;
    case HALAY_F16:
        return 0x1p-10;
    case HALAY_BF16:
        return 0x1p-7;
    default:
        return 0;
    }
}

static double element(enum halay_dtype dtype, size_t phase)
{
    return (double)(dtype == HALAY_BOOL ? phase % PERIOD & 1 : phase % PERIOD + 1);
}

/* Modulo 2^64: each integer type keeps the lower part. */
static void put_product(enum halay_dtype dtype, void *base, size_t i, int size)
{
    size_t bytes = halay_dtype_size(dtype);
    uint64_t integer = 1;
    double real = 1;

    for (int r = 0; r < size; r++) {
        real *= element(dtype, i + (size_t)r);
        integer *= (uint64_t)element(dtype, i + (size_t)r);
    }
    if (epsilon(dtype) > 0)
        put_element(dtype, base, i, real);
    else
        for (size_t k = 0; k < bytes; k++) /* as the machine has it: least significant first */
            ((unsigned char *)base)[i * bytes + k] = (unsigned char)(integer >> 8 * k);
}

static double reduced(enum halay_dtype dtype, enum halay_reduction op, size_t i, int size)
{
    double sum = 0, least = INFINITY, most = -INFINITY;
    unsigned both = ~0u, any = 0;

    for (int r = 0; r < size; r++) {
        double x = element(dtype, i + (size_t)r);
        sum += x;
        least = fmin(least, x);
        most = fmax(most, x);
        both &= (unsigned)x;
        any |= (unsigned)x;
    }
    switch (op) {
    case HALAY_MIN:
        return least;
    case HALAY_MAX:
        return most;
    case HALAY_AVERAGE:
        return sum / size;
    case HALAY_BIT_AND:
        return both;
    case HALAY_BIT_OR:
        return any;
    default:
        return dtype == HALAY_BOOL ? most : sum;
    }
}

/* A block, and PERIOD elements more, so that it can be read from any phase. */
static unsigned char *new_block(const struct perf_pattern *pattern)
{
    return calloc(BLOCK + PERIOD, halay_dtype_size(pattern->dtype));
}

enum halay_status perf_pattern_init(struct perf_pattern *pattern, enum halay_dtype dtype)
{
    struct perf_pattern p = { .dtype = dtype };

    p.plain = new_block(&p);
    p.zeros = new_block(&p);
    if (!p.plain || !p.zeros) {
        perf_pattern_fini(&p);
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < BLOCK + PERIOD; i++)
        put_element(dtype, p.plain, i, element(dtype, i));
    *pattern = p;
    return HALAY_OK;
}

enum halay_status perf_pattern_reduce(struct perf_pattern *pattern, enum halay_reduction op, int size)
{
    double e = epsilon(pattern->dtype);

    pattern->reduced = new_block(pattern);
    if (!pattern->reduced)
        return HALAY_ERR_NO_MEMORY;
    for (size_t i = 0; i < BLOCK + PERIOD; i++)
        if (op == HALAY_PRODUCT)
            put_product(pattern->dtype, pattern->reduced, i, size);
        else
            put_element(pattern->dtype, pattern->reduced, i, reduced(pattern->dtype, op, i, size));
    /* Whole numbers up to 2 / epsilon are exact. A quotient may be rounded one way or the other, sums beyond that range
     * and products at every step. */
    if (e > 0 && (op == HALAY_AVERAGE || op == HALAY_PRODUCT || (op == HALAY_SUM && (double)PERIOD * size > 2 / e)))
        pattern->tolerance = e * (op == HALAY_AVERAGE ? 1 : size);
    return HALAY_OK;
}

void perf_pattern_fini(struct perf_pattern *pattern)
{
    free(pattern->plain);
    free(pattern->reduced);
    free(pattern->zeros);
    pattern->plain = pattern->reduced = pattern->zeros = NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Compares with block, repeated. */
static void copy_blocks(const unsigned char *block, size_t element_bytes, void *buffer, size_t count)
{
    for (size_t i = 0; i < count; i += BLOCK)
        memcpy((unsigned char *)buffer + i * element_bytes, block, least(count - i, BLOCK) * element_bytes);
}

void perf_pattern_fill(const struct perf_pattern *pattern, size_t phase, void *buffer, size_t count)
{
    size_t bytes = halay_dtype_size(pattern->dtype);

    copy_blocks(pattern->plain + phase % PERIOD * bytes, bytes, buffer, count);
}

void perf_pattern_clear(const struct perf_pattern *pattern, void *buffer, size_t count)
{
    copy_blocks(pattern->zeros, halay_dtype_size(pattern->dtype), buffer, count);
}

static size_t wrong_in_block(enum halay_dtype dtype, double tolerance, const unsigned char *block, const void *buffer,
                             size_t count)
{
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        double got = get(dtype, buffer, i), expected = get(dtype, block, i);
        wrong += !(fabs(got - expected) <= tolerance * fabs(expected)); /* a NaN is wrong */
    }
    return wrong;
}

static size_t compare_blocks(enum halay_dtype dtype, double tolerance, const unsigned char *block, const void *buffer,
                             size_t count)
{
    size_t bytes = halay_dtype_size(dtype), wrong = 0;

    for (size_t i = 0; i < count; i += BLOCK) {
        size_t n = least(count - i, BLOCK);
        const unsigned char *at = (const unsigned char *)buffer + i * bytes;
        if (memcmp(at, block, n * bytes))
            wrong += wrong_in_block(dtype, tolerance, block, at, n);
    }
    return wrong;
}

size_t perf_pattern_wrong(const struct perf_pattern *pattern, size_t phase, const void *buffer, size_t count)
{
    const unsigned char *block = pattern->plain + phase % PERIOD * halay_dtype_size(pattern->dtype);

    return compare_blocks(pattern->dtype, 0, block, buffer, count);
}

size_t perf_pattern_wrong_reduced(const struct perf_pattern *pattern, size_t phase, const void *buffer, size_t count)
{
    const unsigned char *block = pattern->reduced + phase % PERIOD * halay_dtype_size(pattern->dtype);

    return compare_blocks(pattern->dtype, pattern->tolerance, block, buffer, count);
}
