/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaling: plain loops that the compiler makes vectors of; halves go through a small array of f32 with the conversions
 * that the reductions use.
 */
#include "collectives/reduce/scale.h"
#include "collectives/reduce/reduce.h"
#include <stdint.h>

enum { HALVES_AT_ONCE = 1024 };

#define SCALE_FLOAT(name, type)                                                       \
    static void scale_##name(void *to, const void *from, size_t count, double factor) \
    {                                                                                 \
        type *out = to;                                                               \
        const type *in = from;                                                        \
                                                                                      \
        for (size_t i = 0; i < count; i++)                                            \
            out[i] = in[i] * (type)factor;                                            \
    }
SCALE_FLOAT(f32, float)
SCALE_FLOAT(f64, double)

static void scale_halves(enum halay_dtype dtype, uint16_t *out, const uint16_t *in, size_t count, double factor)
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

static void scale_f16(void *out, const void *in, size_t count, double factor)
{
    scale_halves(HALAY_F16, out, in, count, factor);
}

static void scale_bf16(void *out, const void *in, size_t count, double factor)
{
    scale_halves(HALAY_BF16, out, in, count, factor);
}

/* The product is strictly between the limits' neighbours, or becomes a limit. The limits of i64 are not doubles, but
 * every double below 2^63 fits. */
#define SCALE_INTEGER(name, type, least, most, beyond)                                \
    static void scale_##name(void *to, const void *from, size_t count, double factor) \
    {                                                                                 \
        type *out = to;                                                               \
        const type *in = from;                                                        \
                                                                                      \
        for (size_t i = 0; i < count; i++) {                                          \
            double product = (double)in[i] * factor;                                  \
            if (product >= (beyond))                                                  \
                out[i] = (most);                                                      \
            else                                                                      \
                out[i] = product <= (double)(least) ? (least) : (type)product;        \
        }                                                                             \
    }
SCALE_INTEGER(i8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
SCALE_INTEGER(u8, uint8_t, 0, UINT8_MAX, 0x1p8)
SCALE_INTEGER(i16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
SCALE_INTEGER(u16, uint16_t, 0, UINT16_MAX, 0x1p16)
SCALE_INTEGER(i32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
SCALE_INTEGER(i64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)

int halay_scale_takes(enum halay_dtype dtype)
{
    return dtype != HALAY_BOOL && halay_dtype_size(dtype) > 0;
}

void halay_scale(void *out, const void *in, size_t count, enum halay_dtype dtype, double factor)
{
    static void (*const scale[HALAY_DTYPE_COUNT])(void *, const void *, size_t, double) = {
        [HALAY_F32] = scale_f32, [HALAY_F64] = scale_f64, [HALAY_F16] = scale_f16, [HALAY_BF16] = scale_bf16,
        [HALAY_I32] = scale_i32, [HALAY_I64] = scale_i64, [HALAY_U8] = scale_u8,   [HALAY_I8] = scale_i8,
        [HALAY_U16] = scale_u16, [HALAY_I16] = scale_i16,
    };

    if (halay_scale_takes(dtype))
        scale[dtype](out, in, count, factor);
}
