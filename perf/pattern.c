/* SPDX-License-Identifier: Apache-2.0
 *
 * Pattern: filling and checking are copies and comparisons of one block that repeats, so that they cost less than what
 * is measured between them. Any state from all zeros on may be given to fini.
 */
#include "perf/pattern.h"
#include "base/half.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 5, REPEATS = 512 }; /* a block of some kilobytes: fits the first cache, and is worth a memcpy */

static void put(enum halay_dtype dtype, void *base, size_t i, double value)
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
    default:
        ((int64_t *)base)[i] = (int64_t)value;
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
    default:
        return (double)((const int64_t *)base)[i];
    }
}

static double element(size_t i, int rank)
{
    return (double)((i + (size_t)rank) % PERIOD + 1);
}

static double reduced(size_t i, enum halay_op op, int size)
{
    double sum = 0, least = INFINITY, most = -INFINITY;

    for (int r = 0; r < size; r++) {
        double x = element(i, r);
        sum += x;
        least = fmin(least, x);
        most = fmax(most, x);
    }
    switch (op) {
    case HALAY_MIN:
        return least;
    case HALAY_MAX:
        return most;
    case HALAY_AVERAGE:
        return sum / size;
    default:
        return sum;
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

enum halay_status perf_pattern_init(struct perf_pattern *pattern, enum halay_dtype dtype, enum halay_op op, int rank,
                                    int size)
{
    struct perf_pattern p = { .dtype = dtype, .period = PERIOD * REPEATS };
    size_t bytes = p.period * halay_dtype_size(dtype);

    p.mine = malloc(bytes);
    p.expected = malloc(bytes);
    if (!p.mine || !p.expected) {
        perf_pattern_fini(&p);
        return HALAY_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < p.period; i++) {
        put(dtype, p.mine, i, element(i, rank));
        put(dtype, p.expected, i, reduced(i, op, size));
    }
    /* Whole numbers up to 2 / epsilon are exact. A quotient may be rounded one way or the other, and sums beyond that
     * range at every step. */
    double e = epsilon(dtype);
    if (e > 0 && (op == HALAY_AVERAGE || (op == HALAY_SUM && (double)PERIOD * size > 2 / e)))
        p.tolerance = e * (op == HALAY_AVERAGE ? 1 : size);
    *pattern = p;
    return HALAY_OK;
}

void perf_pattern_fini(struct perf_pattern *pattern)
{
    free(pattern->mine);
    free(pattern->expected);
    pattern->mine = pattern->expected = NULL;
}

void perf_pattern_fill(const struct perf_pattern *pattern, void *buffer, size_t count)
{
    size_t element_bytes = halay_dtype_size(pattern->dtype);

    for (size_t i = 0; i < count; i += pattern->period) {
        size_t n = count - i < pattern->period ? count - i : pattern->period;
        memcpy((unsigned char *)buffer + i * element_bytes, pattern->mine, n * element_bytes);
    }
}

static size_t wrong_in_block(const struct perf_pattern *pattern, const void *block, size_t count)
{
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        double got = get(pattern->dtype, block, i), expected = get(pattern->dtype, pattern->expected, i);
        wrong += !(fabs(got - expected) <= pattern->tolerance * fabs(expected)); /* a NaN is wrong */
    }
    return wrong;
}

size_t perf_pattern_wrong(const struct perf_pattern *pattern, const void *buffer, size_t count)
{
    size_t element_bytes = halay_dtype_size(pattern->dtype), wrong = 0;

    for (size_t i = 0; i < count; i += pattern->period) {
        size_t n = count - i < pattern->period ? count - i : pattern->period;
        const unsigned char *block = (const unsigned char *)buffer + i * element_bytes;
        if (memcmp(block, pattern->expected, n * element_bytes))
            wrong += wrong_in_block(pattern, block, n);
    }
    return wrong;
}
