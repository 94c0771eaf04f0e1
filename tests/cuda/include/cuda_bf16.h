/* SPDX-License-Identifier: Apache-2.0
 *
 * bfloat16: conversions, to nearest with ties to even.
 */
#ifndef EMU_CUDA_BF16_H
#define EMU_CUDA_BF16_H

#include "cuda_runtime.h"

#ifdef __cplusplus
struct alignas(2) __nv_bfloat16 {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
inline float __bfloat162float(__nv_bfloat16 h)
{
    return __uint_as_float((unsigned)h.bits << 16);
}
inline __nv_bfloat16 __float2bfloat16(float f)
{
    unsigned u = __float_as_uint(f);
    return { (uint16_t)(f != f ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16) };
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 h)
{
    return h.bits;
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return { __float2bfloat16(x), __float2bfloat16(y) };
}
inline float2 __bfloat1622float2(__nv_bfloat162 h)
{
    return { __bfloat162float(h.x), __bfloat162float(h.y) };
}
#endif

#endif
