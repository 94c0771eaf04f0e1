/* SPDX-License-Identifier: Apache-2.0
 *
 * binary16: conversions, to nearest with ties to even.
 */
#ifndef EMU_CUDA_FP16_H
#define EMU_CUDA_FP16_H

#include "base/half.h"
#include "cuda_runtime.h"

#ifdef __cplusplus
struct alignas(2) __half {
    uint16_t bits;
};
inline __half __ushort_as_half(unsigned short bits)
{
    return { bits };
}
inline unsigned short __half_as_ushort(__half h)
{
    return h.bits;
}
inline float __half2float(__half h)
{
    return halay_f16_to_f32(h.bits);
}
inline __half __float2half_rn(float f)
{
    return { halay_f32_to_f16(f) };
}
#endif

#endif
