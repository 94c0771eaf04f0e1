/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling: plain loops that the compiler makes vectors of; halves go through a small array of f32 with the conversions
 * that the reductions use.
 */
#include "collectives/reduce/scale.h"
#include "collectives/reduce/reduce.h"
#include <stdint.h>

enum { HALVES_AT_ONCE = 1024 };

static void scale_f32(float *out, const float *in, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] * factor;
}

static void scale_f64(double *out, const double *in, size_t count, double factor)
{
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] * factor;
}

static void scale_halves(uint16_t *out, const uint16_t *in, size_t count, enum halay_dtype dtype, float factor)
{
    const struct halay_reducer *reducer = halay_reducer_best();
    float wide[HALVES_AT_ONCE];

    for (size_t i = 0; i < count; i += HALVES_AT_ONCE) {
        size_t n = count - i < HALVES_AT_ONCE ? count - i : HALVES_AT_ONCE;
        reducer->widen[dtype](wide, in + i, n);
        scale_f32(wide, wide, n, factor);
        reducer->narrow[dtype](out + i, wide, n);
    }
}

/* The product is strictly between the limits' neighbours, or becomes a limit. The limits of i64 are not doubles, but
 * every double below 2^63 fits. */
#define SCALE_INTEGER(name, type, least, most, beyond)                         \
    static void name(type *out, const type *in, size_t count, double factor)   \
    {                                                                          \
        for (size_t i = 0; i < count; i++) {                                   \
            double product = (double)in[i] * factor;                           \
            if (product >= (beyond))                                           \
                out[i] = (most);                                               \
            else                                                               \
                out[i] = product <= (double)(least) ? (least) : (type)product; \
        }                                                                      \
    }
SCALE_INTEGER(scale_i8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
SCALE_INTEGER(scale_u8, uint8_t, 0, UINT8_MAX, 0x1p8)
SCALE_INTEGER(scale_i16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
SCALE_INTEGER(scale_u16, uint16_t, 0, UINT16_MAX, 0x1p16)
SCALE_INTEGER(scale_i32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
SCALE_INTEGER(scale_i64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)

int halay_scale_takes(enum halay_dtype dtype)
{
    return dtype != HALAY_BOOL && halay_dtype_size(dtype) > 0;
}

void halay_scale(void *out, const void *in, size_t count, enum halay_dtype dtype, double factor)
{
    switch (dtype) {
    case HALAY_F32:
        scale_f32(out, in, count, (float)factor);
        break;
    case HALAY_F64:
        scale_f64(out, in, count, factor);
        break;
    case HALAY_F16:
    case HALAY_BF16:
        scale_halves(out, in, count, dtype, (float)factor);
        break;
    case HALAY_I32:
        scale_i32(out, in, count, factor);
        break;
    case HALAY_I64:
        scale_i64(out, in, count, factor);
        break;
    case HALAY_U8:
        scale_u8(out, in, count, factor);
        break;
    case HALAY_I8:
        scale_i8(out, in, count, factor);
        break;
    case HALAY_U16:
        scale_u16(out, in, count, factor);
        break;
    case HALAY_I16:
        scale_i16(out, in, count, factor);
        break;
    default:
        break;
    }
}
